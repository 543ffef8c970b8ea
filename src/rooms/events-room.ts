import type { AuthContext } from "@colyseus/core";
import { schema, type SchemaType, t } from "@colyseus/schema";
import { z } from "zod";
import type { App } from "../app.ts";
import { forbidden } from "../domain/kernel/errors.ts";
import { eventsTopic, type EventHandled } from "../domain/kernel/topics.ts";
import { EVENT_TYPES_ASKED_MAX, namesOf, readHandled } from "../domain/tracking/events.ts";
import { readActiveMembers } from "../domain/player-lifecycle/ws-tokens.ts";
import { authenticate } from "./authenticate.ts";
import { pinOptions, parse } from "./room-input.ts";
import { CLOSE } from "./messages.ts";
import { gameRoom, openRoomsOf, type Source, source, transactIn } from "./mirror-room.ts";
import { RefreshedRoom } from "./refreshed-room.ts";

/** Maximum number of watchers in one room; further watchers get another room of the same events. */
const WATCHERS_MAX = 100;
const EVENTS_SHARDS = 8;
/** Pause between two messages while events keep coming, in ms. */
const REFRESH_PAUSE_MS = { min: 250, max: 1_000 } as const;
/** Events that are looked up for one message; the newest ones, where more have come. */
const LOOKED_UP_MAX = 1_000;
/** Events of one message. */
const SHOWN_MAX = 100;
/** Bytes of properties of one message; a single event may have more. */
const SHOWN_BYTES_MAX = 64 * 1024;

/** What the room shows; "" for all. */
const EventsState = schema(
  { eventTypes: t.string().default(""), player: t.string().default(""), status: t.string().default("") },
  "EventsState",
);
type EventsState = SchemaType<typeof EventsState>;

const EventTypes = z.array(z.string().min(1).max(100)).max(EVENT_TYPES_ASKED_MAX).default([]);
const JoinOptions = z.object({
  eventType: EventTypes,
  playerId: z.string().max(300).default(""),
  status: z.enum(["", "PROCESSED", "FAILED", "REJECTED"]).default(""),
});
const RoomOptions = JoinOptions.omit({ eventType: true }).extend({
  projectId: z.uuid(),
  tenantId: z.uuid().optional(),
  /** A JSON list, sorted. */
  eventTypes: z.string(),
});

/**
 * Room `events`: the events of a project as they are decided, for console users. It has no memory: what a
 * notice was lost about is not sent, and the list of events has all.
 */
export abstract class EventsRoom extends RefreshedRoom<EventsState> {
  protected override readonly pauseMs = REFRESH_PAUSE_MS;
  override state = new EventsState();
  override maxClients = WATCHERS_MAX;
  #query!: z.output<typeof RoomOptions>;
  #types!: ReadonlySet<string>;
  /** External ids of the player; undefined for all players. */
  #names: ReadonlySet<string> | undefined;
  #waiting: string[] = [];
  #skipped = 0;

  protected override follow(options: object): Source[] {
    this.#query = parse(RoomOptions, options);
    const { projectId, eventTypes, playerId: player, status } = this.#query;
    const types = parse(EventTypes, JSON.parse(eventTypes));
    this.#types = new Set(types);
    this.state.assign({ eventTypes: types.join(","), player, status });
    return [source<EventHandled[]>(eventsTopic(projectId), (handled) => this.#take(handled))];
  }

  protected override owner() {
    return this.#query;
  }

  protected override shards() {
    const { projectId, eventTypes, playerId, status } = this.#query;
    const subject = ["events", projectId, eventTypes, playerId, status];
    return { subject, count: EVENTS_SHARDS, what: "project's events" };
  }

  protected override async load(): Promise<void> {
    const { projectId, playerId } = this.#query;
    if (playerId !== "")
      this.#names = new Set(
        await transactIn(this.app, projectId)((work) => namesOf(work, projectId, playerId)),
      );
    await super.load();
  }

  protected override welcome(): void {}

  protected override farewell(): void {}

  #take(handled: readonly EventHandled[]): void {
    for (const [id, type, name] of handled)
      if ((this.#types.size === 0 || this.#types.has(type)) && this.#names?.has(name) !== false)
        this.#waiting.push(id);
    const over = this.#waiting.length - LOOKED_UP_MAX;
    if (over > 0) {
      this.#waiting.splice(0, over);
      this.#skipped += over;
    }
    if (this.#waiting.length > 0) this.rereadSoon();
  }

  protected override async refresh(): Promise<void> {
    const ids = this.#waiting.splice(0);
    if (ids.length === 0) return;
    const { projectId, status } = this.#query;
    const limits = { limit: SHOWN_MAX, bytesMax: SHOWN_BYTES_MAX };
    const asked = { ids, status: status === "" ? undefined : status, ...limits };
    try {
      const { events, found } = await transactIn(
        this.app,
        projectId,
      )((work) => readHandled(work, projectId, asked));
      const skipped = this.#skipped + found - events.length;
      this.#skipped = 0;
      if (events.length > 0 || skipped > 0)
        this.sendToAll("events", { events: events.toReversed(), skipped });
    } catch (error) {
      this.#skipped += ids.length;
      throw error;
    }
  }

  /** Ids of the users who watch. */
  watchers(): string[] {
    return this.clients.flatMap(({ auth }) => auth?.userId ?? []);
  }

  /** Ends the sessions of users who are none of these members. */
  keepOnly(members: ReadonlySet<string>, asked: ReadonlySet<string>): void {
    for (const client of this.clients) {
      const userId = client.auth?.userId ?? "";
      if (asked.has(userId) && !members.has(userId)) this.end(client, CLOSE.FORBIDDEN, "REMOVED");
    }
  }
}

/** Creates the room `events` of an application. */
export const eventsRoom = (app: App) => {
  const open = openRoomsOf<EventsRoom>(app, "rooms of events", async (rooms) => {
    const asked = new Set(rooms.flatMap((room) => room.watchers()));
    if (asked.size === 0) return;
    const members = await readActiveMembers(app.transactAs({ role: "accounts" }), [...asked]);
    for (const room of rooms) room.keepOnly(members, asked);
  });
  const room = class extends EventsRoom {
    protected readonly app = app;
    protected readonly open = open;

    static override async onAuth(token: string, options: object, context: AuthContext): Promise<unknown> {
      const principal = await authenticate(app, token, context);
      if (principal.playerId !== null)
        throw forbidden("CONSOLE_TOKEN_REQUIRED", "this room requires the token of a console user");
      const { eventType } = parse(JoinOptions, options);
      const { projectId, tenantId } = principal;
      const eventTypes = JSON.stringify([...new Set(eventType)].toSorted());
      pinOptions(options, JoinOptions.omit({ eventType: true }), { projectId, tenantId, eventTypes });
      return principal;
    }
  };
  return gameRoom({ room, selectedBy: ["projectId", "eventTypes", "playerId", "status"], isCrowd: true });
};
