import { createHash } from "node:crypto";
import type { AuthContext } from "@colyseus/core";
import { schema, type SchemaType, t } from "@colyseus/schema";
import { z } from "zod";
import type { App } from "../app.ts";
import { invalid } from "../domain/kernel/errors.ts";
import type { Json } from "../domain/kernel/events/events.ts";
import { readOpenLobbies } from "../domain/social/lobbies/open-lobbies.ts";
import { LOBBIES_FILTER_MAX_BYTES, LOBBIES_SHOWN_MAX } from "../domain/social/lobbies/fields.ts";
import { lobbiesTopic } from "../domain/kernel/topics.ts";
import { refuseHostile } from "../domain/kernel/hostile-json.ts";
import { createPlayerAuthentication } from "./authenticate.ts";
import { pinOptions, parse } from "./room-input.ts";
import { gameRoom, source, type Source, transactIn, assignChanged, syncMap } from "./mirror-room.ts";
import { openRefreshedRoomsOf, RefreshedRoom } from "./refreshed-room.ts";

/** Maximum number of watchers in one room; further watchers get another room of the same list. */
export const LOBBIES_WATCHERS_MAX = 500;
/** Maximum number of rooms per list. */
const LOBBIES_SHARDS = 32;
/** Pause between two reads of a constantly changing list, in ms. */
const REFRESH_PAUSE_MS = { min: 250, max: 2_500 } as const;

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
  tenantId: z.uuid().optional(),
  mode: z.string(),
  filter: z.string(),
  metadata: z.record(z.string(), z.json()).optional(),
});

/** Room `lobbies`: the newest PUBLIC lobbies of a project that are OPEN; there may be several of one list. */
abstract class LobbiesRoom extends RefreshedRoom<LobbiesState> {
  protected override readonly pauseMs = REFRESH_PAUSE_MS;
  override state = new LobbiesState();
  override maxClients = LOBBIES_WATCHERS_MAX;
  #query!: z.output<typeof RoomOptions>;

  protected override follow(options: object): Source[] {
    this.#query = parse(RoomOptions, options);
    return [source(lobbiesTopic(this.#query.projectId), () => this.rereadSoon())];
  }

  protected override owner() {
    return this.#query;
  }

  protected override shards() {
    const { projectId, mode, filter } = this.#query;
    return { subject: ["lobbies", projectId, mode, filter], count: LOBBIES_SHARDS, what: "list of lobbies" };
  }

  protected override welcome(): void {}

  protected override farewell(): void {}

  protected override async refresh(): Promise<void> {
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

/** Creates the room `lobbies` of an application. */
export const lobbiesRoom = (app: App) => {
  const authenticated = createPlayerAuthentication(app);
  const open = openRefreshedRoomsOf(app, "lists of lobbies");
  const room = class extends LobbiesRoom {
    protected readonly app = app;
    protected readonly open = open;

    static override async onAuth(token: string, options: object, context: AuthContext): Promise<unknown> {
      const principal = await authenticated(token, context);
      refuseHostile("", options);
      const { metadata } = parse(JoinOptions, options);
      const { projectId, tenantId } = principal;
      pinOptions(options, JoinOptions, { projectId, tenantId, filter: filterOf(metadata) });
      return principal;
    }
  };
  return gameRoom({ room, selectedBy: ["projectId", "mode", "filter"], isCrowd: true });
};
