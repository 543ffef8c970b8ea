import { createHash } from "node:crypto";
import type { AuthContext } from "@colyseus/core";
import { schema, type SchemaType, t } from "@colyseus/schema";
import { z } from "zod";
import type { App } from "../app.ts";
import { invalid } from "../domain/kernel/errors.ts";
import type { Json } from "../domain/kernel/events/events.ts";
import { readOpenLobbies } from "../domain/social/lobbies/open-lobbies.ts";
import { LOBBIES_FILTER_MAX_BYTES, LOBBIES_SHOWN_MAX } from "../domain/social/lobbies/room-limits.ts";
import { lobbiesTopic } from "../domain/kernel/events/topics.ts";
import { refuseHostile } from "../domain/kernel/hostile-json.ts";
import { authenticate, pinOptions, createPlayerCheck } from "./authenticate.ts";
import { parse } from "./errors.ts";
import { freeRoomId } from "./free-room-id.ts";
import { LiveRoom } from "./live-room.ts";
import { refreshPauseMs, type RefreshSlots } from "./refresh-slots.ts";
import { Refresher } from "./refresher.ts";
import { LOBBIES_SHARDS, lobbiesRoomId } from "./room-ids.ts";
import { transactIn } from "./project-transact.ts";
import { assignChanged, syncMap } from "./state-sync.ts";
import { createTicker, type Ticker } from "./ticker.ts";

/** Maximum number of watchers in one room; further watchers get another room of the same list. */
export const LOBBIES_WATCHERS_MAX = 500;
/** Pause between two reads of a constantly changing list, in ms. */
const REFRESH_PAUSE_MS = { min: 250, max: 2_500 } as const;
/** A list without reported changes is read again this often, in case a publish was lost. */
export const REREAD_EVERY_MS = 5_000;

export const LobbyRow = schema(
  {
    id: t.string(),
    code: t.string(),
    name: t.string(),
    mode: t.string(),
    memberCount: t.uint16(),
    maxPlayers: t.uint16(),
    hasPasscode: t.boolean(),
    /** JSON text. */
    metadata: t.string(),
    createdAt: t.string(),
  },
  "LobbyRow",
);
export type LobbyRow = SchemaType<typeof LobbyRow>;

export const LobbiesState = schema(
  {
    /** "" for all modes. */
    mode: t.string().default(""),
    /** By id, unordered: the newest have the greatest `createdAt`. */
    lobbies: t.map(LobbyRow),
  },
  "LobbiesState",
);
export type LobbiesState = SchemaType<typeof LobbiesState>;

const JoinOptions = z.object({
  mode: z.string().max(100).default(""),
  metadata: z.record(z.string(), z.json()).optional(),
});
const RoomOptions = z.object({
  projectId: z.uuid(),
  mode: z.string(),
  filter: z.string(),
  metadata: z.record(z.string(), z.json()).optional(),
});

type OpenRoom = { refreshSoon(): void };

/** Room `lobbies`: the newest PUBLIC lobbies of a project that are OPEN; there may be several of one list. */
abstract class LobbiesRoom extends LiveRoom<LobbiesState> implements OpenRoom {
  protected abstract readonly open: Ticker<OpenRoom>;
  protected abstract readonly slots: RefreshSlots;
  protected override readonly stateBytes = 16_384;
  override state = new LobbiesState();
  override maxClients = LOBBIES_WATCHERS_MAX;
  #query: { projectId: string; mode: string; metadata?: Json | undefined } = { projectId: "", mode: "" };
  readonly #refresher = new Refresher({
    everyMs: () =>
      refreshPauseMs(REFRESH_PAUSE_MS, { watchers: this.clients.length, rooms: this.open.count() }),
    run: () => this.slots.run(this.#query.projectId, () => this.#refresh()),
    later: (delayMs, run) => this.later(delayMs, run),
    onError: (error) => this.report(error, "refresh"),
  });

  protected override async begin(options: object): Promise<void> {
    const key = parse(RoomOptions, options);
    this.#query = key;
    await this.listen(lobbiesTopic(key.projectId), () => this.refreshSoon());
    await this.#refresher.now();
    this.roomId = await freeRoomId((shard) => lobbiesRoomId(key, shard), LOBBIES_SHARDS, "list of lobbies");
    this.open.add(this);
    this.onceDisposed(() => this.open.remove(this));
  }

  refreshSoon(): void {
    this.#refresher.soon();
  }

  protected override welcome(): void {}

  protected override farewell(): void {}

  async #refresh(): Promise<void> {
    const { projectId, mode, metadata } = this.#query;
    const lobbies = await transactIn(
      this.app,
      projectId,
    )((work) => readOpenLobbies(work, projectId, { mode, metadata, limit: LOBBIES_SHOWN_MAX }));
    assignChanged(this.state, { mode });
    const rows = new Map(
      lobbies.map((lobby) => [lobby.id, { ...lobby, metadata: JSON.stringify(lobby.metadata) }]),
    );
    syncMap(this.state.lobbies, rows, () => new LobbyRow());
    if (this.clients.length > 0) this.broadcastPatch();
  }
}

/** Returns one name for equal filters, whatever the order of their keys. */
const filterOf = (metadata: Json | undefined): string => {
  if (!metadata || Object.keys(metadata).length === 0) return "";
  const text = JSON.stringify(Object.entries(metadata).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  if (Buffer.byteLength(text) > LOBBIES_FILTER_MAX_BYTES)
    throw invalid("metadata", `must be at most ${LOBBIES_FILTER_MAX_BYTES} bytes of JSON`);
  return createHash("sha256").update(text).digest("base64url");
};

/** Creates the class of room `lobbies` for an application. */
export const lobbiesRoom = (app: App, slots: RefreshSlots) => {
  const requirePlayer = createPlayerCheck(app);
  const open: Ticker<OpenRoom> = createTicker({
    everyMs: REREAD_EVERY_MS,
    run: async (rooms) => {
      for (const room of rooms) room.refreshSoon();
    },
    onError: (error) => app.log.error({ err: error }, "open lists of lobbies could not be read again"),
  });
  return class extends LobbiesRoom {
    protected readonly app = app;
    protected readonly open = open;
    protected readonly slots = slots;

    static override async onAuth(token: string, options: object, context: AuthContext): Promise<unknown> {
      const principal = await authenticate(app, token, context);
      await requirePlayer(principal);
      refuseHostile("", options);
      const { metadata } = parse(JoinOptions, options);
      pinOptions(options, JoinOptions, { projectId: principal.projectId, filter: filterOf(metadata) });
      return principal;
    }
  };
};
