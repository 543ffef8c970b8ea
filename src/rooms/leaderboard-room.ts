import type { AuthContext } from "@colyseus/core";
import { type ArraySchema, schema, type SchemaType, StateView, t } from "@colyseus/schema";
import { z } from "zod";
import type { App } from "../app.ts";
import { BREAKDOWN_VALUE_MAX, fromRankScore } from "../domain/evaluation/boards/lists.ts";
import {
  ALL_MOVED,
  joinMoved,
  mayHaveMoved,
  type Moved,
  type Standing,
} from "../domain/evaluation/boards/ranks.ts";
import { KEY_MAX } from "../domain/evaluation/language/syntax.ts";
import { boardTopic, periodTopic } from "../domain/kernel/topics.ts";
import type { EventData } from "../domain/kernel/events/domain-events.ts";
import {
  type BoardList,
  findList,
  isOver,
  type ListSource,
  readAround,
  readAt,
  readPlace,
} from "../domain/leaderboards/board-list.ts";
import { getLeaderboard } from "../domain/leaderboards/leaderboards.ts";
import { type Name, readNames } from "../domain/leaderboards/live-list.ts";
import { boardOf, type Leaderboard } from "../domain/progression/load-plan.ts";
import { createPlayerAuthentication } from "./authenticate.ts";
import { pinOptions, parse } from "./room-input.ts";
import type { LiveClient } from "./session.ts";
import { live } from "./messages.ts";
import { gameRoom, REREAD_EVERY_MS, type Source, assignChanged, transactIn } from "./mirror-room.ts";
import { openRefreshedRoomsOf, RefreshedRoom } from "./refreshed-room.ts";

/** How long a room shows a cached name, unless everything is read anew. */
const NAME_KEPT_MS = 30_000;
const NAMES_KEPT_MAX = 20_000;

/** `displayName` is empty when the player has none. */
export type BoardLine = {
  rank: number;
  playerId: string;
  externalUserId: string;
  displayName: string;
  score: number;
};

/**
 * One player's standing: `rank` is 0 and `rankScore` undefined without an entry, `rows` are the neighbouring
 * entries.
 */
type WatcherPlace = {
  rank: number;
  score: number;
  rankScore: number | undefined;
  rows: readonly BoardLine[];
};

const NOWHERE: WatcherPlace = { rank: 0, score: 0, rankScore: undefined, rows: [] };

type BoardView = {
  leaderboard: Leaderboard;
  /** The list of the current window. */
  list: BoardList;
  size: number;
  top: BoardLine[];
  /** Standing of every watcher that was asked for, by `placeKey`. */
  places: ReadonlyMap<string, WatcherPlace>;
};

/** A watching player, and how many neighbours a session of theirs wants to see. */
type BoardWatcher = { playerId: string; around: number };

export const placeKey = ({ playerId, around }: BoardWatcher): string => `${around} ${playerId}`;

type BoardQuery = {
  top: number;
  /** By `placeKey`. */
  watchers: ReadonlyMap<string, BoardWatcher>;
  /** Allows reuse of names, and of the definition and window of the last read while that window runs. */
  mayKeep?: boolean;
};

type BoardReader = (query: BoardQuery) => Promise<BoardView>;

type CachedName = { name: Name | undefined; untilMs: number };

type BoardName = { projectId: string; leaderboardKey: string; board: string };

type Found = Pick<BoardView, "leaderboard" | "list">;

/**
 * Creates a reader for a room that reads one board repeatedly; names are only looked up from time to time.
 */
export const createBoardReader = (app: App, name: BoardName): BoardReader => {
  const { projectId, leaderboardKey, board } = name;
  const transact = transactIn(app, projectId);
  const names = createNames(app, projectId);
  let last: Found | undefined;

  const find = async (mayKeep: boolean): Promise<Found> => {
    if (mayKeep && last && runsAt(last.list, app.clock())) return last;
    last = await transact(async (work) => {
      const leaderboard = await getLeaderboard(work, projectId, leaderboardKey);
      return { leaderboard, list: await findList(work, leaderboard, { board }) };
    });
    return last;
  };

  return async ({ top, watchers, mayKeep = false }) => {
    const { leaderboard, list } = await find(mayKeep);
    const source = { transact, ranks: app.ranks, list };
    const [page, { alone, around }] = await Promise.all([
      readAt(source, 0, Math.min(top, leaderboard.definition.displayLimit ?? top)),
      readOwn(source, watchers),
    ]);
    // A watcher is a player whom the board may show: their own standing needs no name.
    await names.learn([page.standings, ...around.values()], mayKeep);
    const scoring = boardOf(leaderboard);
    const line = ({ playerId, rank, rankScore }: Standing): BoardLine[] => {
      const known = names.of(playerId);
      if (!known) return [];
      const { externalUserId, displayName } = known;
      const score = fromRankScore(scoring, rankScore);
      return [{ rank, playerId, externalUserId, displayName: displayName ?? "", score }];
    };
    const places = new Map<string, WatcherPlace>();
    for (const key of watchers.keys()) places.set(key, NOWHERE);
    for (const { playerId, rank, rankScore } of alone)
      places.set(placeKey({ playerId, around: 0 }), {
        ...NOWHERE,
        rank,
        score: fromRankScore(scoring, rankScore),
        rankScore,
      });
    for (const [key, standings] of around) {
      const rows = standings.flatMap(line);
      const { playerId } = watchers.get(key)!;
      const { rank, score } = rows.find((own) => own.playerId === playerId) ?? NOWHERE;
      const rankScore = standings.find((own) => own.playerId === playerId)?.rankScore;
      places.set(key, { rank, score, rankScore, rows });
    }
    return { leaderboard, list, size: page.total, top: page.standings.flatMap(line), places };
  };
};

const runsAt = ({ status, endsAt }: BoardList, now: Date): boolean =>
  status === "OPEN" && (endsAt === null || endsAt > now);

/** Caches the names of the players on display for a while. */
const createNames = (app: App, projectId: string) => {
  const kept = new Map<string, CachedName>();
  const transact = transactIn(app, projectId);
  return {
    learn: async (lists: readonly (readonly Standing[])[], mayKeep: boolean): Promise<void> => {
      const nowMs = app.clock().getTime();
      const isUnknown = ({ playerId }: Standing): boolean =>
        !mayKeep || (kept.get(playerId)?.untilMs ?? 0) <= nowMs;
      const unknown = lists.flatMap((standings) => standings.filter(isUnknown));
      if (unknown.length === 0) return;
      const names = await transact((work) => readNames(work, projectId, unknown));
      if (kept.size > NAMES_KEPT_MAX) kept.clear();
      for (const { playerId } of unknown)
        kept.set(playerId, { name: names.get(playerId), untilMs: nowMs + NAME_KEPT_MS });
    },
    /** Undefined for players who are hidden from the board. */
    of: (playerId: string): Name | undefined => kept.get(playerId)?.name,
  };
};

/** `around` holds the neighbourhoods, by `placeKey`; players without an entry are in neither. */
type Own = { alone: readonly Standing[]; around: ReadonlyMap<string, readonly Standing[]> };

/** Reads the standings of all watchers who see no neighbours in one query. */
const readOwn = async (source: ListSource, watchers: BoardQuery["watchers"]): Promise<Own> => {
  const lone: string[] = [];
  const windows: Promise<void>[] = [];
  const around = new Map<string, readonly Standing[]>();
  const readOne = async (watcher: BoardWatcher): Promise<void> => {
    const window = await readAround(source, watcher.playerId, watcher.around);
    if (window) around.set(placeKey(watcher), window.standings);
  };
  for (const watcher of watchers.values())
    if (watcher.around > 0) windows.push(readOne(watcher));
    else lone.push(watcher.playerId);
  const [alone] = await Promise.all([readStandings(source, lone), ...windows]);
  return { alone, around };
};

const readStandings = async (
  source: ListSource,
  playerIds: readonly string[],
): Promise<readonly Standing[]> => {
  if (playerIds.length === 0) return [];
  if (!isOver(source.list)) return source.ranks.standings(source.list.ref, playerIds);
  const results = await Promise.all(playerIds.map((playerId) => readPlace(source, playerId)));
  return results.filter((result) => result !== undefined);
};

const BoardRow = schema(
  {
    rank: t.uint32(),
    playerId: t.string(),
    externalUserId: t.string(),
    displayName: t.string(),
    score: t.float64(),
  },
  "BoardRow",
);
type BoardRow = SchemaType<typeof BoardRow>;

/** One watcher's own standing; `rank` is 0 without an entry. */
export const BoardPlace = schema(
  { rank: t.uint32().default(0), score: t.float64().default(0), rows: t.array(BoardRow) },
  "BoardPlace",
);
export type BoardPlace = SchemaType<typeof BoardPlace>;

export const LeaderboardState = schema(
  {
    leaderboardKey: t.string().default(""),
    name: t.string().default(""),
    status: t.string().default(""),
    /** Value of the breakdown; "" without one. */
    board: t.string().default(""),
    /** The displayed window: the current one. */
    periodKey: t.string().default(""),
    /** End of the window, as ISO 8601; "" for never. */
    endsAt: t.string().default(""),
    size: t.number().default(0),
    top: t.array(BoardRow),
    /** By session id; each client sees only its own. */
    me: t.map(BoardPlace).view(),
  },
  "LeaderboardState",
);
export type LeaderboardState = SchemaType<typeof LeaderboardState>;

/** Overwrites rows in place, so that only changes are transmitted. @returns whether anything changed */
export const syncRows = (rows: ArraySchema<BoardRow>, lines: readonly BoardLine[]): boolean => {
  // Each access to a row by index would go through a proxy.
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

const TOP_DEFAULT = 10;
const TOP_MAX = 100;
const AROUND_MAX = 25;
/** Maximum number of watchers in one room; further watchers get another room of the same board. */
const WATCHERS_MAX = 500;
/** Maximum number of rooms per board. */
const BOARD_SHARDS = 32;
/** Pause between two reads of a constantly changing board, in ms. */
const REFRESH_PAUSE_MS = { min: 50, max: 250 } as const;

const JoinOptions = z.object({
  leaderboardKey: z.string().min(1).max(KEY_MAX),
  board: z.string().max(BREAKDOWN_VALUE_MAX).default(""),
  top: z.int().min(1).max(TOP_MAX).default(TOP_DEFAULT),
  around: z.int().min(0).max(AROUND_MAX).default(0),
});
const RoomOptions = z.object({
  projectId: z.uuid(),
  tenantId: z.uuid().optional(),
  leaderboardKey: z.string(),
  board: z.string(),
  top: z.int(),
});

type Watcher = BoardWatcher & {
  place: BoardPlace;
  /** Rank score of the displayed standing; undefined without an entry. */
  rankScore: number | undefined;
  view: StateView;
};

type Closed = EventData<"leaderboard.period_closed">;

/**
 * Room `leaderboard`: the top of a board for every client, and for each watcher their own standing. A mirror
 * of the rank index; there may be several rooms of one board. When a window ends, the room shows the next
 * one.
 */
abstract class LeaderboardRoom extends RefreshedRoom<LeaderboardState> {
  protected override readonly pauseMs = REFRESH_PAUSE_MS;
  override state = new LeaderboardState();
  override maxClients = WATCHERS_MAX;
  #key!: z.output<typeof RoomOptions>;
  #read!: BoardReader;
  #periodId = "";
  #stopListening: (() => void) | undefined;
  /** End of the window for which the room has set a timer. */
  #windowEndMs = 0;
  /** Whether the next read may reuse the definition. */
  #mayKeep = false;
  /** Players who may have moved since the last read. */
  #moved: Moved | undefined = ALL_MOVED;
  readonly #watchers = new Map<string, Watcher>();

  /** The topics are those of the list that is shown, which the first read finds; see `#followList`. */
  protected override follow(options: object): Source[] {
    this.#key = parse(RoomOptions, options);
    this.#read = createBoardReader(this.app, this.#key);
    this.state.board = this.#key.board;
    return [];
  }

  protected override owner() {
    return this.#key;
  }

  protected override shards() {
    const { projectId, leaderboardKey, board, top } = this.#key;
    const subject = ["leaderboard", projectId, leaderboardKey, board, top];
    return { subject, count: BOARD_SHARDS, what: "leaderboard" };
  }

  /** Reads the board again with its definition. */
  override rereadSoon(): void {
    this.#mayKeep = false;
    this.#rereadAfter(ALL_MOVED);
  }

  #rereadAfter(moved: Moved): void {
    this.#moved = joinMoved(this.#moved, moved);
    super.rereadSoon();
  }

  protected override async welcome(client: LiveClient, options: object, isBack: boolean): Promise<void> {
    const { playerId } = client.auth!;
    if (isBack || playerId === null) return;
    const { around } = parse(JoinOptions, { leaderboardKey: "-", ...options });
    const place = new BoardPlace();
    const view = new StateView();
    client.view = view;
    const watcher = { playerId, around, place, rankScore: undefined, view };
    this.#watchers.set(client.sessionId, watcher);
    // The new watcher's standing is read separately: the state that the join sends includes it.
    const watchers = new Map([[placeKey(watcher), watcher]]);
    const shown = await this.#read({ top: this.#key.top, watchers, mayKeep: true });
    if (this.#watchers.get(client.sessionId) !== watcher) return;
    this.#set(shown, []);
    // Other clients see no change: a patch for each join would cost the square of the number of watchers.
    this.unsent(() => {
      this.state.me.set(client.sessionId, place);
      view.add(place);
      this.#setPlaces(shown, [client.sessionId]);
    });
  }

  protected override farewell(client: LiveClient): void {
    client.view?.dispose();
    this.#watchers.delete(client.sessionId);
    this.unsent(() => this.state.me.delete(client.sessionId));
  }

  protected override async refresh(): Promise<void> {
    const [mayKeep, moved] = [this.#mayKeep, this.#moved];
    [this.#mayKeep, this.#moved] = [true, undefined];
    try {
      let view = await this.#read({ top: this.#key.top, watchers: this.#whoMoved(moved), mayKeep });
      // In another list every rank is different.
      if (this.#watchers.size > 0 && view.list.ref.periodId !== this.#periodId)
        view = await this.#read({ top: this.#key.top, watchers: this.#whoMoved(ALL_MOVED), mayKeep: true });
      this.#show(view, this.#watchers.keys());
      await this.#followList(view);
    } catch (error) {
      this.#moved = ALL_MOVED;
      throw error;
    }
  }

  /**
   * Returns the players whose standings are read again. Those without an entry, or with neighbours, may
   * always have moved.
   */
  #whoMoved(moved: Moved | undefined): Map<string, BoardWatcher> {
    const watchers = new Map<string, BoardWatcher>();
    for (const watcher of this.#watchers.values()) {
      const { around, rankScore } = watcher;
      const isOutside = moved && rankScore !== undefined && !mayHaveMoved(moved, rankScore);
      if (around > 0 || !isOutside) watchers.set(placeKey(watcher), watcher);
    }
    return watchers;
  }

  #show(view: BoardView, sessionIds: Iterable<string>): void {
    this.#set(view, sessionIds);
    if (this.clients.length > 0) this.broadcastPatch();
  }

  #set(shown: BoardView, sessionIds: Iterable<string>): void {
    const { leaderboard, list, size, top } = shown;
    const { key: leaderboardKey, name, status } = leaderboard;
    const [periodKey, endsAt] = [list.key, list.endsAt?.toISOString() ?? ""];
    assignChanged(this.state, { leaderboardKey, name, status, periodKey, endsAt, size });
    syncRows(this.state.top, top);
    this.#setPlaces(shown, sessionIds);
  }

  #setPlaces({ places }: BoardView, sessionIds: Iterable<string>): void {
    for (const sessionId of sessionIds) {
      const watcher = this.#watchers.get(sessionId);
      const found = watcher && places.get(placeKey(watcher));
      if (found) this.#setPlace(watcher, found);
    }
  }

  #setPlace(watcher: Watcher, { rank, score, rankScore, rows }: WatcherPlace): void {
    const { place, view, around } = watcher;
    watcher.rankScore = rankScore;
    const isMoved = place.rank !== rank || place.score !== score;
    if (isMoved) assignChanged(place, { rank, score });
    const isOther = around > 0 && syncRows(place.rows, rows);
    if (isMoved || isOther) this.touchView(view);
  }

  /** Subscribes to the displayed list, which changes when a window ends or the board is rebuilt. */
  async #followList({ leaderboard, list }: BoardView): Promise<void> {
    this.#rereadAtEnd(list);
    const { projectId, periodId } = list.ref;
    if (periodId === this.#periodId) return;
    const isFirst = this.#periodId === "";
    this.#stopListening?.();
    this.#periodId = periodId;
    this.#stopListening = await this.listen<Moved>(periodTopic(projectId, periodId), (moved) =>
      this.#rereadAfter(moved),
    );
    if (isFirst)
      await this.listen<Closed | null>(boardTopic(projectId, leaderboard.id), (closed) =>
        closed ? this.#sendClosed(closed) : this.rereadSoon(),
      );
    // The board may have changed between the read and the subscription.
    this.rereadSoon();
  }

  #rereadAtEnd({ endsAt }: BoardList): void {
    const endsAtMs = endsAt?.getTime() ?? Infinity;
    const leftMs = endsAtMs - this.app.clock().getTime();
    // Periodic re-reads cover windows that end later.
    if (endsAtMs === this.#windowEndMs || leftMs < 0 || leftMs > 2 * REREAD_EVERY_MS) return;
    this.#windowEndMs = endsAtMs;
    this.later(leftMs, () => this.rereadSoon());
  }

  #sendClosed(closed: Closed): void {
    if (closed.board !== this.state.board) return;
    const message = live(this.app.clock(), closed);
    for (const client of this.clients) this.push(client, "leaderboard.closed", message);
    this.rereadSoon();
  }
}

/** Creates the room `leaderboard` of an application. */
export const leaderboardRoom = (app: App) => {
  const authenticated = createPlayerAuthentication(app);
  const open = openRefreshedRoomsOf(app, "leaderboard rooms");
  const room = class extends LeaderboardRoom {
    protected readonly app = app;
    protected readonly open = open;

    static override async onAuth(token: string, options: object, context: AuthContext): Promise<unknown> {
      const principal = await authenticated(token, context);
      const { projectId, tenantId } = principal;
      pinOptions(options, JoinOptions, { projectId, tenantId });
      return principal;
    }
  };
  return gameRoom({ room, selectedBy: ["projectId", "leaderboardKey", "board", "top"], isCrowd: true });
};
