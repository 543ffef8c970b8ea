import type { AuthContext } from "@colyseus/core";
import { type ArraySchema, schema, type SchemaType, StateView, t } from "@colyseus/schema";
import { z } from "zod";
import type { App } from "../app.ts";
import type { BoardList } from "../domain/leaderboards/board-list.ts";
import type { LeaderboardEvents } from "../domain/realtime-events.ts";
import { boardTopic, periodTopic } from "../domain/topics.ts";
import { authenticate, pinOptions, requirePlayer } from "./authenticate.ts";
import {
  type BoardLine,
  type BoardReader,
  type BoardView,
  createBoardReader,
  type Place,
} from "./board-reader.ts";
import { parse } from "./errors.ts";
import { freeRoomId } from "./free-room-id.ts";
import { type LiveClient, LiveRoom } from "./live-room.ts";
import { live } from "./messages.ts";
import { Refresher } from "./refresher.ts";
import { BOARD_SHARDS, leaderboardRoomId } from "./room-ids.ts";
import { assignChanged } from "./state-sync.ts";
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
    /** The value of the breakdown; "" without one. */
    board: t.string().default(""),
    /** The window that is shown: that which runs now. */
    periodKey: t.string().default(""),
    /** When it ends, as ISO 8601; "" for never. */
    endsAt: t.string().default(""),
    size: t.number().default(0),
    top: t.array(BoardRow),
    /** By session id; each client sees its own only. */
    me: t.map(BoardPlace).view(),
  },
  "LeaderboardState",
);
export type LeaderboardState = SchemaType<typeof LeaderboardState>;

/** Length of a value of a breakdown. */
const BOARD_VALUE_MAX = 64;

const JoinOptions = z.object({
  leaderboardKey: z.string().min(1).max(255),
  board: z.string().max(BOARD_VALUE_MAX).default(""),
  top: z.int().min(1).max(TOP_MAX).default(TOP_DEFAULT),
  around: z.int().min(0).max(AROUND_MAX).default(0),
});
const RoomOptions = z.object({
  projectId: z.uuid(),
  leaderboardKey: z.string(),
  board: z.string(),
  top: z.int(),
});

type OpenRoom = { rereadSoon(): void };
type Watcher = { playerId: string; around: number; place: BoardPlace; view: StateView };

/** Overwrites rows in place, so that only what changed travels. @returns whether anything did */
export const syncRows = (rows: ArraySchema<BoardRow>, lines: readonly BoardLine[]): boolean => {
  // Each read of a row by its index would pass a proxy.
  const held = [...rows];
  let isChanged = held.length !== lines.length;
  for (const [i, line] of lines.entries()) {
    const row = held[i];
    if (!row) rows.push(new BoardRow().assign(line));
    else if (assignChanged(row, line)) isChanged = true;
  }
  for (let n = held.length; n > lines.length; n--) rows.pop();
  return isChanged;
};

type Closed = LeaderboardEvents["leaderboard.period_closed"];

/**
 * Room `leaderboard`: the first places of a board for everybody in it, and for each watcher their own place.
 * A mirror of the rank index; there may be several rooms of one board. When a window ends, the room shows the
 * next one.
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
  /** The end of a window that the room has set a timer for. */
  #turnsAtMs = 0;
  /** Whether the next read may be without that of the definition. */
  #mayKeep = false;
  readonly #refresher = new Refresher({
    everyMs: REFRESH_EVERY_MS,
    run: () => this.#refresh(),
    later: (delayMs, run) => this.later(delayMs, run),
    onError: (error) => this.report(error, "refresh"),
  });
  readonly #watchers = new Map<string, Watcher>();

  override async onCreate(options: object): Promise<void> {
    await super.onCreate(options);
    const key = parse(RoomOptions, options);
    this.#read = createBoardReader(this.app, key);
    this.#top = key.top;
    this.state.board = key.board;
    await this.#refresher.now();
    this.roomId = await freeRoomId((shard) => leaderboardRoomId(key, shard), BOARD_SHARDS, "leaderboard");
    this.open.add(this);
    this.onceDisposed(() => this.open.remove(this));
  }

  /** Reads the board again with its definition, at once or when the last time is REFRESH_EVERY_MS ago. */
  rereadSoon(): void {
    this.#mayKeep = false;
    this.#refresher.soon();
  }

  protected override async welcome(client: LiveClient, options: object, isBack: boolean): Promise<void> {
    const { playerId } = client.auth!;
    if (isBack || playerId === null) return;
    const { around } = parse(JoinOptions, { leaderboardKey: "-", ...options });
    const place = new BoardPlace();
    const view = new StateView();
    client.view = view;
    this.#watchers.set(client.sessionId, { playerId, around, place, view });
    this.state.me.set(client.sessionId, place);
    view.add(place);
    // A place of its own is worth a read of its own: the state that the join sends has it.
    const watchers = new Map([[playerId, around]]);
    this.#set(await this.#read({ top: this.#top, watchers, mayKeep: true }), [client.sessionId]);
    // The others see nothing of it: a patch for each join would be as many as there are watchers, squared.
    // With nobody else there, what has changed so far is what the join sends.
    if (this.clients.length === 1) this.broadcastPatch();
  }

  protected override farewell(client: LiveClient): void {
    client.view?.dispose();
    this.#watchers.delete(client.sessionId);
    this.state.me.delete(client.sessionId);
  }

  async #refresh(): Promise<void> {
    const watchers = new Map<string, number>();
    for (const { playerId, around } of this.#watchers.values()) {
      watchers.set(playerId, Math.max(around, watchers.get(playerId) ?? 0));
    }
    const mayKeep = this.#mayKeep;
    this.#mayKeep = true;
    const view = await this.#read({ top: this.#top, watchers, mayKeep });
    this.#show(view, this.#watchers.keys());
    await this.#follow(view);
  }

  #show(view: BoardView, sessionIds: Iterable<string>): void {
    this.#set(view, sessionIds);
    if (this.clients.length > 0) this.broadcastPatch();
  }

  #set({ leaderboard, list, size, top, places }: BoardView, sessionIds: Iterable<string>): void {
    const { key: leaderboardKey, name, status } = leaderboard;
    const [periodKey, endsAt] = [list.key, list.endsAt?.toISOString() ?? ""];
    assignChanged(this.state, { leaderboardKey, name, status, periodKey, endsAt, size });
    syncRows(this.state.top, top);
    for (const sessionId of sessionIds) {
      const watcher = this.#watchers.get(sessionId);
      const found = watcher && places.get(watcher.playerId);
      if (found) this.#setPlace(watcher, found);
    }
  }

  #setPlace({ place, view, around }: Watcher, { rank, score, rows }: Place): void {
    const isMoved = place.rank !== rank || place.score !== score;
    if (isMoved) assignChanged(place, { rank, score });
    const isOther = around > 0 && syncRows(place.rows, rows);
    if (isMoved || isOther) this.touchView(view);
  }

  /** Listens to the list that is shown, which is another one when the window turns or is filled anew. */
  async #follow({ leaderboard, list }: BoardView): Promise<void> {
    this.#turnAtEnd(list);
    const { projectId, periodId } = list.ref;
    if (periodId === this.#periodId) return;
    const isFirst = this.#periodId === "";
    this.#stopListening?.();
    this.#periodId = periodId;
    this.#stopListening = await this.listen(periodTopic(projectId, periodId), () => this.#refresher.soon());
    if (isFirst)
      await this.listen<Closed>(boardTopic(projectId, leaderboard.id), (closed) => this.#tellClosed(closed));
    // Between the read and the subscription the board may have changed.
    this.rereadSoon();
  }

  #turnAtEnd({ endsAt }: BoardList): void {
    const endsAtMs = endsAt?.getTime() ?? Infinity;
    const leftMs = endsAtMs - this.app.clock().getTime();
    // Until then the board is read again anyway.
    if (endsAtMs === this.#turnsAtMs || leftMs < 0 || leftMs > 2 * REREAD_EVERY_MS) return;
    this.#turnsAtMs = endsAtMs;
    this.later(leftMs, () => this.rereadSoon());
  }

  #tellClosed(closed: Closed): void {
    if (closed.board !== this.state.board) return;
    const message = live(this.app.clock(), closed);
    for (const client of this.clients) this.push(client, "leaderboard.closed", message);
    this.rereadSoon();
  }
}

/** The class of room `leaderboard` for an application. */
export const leaderboardRoom = (app: App) => {
  const open: Ticker<OpenRoom> = createTicker({
    everyMs: REREAD_EVERY_MS,
    run: async (rooms) => {
      for (const room of rooms) room.rereadSoon();
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
