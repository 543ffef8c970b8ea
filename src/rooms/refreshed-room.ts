import { matchMaker } from "@colyseus/core";
import type { App } from "../app.ts";
import { fromRankScore } from "../domain/evaluation/boards/lists.ts";
import type { Standing } from "../domain/evaluation/boards/ranks.ts";
import { DomainError, retryLater } from "../domain/kernel/errors.ts";
import { Bulkhead } from "../domain/kernel/bulkhead.ts";
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
import { type Name, readNames } from "../domain/leaderboards/names.ts";
import { boardOf, type Leaderboard } from "../domain/progression/load-plan.ts";
import { PROCESS_ROOMS_MAX } from "./admission.ts";
import { MirrorRoom, openRoomsOf, type Ticker, transactIn } from "./mirror-room.ts";

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
export type WatcherPlace = {
  rank: number;
  score: number;
  rankScore: number | undefined;
  rows: readonly BoardLine[];
};

const NOWHERE: WatcherPlace = { rank: 0, score: 0, rankScore: undefined, rows: [] };

export type BoardView = {
  leaderboard: Leaderboard;
  /** The list of the current window. */
  list: BoardList;
  size: number;
  top: BoardLine[];
  /** Standing of every watcher that was asked for, by `placeKey`. */
  places: ReadonlyMap<string, WatcherPlace>;
};

/** A watching player, and how many neighbours a session of theirs wants to see. */
export type BoardWatcher = { playerId: string; around: number };

export const placeKey = ({ playerId, around }: BoardWatcher): string => `${around} ${playerId}`;

type BoardQuery = {
  top: number;
  /** By `placeKey`. */
  watchers: ReadonlyMap<string, BoardWatcher>;
  /** Allows reuse of names, and of the definition and window of the last read while that window runs. */
  mayKeep?: boolean;
};

export type BoardReader = (query: BoardQuery) => Promise<BoardView>;

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

const RETRY_SECONDS = 10;

/**
 * Returns the first id of `shards` that no room has; if two rooms take one id simultaneously, the driver
 * keeps one.
 * @throws DomainError SERVICE_UNAVAILABLE when all are taken
 */
export const freeRoomId = async (
  idOf: (shard: number) => string,
  shards: number,
  what: string,
): Promise<string> => {
  for (let shard = 0; shard < shards; shard++) {
    const id = idOf(shard);
    if (!(await matchMaker.driver.has(id))) return id;
  }
  const retry = { retryAfterSeconds: RETRY_SECONDS };
  throw new DomainError("SERVICE_UNAVAILABLE", `too many clients watch this ${what}: try again later`, retry);
};

/**
 * Refreshes of one project's rooms, and of one tenant's, that run at once in a process: each may hold a
 * connection of the pool.
 */
const PROJECT_SLOTS = 2;
const TENANT_SLOTS = 3;
/** Milliseconds that each watcher, and each such room of the process, adds to the pause between two reads. */
const PAUSE_FOR = { watcher: 0.5, room: 2.5 } as const;

/** `rooms`: open rooms of the same kind in this process. */
type Load = { watchers: number; rooms: number };

/** Pause between two reads of a constantly changing list: it grows with the cost of its reads. */
export const refreshPauseMs = (pause: { min: number; max: number }, { watchers, rooms }: Load): number =>
  Math.min(pause.max, Math.max(pause.min, PAUSE_FOR.watcher * watchers + PAUSE_FOR.room * rooms));

/** A room that is refreshed. */
type Refreshed = {
  projectId: string;
  /** Undefined where a process of an earlier version has asked for the room. */
  tenantId?: string | undefined;
  /** Aborted when the room is disposed. */
  signal: AbortSignal;
};

const tooMany = () => retryLater("too many rooms are read at once: try again", "SERVER_BUSY");

/** A room has one refresh at a time, so no more can wait than there may be rooms. */
const slotsOf = (slots: number) =>
  new Bulkhead({ ofKey: { slots, waiting: PROCESS_ROOMS_MAX }, refusal: tooMany });

/**
 * Bounds the refreshes of a process by project and by tenant, so that one with many rooms leaves the pool to
 * others. Further refreshes wait in the order of their arrival.
 */
export class RefreshSlots {
  readonly #ofProjects = slotsOf(PROJECT_SLOTS);
  readonly #ofTenants = slotsOf(TENANT_SLOTS);

  /** Resolves or rejects as `refresh` does, once it has had a slot; a disposed room has none any more. */
  async run({ projectId, tenantId, signal }: Refreshed, refresh: () => Promise<void>): Promise<void> {
    try {
      await this.#ofProjects.run(
        projectId,
        () => this.#ofTenants.run(tenantId ?? projectId, refresh, { signal }),
        { signal },
      );
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}

/** Delay before a failed refresh is retried. */
const RETRY_MS = 1_000;

type RefresherParts = {
  /** Minimum milliseconds between refreshes; evaluated each time. */
  everyMs(): number;
  run(): Promise<void>;
  later(delayMs: number, run: () => unknown): void;
  onError(error: unknown): void;
};

/** Coalesces requests to refresh into runs with a minimum interval. */
class Refresher {
  readonly #parts: RefresherParts;
  #isDirty = false;
  #isScheduled = false;
  #isRunning = false;
  #ranAtMs = -Infinity;

  constructor(parts: RefresherParts) {
    this.#parts = parts;
  }

  /** Runs at once, or as soon as the minimum interval has passed. */
  soon(): void {
    this.#isDirty = true;
    if (this.#isRunning || this.#isScheduled) return;
    this.#schedule(this.#ranAtMs + this.#parts.everyMs() - performance.now());
  }

  /** Runs now; requests during the run are served by another one. */
  async now(): Promise<void> {
    this.#isDirty = false;
    this.#isRunning = true;
    this.#ranAtMs = performance.now();
    try {
      await this.#parts.run();
    } finally {
      this.#isRunning = false;
    }
    if (this.#isDirty) this.soon();
  }

  #schedule(delayMs: number): void {
    this.#isScheduled = true;
    this.#parts.later(Math.max(0, delayMs), async () => {
      this.#isScheduled = false;
      try {
        await this.now();
      } catch (error) {
        this.#parts.onError(error);
        if (!this.#isScheduled) this.#schedule(RETRY_MS);
      }
    });
  }
}

/** A room that reads what it shows as a whole. */
type Rereading = { rereadSoon(): void };

/** As `openRoomsOf`, for rooms that read everything again. */
export const openRefreshedRoomsOf = (app: App, what: string): Ticker<Rereading> =>
  openRoomsOf(app, what, async (rooms) => {
    for (const room of rooms) room.rereadSoon();
  });

/** The ids of rooms of one list, which are opened one after another as they fill up. */
type Shards = { idOf(shard: number): string; count: number; what: string };

/**
 * Base class of rooms in which a crowd watches a list: the list is read as a whole after changes, with pauses
 * that grow with its cost, and there may be several rooms of one list.
 */
export abstract class RefreshedRoom<S extends object> extends MirrorRoom<S> {
  protected abstract override readonly open: Ticker<Rereading>;
  protected abstract readonly slots: RefreshSlots;
  /** Pause between two reads of a constantly changing list, in ms. */
  protected abstract readonly pauseMs: { readonly min: number; readonly max: number };
  protected override readonly stateBytes = 16_384;
  readonly #disposed = new AbortController();
  readonly #refresher = new Refresher({
    everyMs: () => refreshPauseMs(this.pauseMs, { watchers: this.clients.length, rooms: this.open.count() }),
    run: () => this.slots.run({ ...this.owner(), signal: this.#disposed.signal }, () => this.refresh()),
    later: (delayMs, run) => this.later(delayMs, run),
    onError: (error) => this.report(error, "refresh"),
  });

  /** Whose list it is. */
  protected abstract owner(): Pick<Refreshed, "projectId" | "tenantId">;
  protected abstract shards(): Shards;
  /** Reads the list and shows it. */
  protected abstract refresh(): Promise<void>;

  protected override async load(): Promise<void> {
    this.onceDisposed(() => this.#disposed.abort());
    await this.#refresher.now();
    const { idOf, count, what } = this.shards();
    this.roomId = await freeRoomId(idOf, count, what);
  }

  /** Reads the list again, at once or when the pause is over. */
  rereadSoon(): void {
    this.refreshSoon();
  }

  protected refreshSoon(): void {
    this.#refresher.soon();
  }
}
