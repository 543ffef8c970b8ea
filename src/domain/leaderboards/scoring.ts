import { useBoosts } from "../boosts/boosts.ts";
import { isReservedType } from "../events.ts";
import { compileFilter } from "../metrics/filter.ts";
import type { EntryState, Turn } from "../progression/turn.ts";
import { compilePath } from "../rules/language/paths.ts";
import type { Metric, Operator, Sort } from "./definition.ts";
import type { Ties } from "./ranks.ts";

export type BoardStatus = "ACTIVE" | "PAUSED" | "ARCHIVED";

/** A leaderboard as scoring needs it, with its open period. */
export type Board = {
  id: string;
  key: string;
  periodId: string;
  status: BoardStatus;
  ties: Ties;
  sort: Sort;
  operator: Operator;
  scoreDecimals: number;
  metric: Metric;
};

/**
 * Bound of scores (in units), ties and sums: every integer within it is exact in JavaScript, JSON and
 * Redis.
 */
export const RANK_MAX = Number.MAX_SAFE_INTEGER;

const clamp = (value: number): number => Math.max(-RANK_MAX, Math.min(RANK_MAX, value));

/** A score in units of the board, not clamped: 12.345 with 2 decimals is 1,235. */
export const unitsOf = ({ scoreDecimals }: Pick<Board, "scoreDecimals">, score: number): number => {
  // Moving the decimal point in the text rounds what the caller wrote; `score * 100` would round 1.005 down.
  const [digits, exponent = "0"] = String(score).split("e") as [string, string?];
  return Math.round(Number(`${digits}e${Number(exponent) + scoreDecimals}`)) + 0;
};

/** The stored form of a score: whole units, clamped, the better the smaller. */
export const toRankScore = (board: Pick<Board, "scoreDecimals" | "sort">, score: number): number => {
  const units = clamp(unitsOf(board, score));
  return board.sort === "DESC" ? 0 - units : units;
};

export const fromRankScore = (
  { scoreDecimals, sort }: Pick<Board, "scoreDecimals" | "sort">,
  rankScore: number,
): number => (sort === "DESC" ? 0 - rankScore : rankScore) / 10 ** scoreDecimals;

/** When the score was reached, in microseconds since 1970. */
export const reachedUs = ({ ties }: Pick<Board, "ties">, rankTie: number): number =>
  ties === "LATEST" ? 0 - rankTie : rankTie;

/** A time in the unit of ties and `latestUs`; clamped, which only moves times before 1685 or after 2255. */
export const toUs = (ms: number): number => clamp(Math.round(ms * 1_000));

/**
 * REPLACE serves totals that are kept elsewhere, such as XP: the value in hand is the truth whatever its
 * time.
 */
type Operation = { operator: Board["operator"] | "REPLACE"; rankScore: number; atUs: number };

const combine = (old: EntryState, { operator, rankScore, atUs }: Operation): number | undefined => {
  if (operator === "SUM") return clamp(old.rankScore + rankScore);
  if (operator === "BEST") return Math.min(old.rankScore, rankScore);
  return operator === "LATEST" && atUs < old.latestUs ? undefined : rankScore;
};

/**
 * A player's entry after one value. The tie moves only with the score, and never back in time.
 * @returns `old` itself when nothing changes; undefined when the value is older than the one that stands
 * (LATEST)
 */
export const nextEntry = (
  board: Board,
  old: EntryState | undefined,
  operation: Operation,
): EntryState | undefined => {
  const { rankScore: first, atUs, operator } = operation;
  if (!old) return { rankScore: first, rankTie: signed(board, atUs), latestUs: atUs, version: 1 };
  const rankScore = combine(old, operation);
  if (rankScore === undefined) return undefined;
  const latestUs = Math.max(old.latestUs, atUs);
  const isNewer = operator === "LATEST" && latestUs !== old.latestUs;
  if (rankScore === old.rankScore && !isNewer) return old;
  const tieUs =
    rankScore === old.rankScore
      ? reachedUs(board, old.rankTie)
      : Math.max(reachedUs(board, old.rankTie), atUs);
  return { rankScore, rankTie: signed(board, tieUs), latestUs, version: old.version + 1 };
};

const signed = ({ ties }: Board, us: number): number => (ties === "LATEST" ? 0 - us : us);

/**
 * `accepted`: the value took part (false: the board is not active, or a newer value stands). `improved`:
 * the player is better off by the board's sort, or new. `score` is what stands now, `previous` what stood;
 * null without an entry.
 */
export type Scored = { accepted: boolean; improved: boolean; score: number | null; previous: number | null };

const record = (turn: Turn, board: Board, operation: Operation): Scored => {
  const { entries, dirty } = turn.player;
  const old = entries.get(board.periodId);
  const entry = nextEntry(board, old, operation);
  if (entry && entry !== old) {
    entries.set(board.periodId, entry);
    dirty.entries.add(board.periodId);
  }
  const standing = entry ?? old;
  return {
    accepted: entry !== undefined,
    improved: entry !== undefined && (!old || entry.rankScore < old.rankScore),
    score: standing ? fromRankScore(board, standing.rankScore) : null,
    previous: old ? fromRankScore(board, old.rankScore) : null,
  };
};

export type SubmitOptions = {
  /** When the score was made, in ms; default: the time of the turn's event. */
  atMs?: number;
  /** Whether boosts on `score:{key}` multiply a score above 0. */
  isBoostable?: boolean;
};

/** Why a board takes no submitted score; undefined when it does. */
export const refusalOf = (board: Board): string | undefined => {
  if (board.status !== "ACTIVE") return `leaderboard ${board.key} is not active`;
  return board.metric.source === "CUSTOM"
    ? undefined
    : `leaderboard ${board.key} is fed by ${board.metric.source}`;
};

/**
 * Submits a score for the turn's player to a CUSTOM board, by its operator. Scores beyond the board's range
 * are clamped to it. A board that takes no scores, or a score that is not a finite number, changes nothing
 * and leaves a warning.
 */
export const submitScore = (
  turn: Turn,
  board: Board,
  submitted: number,
  { atMs, isBoostable = false }: SubmitOptions = {},
): Scored => {
  const problem =
    refusalOf(board) ?? (Number.isFinite(submitted) ? undefined : "the score is not a finite number");
  if (problem !== undefined) {
    turn.warn(problem);
    return unchanged(turn, board);
  }
  const score = isBoostable && submitted > 0 ? submitted * useBoosts(turn, `score:${board.key}`) : submitted;
  if (isBeyondRange(board, score)) turn.warn(`leaderboard ${board.key}: the score is clamped`);
  const rankScore = toRankScore(board, score);
  return record(turn, board, { operator: board.operator, rankScore, atUs: toUs(atMs ?? turn.event.at) });
};

const unchanged = ({ player }: Turn, board: Board): Scored => {
  const old = player.entries.get(board.periodId);
  const standing = old ? fromRankScore(board, old.rankScore) : null;
  return { accepted: false, improved: false, score: standing, previous: standing };
};

/** Whether a score would be clamped. */
export const isBeyondRange = (board: Pick<Board, "scoreDecimals">, score: number): boolean =>
  Math.abs(unitsOf(board, score)) > RANK_MAX;

/** Scores the turn's event on every board that listens to it. */
export const scoreEvent = (turn: Turn, index: BoardIndex): void => {
  for (const { board, scoreOf } of index.forEvent(turn.event.type)) {
    const score = scoreOf(turn);
    if (score === undefined) continue;
    const rankScore = toRankScore(board, score);
    record(turn, board, { operator: board.operator, rankScore, atUs: toUs(turn.event.at) });
  }
};

/** Writes the player's total XP to every XP board. A player without XP enters with the first. */
export const scoreXp = (turn: Turn, index: BoardIndex): void => {
  const { xp, entries } = turn.player;
  for (const board of index.xp) {
    if (xp === 0 && !entries.has(board.periodId)) continue;
    record(turn, board, {
      operator: "REPLACE",
      rankScore: toRankScore(board, xp),
      atUs: toUs(turn.event.at),
    });
  }
};

/** What a board takes of an event; undefined when the event does not count. */
export type ScoreOf = (turn: Pick<Turn, "event">) => number | undefined;
export type Listener = { board: Board; scoreOf: ScoreOf };

/** The active boards of a project by what feeds them. */
export type BoardIndex = {
  xp: readonly Board[];
  forEvent(eventType: string): readonly Listener[];
};

/** Event types whose listeners an index remembers; integrators may send any number of types. */
const TYPES_REMEMBERED_MAX = 1_000;

/**
 * Indexes a project's active boards by event type. Build it once for a config version: filters are compiled
 * here.
 */
export const indexBoards = (boards: readonly Board[]): BoardIndex => {
  const active = boards.filter((board) => board.status === "ACTIVE");
  const listeners = active.flatMap(listenersOf);
  const byType = new Map<string, readonly Listener[]>();
  const find = (eventType: string): readonly Listener[] => {
    const found = listeners.filter(({ matches }) => matches(eventType));
    if (byType.size < TYPES_REMEMBERED_MAX) byType.set(eventType, found);
    return found;
  };
  return {
    xp: active.filter((board) => board.metric.source === "XP"),
    forEvent: (eventType) => byType.get(eventType) ?? find(eventType),
  };
};

type Matcher = (eventType: string) => boolean;

const listenersOf = (board: Board): (Listener & { matches: Matcher })[] => {
  if (board.metric.source !== "EVENT") return [];
  const matchers = board.metric.event.eventTypes.map(matcherOf);
  return [
    {
      board,
      scoreOf: compileScore(board.metric),
      matches: (type) => matchers.some((matches) => matches(type)),
    },
  ];
};

const matcherOf = (pattern: string): Matcher => {
  // The star is every event of the integrator's own, as in rules: what those bring about is not counted too.
  if (pattern === "*") return (eventType) => !isReservedType(eventType);
  if (!pattern.endsWith(".*")) return (eventType) => eventType === pattern;
  const prefix = pattern.slice(0, -1);
  return (eventType) => eventType.startsWith(prefix);
};

/**
 * An event's score by its metric: 1 for count, else the property, which counts only when it is a finite
 * number.
 */
export const compileScore = ({
  event,
  aggregate,
  property,
}: Extract<Metric, { source: "EVENT" }>): ScoreOf => {
  const passes = event.filter ? compileFilter(event.filter) : () => true;
  const read = aggregate === "count" ? () => 1 : compilePath(property!);
  return (turn) => {
    if (!passes(turn)) return undefined;
    const score = read(turn.event.properties);
    return typeof score === "number" && Number.isFinite(score) ? score : undefined;
  };
};
