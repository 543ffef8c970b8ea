import {
  type Board,
  type List,
  type Moment,
  type NoList,
  periodIdOf,
  type Window,
  windowAt,
} from "./board.ts";
import { compilePath, toSafe } from "../language/syntax.ts";
import type { EntryState, PlayerDoc, PlayerState } from "../player-state.ts";
import { isInAudience } from "../segments/audience.ts";
import type { Turn } from "../turn.ts";
import type { Json } from "../../kernel/events/events.ts";
import type { Steps } from "../../kernel/slices.ts";

/** Maximum number of lists for which a player's removal is remembered by itself. */
const REMOVED_MAX = 100;
/** In place of a list: the highest version of all removals that are not. */
const OLDER = "*";

/** Returns the version with which the player's entry was removed from a list, or a higher one. */
export const removedVersion = ({ z }: PlayerDoc, listId: string): number | undefined =>
  z?.[listId] ?? z?.[OLDER];

/**
 * Removes the player's entry from a list; saving deletes it, and the rank index follows. The next score
 * enters again.
 */
export const leaveList = (player: PlayerState, listId: string): void => {
  const entry = player.entries.get(listId);
  if (!entry) return;
  const { [OLDER]: older = 0, [listId]: _again, ...known } = player.doc.z ?? {};
  const versions = Object.entries(known);
  const dropped = versions.slice(0, -(REMOVED_MAX - 1)).map(([, version]) => version);
  const highest = Math.max(older, ...dropped);
  const z = { ...Object.fromEntries(versions.slice(dropped.length)), [listId]: entry.version + 1 };
  player.doc = { ...player.doc, z: highest === 0 ? z : { [OLDER]: highest, ...z } };
  player.dirty.doc = true;
  player.entries.delete(listId);
  player.dirty.entries.add(listId);
};

/** Maximum values of a breakdown in one window, each with its own ranking. */
export const BREAKDOWN_VALUES_MAX = 1_000;
/** Maximum length of a breakdown value, in characters. */
export const BREAKDOWN_VALUE_MAX = 200;
/** Maximum ids cached per board, since computing them takes a hash. */
const IDS_REMEMBERED_MAX = 2_000;

/**
 * Returns whether a board has one window and one ranking, whose id is the board's own and needs no look-up.
 */
export const isPlain = (board: Pick<Board, "period"> & Breakdown): boolean =>
  board.period.kind === "ALL_TIME" && breakdownNameOf(board) === undefined;

/** By which values a board is broken down: by those of an attribute, or of a property of its events. */
type Breakdown = Pick<Board, "breakdownAttribute" | "breakdownProperty">;

/** Returns the path by whose values a board is broken down; undefined for a board with one ranking. */
export const breakdownNameOf = ({ breakdownAttribute, breakdownProperty }: Breakdown): string | undefined =>
  breakdownAttribute ?? breakdownProperty;

const idsOf = new WeakMap<Board, Map<string, string>>();

/** Returns the list of a window and a value. */
export const listOf = (board: Board, window: Window, value: string): List => {
  if (isPlain(board)) return { id: board.periodId, board, window, value };
  let ids = idsOf.get(board);
  if (!ids || ids.size >= IDS_REMEMBERED_MAX) idsOf.set(board, (ids = new Map()));
  const name = `${window.key}\0${value}`;
  let id = ids.get(name);
  if (id === undefined) ids.set(name, (id = periodIdOf(board, window.key, value)));
  return { id, board, window, value };
};

type Attributed = Pick<PlayerState, "attributes" | "firstAttributes">;

/**
 * Returns the value of a board's breakdown: the player's as of when the player was loaded, or that of the
 * event's property. "" for a board without a breakdown, undefined where there is no valid value.
 */
export const breakdownOf = (
  board: Breakdown,
  { attributes, firstAttributes = attributes }: Attributed,
  properties: Json = {},
): string | undefined => {
  const path = breakdownNameOf(board);
  if (path === undefined) return "";
  const value = compilePath(path)(board.breakdownProperty === undefined ? firstAttributes : properties);
  const isText = typeof value === "string" || typeof value === "number" || typeof value === "boolean";
  const text = isText ? String(value) : "";
  return text === "" || text.length > BREAKDOWN_VALUE_MAX ? undefined : text;
};

/** Returns the list for a player's score of a moment, whether or not it still takes scores. */
export const findList = (board: Board, player: Attributed, { at, properties }: Moment): List | NoList => {
  if (board.resetAtMs !== null && at < board.resetAtMs) return "LATE";
  const window = windowAt(board, at);
  if (!window) return "OUTSIDE";
  const value = breakdownOf(board, player, properties);
  return value === undefined ? "NO_VALUE" : listOf(board, window, value);
};

/**
 * Returns the list for a score of a moment, as loaded with the player. One that was not loaded counts as
 * open, but scores on it cannot be saved.
 */
export const openList = (board: Board, player: PlayerState, moment: Moment): List | NoList => {
  const list = findList(board, player, moment);
  if (typeof list === "string" || isPlain(board)) return list;
  const loaded = player.lists.get(list.id);
  if (!loaded) return list;
  if (loaded.status === null ? loaded.isWindowOver : loaded.status !== "OPEN") return "LATE";
  return loaded.status === null && loaded.isFull ? "FULL" : loaded;
};

/** Returns the player's entry on a board at a moment. */
export const entryAt = (board: Board, player: PlayerState, moment: Moment): EntryState | undefined => {
  const list = findList(board, player, moment);
  return typeof list === "string" ? undefined : player.entries.get(list.id);
};

/**
 * Marks the lists that evaluation at these moments may touch, so that they are loaded with the player. Those
 * of boards with one ranking are always loaded. In slices.
 */
export function* markLists(
  boards: readonly Board[],
  player: PlayerState,
  { moments, nowMs }: { moments: readonly Moment[]; nowMs: number },
): Steps<void> {
  player.firstAttributes ??= player.attributes;
  // Current values are also shown when a late event has changed them.
  const all = [...moments, { at: nowMs }];
  const times = [...new Map(all.map((moment) => [moment.at, moment])).values()];
  for (const board of boards) {
    const those = board.breakdownProperty === undefined ? times : all;
    if (isPlain(board)) continue;
    yield;
    for (const moment of those) markList(player, findList(board, player, moment));
  }
}

/** Marks one list to be loaded with the player. */
export const markList = (player: PlayerState, list: List | NoList): void => {
  if (typeof list === "string" || player.lists.has(list.id)) return;
  player.lists.set(list.id, {
    ...list,
    status: null,
    isLate: false,
    writtenMs: null,
    isFull: false,
    isWindowOver: false,
    isLoaded: false,
  });
};

/**
 * Bound of scores (in units), ties and sums: every integer within it is exact in JavaScript, JSON and Redis.
 */
export const RANK_MAX = Number.MAX_SAFE_INTEGER;

/** Converts a score to units of the board, not clamped: 12.345 with 2 decimals is 1,235. */
export const unitsOf = ({ scoreDecimals }: Pick<Board, "scoreDecimals">, score: number): number => {
  // Moving the decimal point in the text rounds the decimal number given; `score * 100` would round 1.005
  // down.
  const [digits, exponent = "0"] = String(score).split("e") as [string, string?];
  return Math.round(Number(`${digits}e${Number(exponent) + scoreDecimals}`)) + 0;
};

/** Converts a score to its stored form: whole units, clamped, smaller is better. */
export const toRankScore = (board: Pick<Board, "scoreDecimals" | "sort">, score: number): number => {
  const units = toSafe(unitsOf(board, score));
  return board.sort === "DESC" ? 0 - units : units;
};

export const fromRankScore = (
  { scoreDecimals, sort }: Pick<Board, "scoreDecimals" | "sort">,
  rankScore: number,
): number => (sort === "DESC" ? 0 - rankScore : rankScore) / 10 ** scoreDecimals;

/** Converts a tie to when the score was reached, in microseconds since 1970, and back. */
export const reachedUs = ({ ties }: Pick<Board, "ties">, rankTie: number): number =>
  ties === "LATEST" ? 0 - rankTie : rankTie;

/**
 * Converts a time to the unit of ties and `latestUs`; clamped, which only affects times before 1685 or after
 * 2255.
 */
export const toUs = (ms: number): number => toSafe(Math.round(ms * 1_000));

/** REPLACE is for totals kept elsewhere, such as XP: the given value is authoritative, whatever its time. */
export type Operation = { operator: Board["operator"] | "REPLACE"; rankScore: number; atUs: number };

const combine = (old: EntryState, { operator, rankScore, atUs }: Operation): number | undefined => {
  if (operator === "SUM") return toSafe(old.rankScore + rankScore);
  if (operator === "DECR") return toSafe(old.rankScore - rankScore);
  if (operator === "BEST") return Math.min(old.rankScore, rankScore);
  return operator === "LATEST" && atUs < old.latestUs ? undefined : rankScore;
};

/** Returns when a score was reached: the best one when it first came, others by all that they are made of. */
const reachedBy = (
  board: Pick<Board, "ties">,
  old: EntryState,
  { operator, rankScore: given, atUs }: Operation,
  rankScore: number,
): number => {
  const before = reachedUs(board, old.rankTie);
  const isSame = rankScore === old.rankScore;
  if (operator !== "BEST") return isSame ? before : Math.max(before, atUs);
  if (!isSame) return atUs;
  return given === rankScore ? Math.min(before, atUs) : before;
};

/**
 * Returns a player's entry after one value.
 * @returns `old` itself when nothing changes; undefined when the value is older than the current one (LATEST)
 */
export const nextEntry = (
  board: Pick<Board, "ties">,
  old: EntryState | undefined,
  operation: Operation,
): EntryState | undefined => {
  const { rankScore: given, atUs, operator } = operation;
  if (!old) {
    const first = operator === "DECR" ? 0 - given : given;
    return { rankScore: first, rankTie: reachedUs(board, atUs), latestUs: atUs, version: 1 };
  }
  const rankScore = combine(old, operation);
  if (rankScore === undefined) return undefined;
  const latestUs = Math.max(old.latestUs, atUs);
  const isNewer = operator === "LATEST" && latestUs !== old.latestUs;
  const rankTie = reachedUs(board, reachedBy(board, old, operation, rankScore));
  if (rankScore === old.rankScore && rankTie === old.rankTie && !isNewer) return old;
  const kept = old.submissions === undefined ? {} : { submissions: old.submissions };
  return { rankScore, rankTie, latestUs, version: old.version + 1, ...kept };
};

/** Returns whether a score would be clamped. */
export const isBeyondRange = (board: Pick<Board, "scoreDecimals">, score: number): boolean =>
  Math.abs(unitsOf(board, score)) > RANK_MAX;

/** Why a score did not count; part of API responses. */
type RefusalReason =
  | "LEADERBOARD_CLOSED"
  | "LEADERBOARD_DERIVED"
  | "NOT_ELIGIBLE"
  | "LIMIT_REACHED"
  | "SCORE_OUT_OF_BOUNDS"
  | "INSUFFICIENT_FUNDS";
export type Refusal = { reason: RefusalReason; message: string };

/**
 * `accepted`: the value took part (false: it was refused, or a newer value stands). `improved`: the player is
 * better off by the board's sort, or new. `score` is the resulting score, `previous` the one before; null
 * without an entry. `listId`: the list of the entry.
 */
export type Scored = {
  accepted: boolean;
  improved: boolean;
  score: number | null;
  previous: number | null;
  listId?: string;
  refusal?: Refusal;
  /** The score waits for a review. */
  held?: { reviewId: string; violation: string };
};

/** The target list of a value, and the player's entry there. */
export type ScoreTarget = { list: List; old: EntryState | undefined };

const NO_LIST: Record<NoList, (board: Board) => Refusal> = {
  LATE: ({ key }) => ({
    reason: "LEADERBOARD_CLOSED",
    message: `late: the period of leaderboard ${key} is closed`,
  }),
  OUTSIDE: ({ key }) => ({
    reason: "LEADERBOARD_CLOSED",
    message: `leaderboard ${key} has no period at that time`,
  }),
  NO_VALUE: (board) => ({
    reason: "NOT_ELIGIBLE",
    message: `leaderboard ${board.key} needs a value of ${breakdownNameOf(board)}`,
  }),
  FULL: (board) => ({
    reason: "LIMIT_REACHED",
    message: `leaderboard ${board.key} has as many values of ${breakdownNameOf(board)} as it may have`,
  }),
};

/** Returns the target list of a score of a moment, or the reason why there is none. */
export const targetAt = ({ player }: Turn, board: Board, moment: Moment): ScoreTarget | Refusal => {
  const list = openList(board, player, moment);
  return typeof list === "string" ? NO_LIST[list](board) : { list, old: player.entries.get(list.id) };
};

export const isRefusal = (target: ScoreTarget | Refusal): target is Refusal => "reason" in target;

/** Returns why a player may not enter; the audience is checked on entry only, and existing entries stay. */
export const entryRefusal = (
  { player }: Turn,
  board: Board,
  { old }: Pick<ScoreTarget, "old">,
): Refusal | undefined => {
  const refuse = (message: string): Refusal => ({ reason: "NOT_ELIGIBLE", message });
  if (player.doc.b?.includes(board.id)) return refuse(`the player is banned from leaderboard ${board.key}`);
  if (old || isInAudience(board.audience, player.segments)) return undefined;
  return refuse(`the player is not in the audience of leaderboard ${board.key}`);
};

/** Returns whether a first value is good enough to enter with. */
export const isEnough = ({ minRankScore }: Board, rankScore: number): boolean =>
  minRankScore === undefined || rankScore <= minRankScore;

type More = Pick<EntryState, "submissions" | "recorded" | "meta">;
type Recording = Operation & {
  target: ScoreTarget;
  /** Stored on the entry together with the score. */
  more?: More;
};

/** Records a value in a list. */
export const recordIn = (turn: Turn, board: Board, recording: Recording): Scored => {
  const { target, more = {}, ...operation } = recording;
  const { list, old } = target;
  const next = nextEntry(board, old, operation);
  if (!next || (!old && !isEnough(board, next.rankScore))) {
    // A score that is older than the latest one is counted, since it may be the next one after a revert.
    if (old && more.recorded !== old.recorded) setEntry(turn.player, list, withRecorded(old, more.recorded));
    return standing(board, { listId: list.id, old });
  }
  const entry = withMore(old ? next : comingBack(turn.player, list, next), old, more);
  if (entry !== old) setEntry(turn.player, list, entry);
  return {
    ...standing(board, { listId: list.id, old, entry }),
    accepted: true,
    improved: !old || entry.rankScore < old.rankScore,
  };
};

/** An entry that is added again continues from its previous version, which the rank index remembers. */
const comingBack = ({ doc }: PlayerState, { id }: List, entry: EntryState): EntryState => {
  const before = removedVersion(doc, id);
  return before === undefined ? entry : { ...entry, version: before + 1 };
};

const setEntry = (player: PlayerState, list: List, entry: EntryState): void => {
  if (!isPlain(list.board)) markList(player, list);
  player.entries.set(list.id, entry);
  player.dirty.entries.add(list.id);
};

/** Data of a score is kept when that score stands; submissions are counted in any case. */
const withMore = (
  next: EntryState,
  old: EntryState | undefined,
  { submissions, recorded, meta }: More,
): EntryState => {
  const counted = submissions === undefined ? {} : { submissions };
  if (next !== old)
    return withRecorded({ ...next, ...counted, ...(meta === undefined ? {} : { meta }) }, recorded);
  if (submissions === undefined && recorded === next.recorded) return next;
  return withRecorded({ ...next, ...counted }, recorded);
};

const withRecorded = (
  { recorded: _before, ...entry }: EntryState,
  recorded: number | undefined,
): EntryState => (recorded === undefined ? entry : { ...entry, recorded });

type Standing = { listId?: string; old: EntryState | undefined; entry?: EntryState | undefined };

const standing = (board: Board, { listId, old, entry = old }: Standing): Scored => ({
  accepted: false,
  improved: false,
  score: entry ? fromRankScore(board, entry.rankScore) : null,
  previous: old ? fromRankScore(board, old.rankScore) : null,
  ...(listId === undefined ? {} : { listId }),
});

/** Builds the result of a refused score. */
export const unchanged = (board: Board, { refusal, target }: Unchanged): Scored => ({
  ...standing(board, target ? { listId: target.list.id, old: target.old } : { old: undefined }),
  refusal,
});

type Unchanged = { refusal: Refusal; target?: ScoreTarget };

/** Records a value of a moment in its list; without a warning if the player may not enter. */
export const record = (turn: Turn, board: Board, operation: Operation & { moment: Moment }): Scored => {
  const { moment, ...given } = operation;
  const target = targetAt(turn, board, moment);
  if (isRefusal(target)) {
    if (target.reason !== "NOT_ELIGIBLE") turn.warn(target.message);
    return unchanged(board, { refusal: target });
  }
  const refusal = entryRefusal(turn, board, target);
  if (refusal) return unchanged(board, { refusal, target });
  return recordIn(turn, board, { ...given, target });
};
