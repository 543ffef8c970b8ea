import { type AuthContext, matchMaker } from "@colyseus/core";
import { type ArraySchema, schema, type SchemaType, StateView, t } from "@colyseus/schema";
import { z } from "zod";
import type { App } from "../app.ts";
import { DomainError } from "../domain/errors.ts";
import { periodTopic } from "../domain/topics.ts";
import { authenticate, pinOptions, requirePlayer } from "./authenticate.ts";
import { type BoardLine, type BoardReader, type BoardView, createBoardReader } from "./board-reader.ts";
import { parse } from "./errors.ts";
import { type LiveClient, LiveRoom } from "./live-room.ts";
import { BOARD_SHARDS, type BoardRoomKey, leaderboardRoomId } from "./room-ids.ts";
import { createTicker, type Ticker } from "./ticker.ts";

export const TOP_DEFAULT = 10;
export const TOP_MAX = 100;
export const AROUND_MAX = 25;
/** Watchers of one room; the next ones get another room of the same board. */
export const WATCHERS_MAX = 500;
/** A board that changes all the time is read this often. */
export const REFRESH_EVERY_MS = 250;
/** A board that nobody says has changed is read again this often, in case the word was lost. */
export const REREAD_EVERY_MS = 5_000;
const REFRESH_RETRY_MS = 1_000;

export const BoardRow = schema(
  {
    rank: t.uint32(),
    playerId: t.string(),
    externalUserId: t.string(),
    displayName: t.string(),
    score: t.number(),
  },
  "BoardRow",
);
export type BoardRow = SchemaType<typeof BoardRow>;

/** One watcher's own place; `rank` is 0 without an entry. */
export const BoardPlace = schema(
  { rank: t.uint32().default(0), score: t.number().default(0), rows: t.array(BoardRow) },
  "BoardPlace",
);
export type BoardPlace = SchemaType<typeof BoardPlace>;

export const LeaderboardState = schema(
  {
    leaderboardKey: t.string().default(""),
    name: t.string().default(""),
    status: t.string().default(""),
    size: t.number().default(0),
    top: t.array(BoardRow),
    /** By session id; each client sees its own only. */
    me: t.map(BoardPlace).view(),
  },
  "LeaderboardState",
);
export type LeaderboardState = SchemaType<typeof LeaderboardState>;

const JoinOptions = z.object({
  leaderboardKey: z.string().min(1).max(255),
  /** Boards are whole until they can be broken down by an attribute. */
  board: z.literal("", { error: "the leaderboard is not broken down: leave board out" }).optional(),
  top: z.int().min(1).max(TOP_MAX).default(TOP_DEFAULT),
  around: z.int().min(0).max(AROUND_MAX).default(0),
});
const RoomOptions = z.object({ projectId: z.uuid(), leaderboardKey: z.string(), top: z.int() });

type OpenRoom = { refreshSoon(): void };
type Watcher = { playerId: string; around: number; place: BoardPlace };

/** Overwrites rows in place, so that only what changed travels. */
export const syncRows = (rows: ArraySchema<BoardRow>, lines: readonly BoardLine[]): void => {
  for (const [i, line] of lines.entries()) {
    const row = rows[i];
    if (!row) rows.push(new BoardRow().assign(line));
    else assignChanged(row, line);
  }
  while (rows.length > lines.length) rows.pop();
};

const assignChanged = <T extends object>(target: T, values: Partial<T>): void => {
  for (const [name, value] of Object.entries(values) as [keyof T, T[keyof T]][]) {
    if (target[name] !== value) target[name] = value;
  }
};

/**
 * Room `leaderboard`: the first places of a board for everybody in it, and for each watcher their own place.
 * A mirror of the rank index; there may be several rooms of one board.
 */
abstract class LeaderboardRoom extends LiveRoom<LeaderboardState> implements OpenRoom {
  protected abstract readonly open: Ticker<OpenRoom>;
  protected override readonly stateBytes = 16_384;
  override state = new LeaderboardState();
  override maxClients = WATCHERS_MAX;
  #read!: BoardReader;
  #top = TOP_DEFAULT;
  #periodId = "";
  #stopListening: (() => void) | undefined;
  #isRefreshing = false;
  #isDirty = false;
  #isScheduled = false;
  #refreshedAtMs = -Infinity;
  readonly #watchers = new Map<string, Watcher>();

  override async onCreate(options: object): Promise<void> {
    await super.onCreate(options);
    const key = parse(RoomOptions, options);
    this.#read = createBoardReader(this.app, key.projectId, key.leaderboardKey);
    this.#top = key.top;
    await this.#refresh();
    this.roomId = await freeRoomId(key);
    this.open.add(this);
    this.onceDisposed(() => this.open.remove(this));
    if (this.#isDirty) this.refreshSoon();
  }

  /** Reads the board again, at once or when the last time is REFRESH_EVERY_MS ago. */
  refreshSoon(): void {
    this.#isDirty = true;
    if (this.#isRefreshing || this.#isScheduled) return;
    this.#schedule(Math.max(0, this.#refreshedAtMs + REFRESH_EVERY_MS - performance.now()));
  }

  protected override async welcome(client: LiveClient, options: object, isBack: boolean): Promise<void> {
    const { playerId } = client.auth!;
    if (isBack || playerId === null) return;
    const { around } = parse(JoinOptions, { leaderboardKey: "-", ...options });
    const place = new BoardPlace();
    this.#watchers.set(client.sessionId, { playerId, around, place });
    this.state.me.set(client.sessionId, place);
    client.view = new StateView();
    client.view.add(place);
    // A place of its own is worth a read of its own: the state that the join sends has it.
    this.#show(await this.#read({ top: this.#top, watchers: new Map([[playerId, around]]) }), [
      client.sessionId,
    ]);
  }

  protected override farewell(client: LiveClient): void {
    client.view?.dispose();
    this.#watchers.delete(client.sessionId);
    this.state.me.delete(client.sessionId);
  }

  #schedule(delayMs: number): void {
    this.#isScheduled = true;
    this.later(delayMs, async () => {
      this.#isScheduled = false;
      let againMs = REFRESH_EVERY_MS;
      try {
        await this.#refresh();
      } catch (error) {
        this.report(error, "refresh");
        this.#isDirty = true;
        againMs = REFRESH_RETRY_MS;
      }
      if (this.#isDirty) this.#schedule(againMs);
    });
  }

  async #refresh(): Promise<void> {
    this.#isDirty = false;
    this.#isRefreshing = true;
    this.#refreshedAtMs = performance.now();
    try {
      const watchers = new Map<string, number>();
      for (const { playerId, around } of this.#watchers.values()) {
        watchers.set(playerId, Math.max(around, watchers.get(playerId) ?? 0));
      }
      const view = await this.#read({ top: this.#top, watchers });
      this.#show(view, [...this.#watchers.keys()]);
      await this.#follow(view);
    } finally {
      this.#isRefreshing = false;
    }
  }

  #show(
    { leaderboard: { key, name, status }, size, top, places }: BoardView,
    sessionIds: readonly string[],
  ): void {
    assignChanged(this.state, { leaderboardKey: key, name, status, size });
    syncRows(this.state.top, top);
    for (const sessionId of sessionIds) {
      const watcher = this.#watchers.get(sessionId);
      const found = watcher && places.get(watcher.playerId);
      if (!found) continue;
      assignChanged(watcher.place, { rank: found.rank, score: found.score });
      syncRows(watcher.place.rows, watcher.around > 0 ? found.rows : []);
    }
    if (this.clients.length > 0) this.broadcastPatch();
  }

  /** Listens to the board's period, which changes when the board is filled anew. */
  async #follow({ leaderboard: { projectId, periodId } }: BoardView): Promise<void> {
    if (periodId === this.#periodId) return;
    this.#stopListening?.();
    this.#periodId = periodId;
    this.#stopListening = await this.listen(periodTopic(projectId, periodId), () => this.refreshSoon());
    // Between the read and the subscription the board may have changed.
    this.refreshSoon();
  }
}

/** The first room id of a board that is not taken; of two rooms with one id the driver keeps one. */
const freeRoomId = async (key: BoardRoomKey): Promise<string> => {
  for (let shard = 0; shard < BOARD_SHARDS; shard++) {
    const id = leaderboardRoomId(key, shard);
    if (!(await matchMaker.driver.has(id))) return id;
  }
  throw new DomainError("SERVICE_UNAVAILABLE", "too many watch this leaderboard", { retryAfterSeconds: 10 });
};

/** The class of room `leaderboard` for an application. */
export const leaderboardRoom = (app: App) => {
  const open: Ticker<OpenRoom> = createTicker({
    everyMs: REREAD_EVERY_MS,
    run: async (rooms) => {
      for (const room of rooms) room.refreshSoon();
    },
    onError: (error) => app.log.error({ err: error }, "open leaderboard rooms could not be read again"),
  });
  return class extends LeaderboardRoom {
    protected readonly app = app;
    protected readonly open = open;

    static override async onAuth(token: string, options: object, context: AuthContext): Promise<unknown> {
      const principal = await authenticate(app, token, context);
      await requirePlayer(app, principal);
      pinOptions(options, JoinOptions, { projectId: principal.projectId });
      return principal;
    }
  };
};
