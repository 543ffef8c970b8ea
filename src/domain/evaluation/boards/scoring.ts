import type { EntryState } from "../player-state.ts";
import type { Board } from "./board.ts";

/**
 * Bound of scores (in units), ties and sums: every integer within it is exact in JavaScript, JSON and Redis.
 */
export const RANK_MAX = Number.MAX_SAFE_INTEGER;

const clamp = (value: number): number => Math.max(-RANK_MAX, Math.min(RANK_MAX, value));

/** Converts a score to units of the board, not clamped: 12.345 with 2 decimals is 1,235. */
export const unitsOf = ({ scoreDecimals }: Pick<Board, "scoreDecimals">, score: number): number => {
  // Moving the decimal point in the text rounds the decimal number given; `score * 100` would round 1.005
  // down.
  const [digits, exponent = "0"] = String(score).split("e") as [string, string?];
  return Math.round(Number(`${digits}e${Number(exponent) + scoreDecimals}`)) + 0;
};

/** Converts a score to its stored form: whole units, clamped, smaller is better. */
export const toRankScore = (board: Pick<Board, "scoreDecimals" | "sort">, score: number): number => {
  const units = clamp(unitsOf(board, score));
  return board.sort === "DESC" ? 0 - units : units;
};

export const fromRankScore = (
  { scoreDecimals, sort }: Pick<Board, "scoreDecimals" | "sort">,
  rankScore: number,
): number => (sort === "DESC" ? 0 - rankScore : rankScore) / 10 ** scoreDecimals;

/** Returns when the score was reached, in microseconds since 1970. */
export const reachedUs = ({ ties }: Pick<Board, "ties">, rankTie: number): number =>
  ties === "LATEST" ? 0 - rankTie : rankTie;

/**
 * Converts a time to the unit of ties and `latestUs`; clamped, which only affects times before 1685 or after
 * 2255.
 */
export const toUs = (ms: number): number => clamp(Math.round(ms * 1_000));

/** REPLACE is for totals kept elsewhere, such as XP: the given value is authoritative, whatever its time. */
export type Operation = { operator: Board["operator"] | "REPLACE"; rankScore: number; atUs: number };

const combine = (old: EntryState, { operator, rankScore, atUs }: Operation): number | undefined => {
  if (operator === "SUM") return clamp(old.rankScore + rankScore);
  if (operator === "DECR") return clamp(old.rankScore - rankScore);
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
    return { rankScore: first, rankTie: signed(board, atUs), latestUs: atUs, version: 1 };
  }
  const rankScore = combine(old, operation);
  if (rankScore === undefined) return undefined;
  const latestUs = Math.max(old.latestUs, atUs);
  const isNewer = operator === "LATEST" && latestUs !== old.latestUs;
  const rankTie = signed(board, reachedBy(board, old, operation, rankScore));
  if (rankScore === old.rankScore && rankTie === old.rankTie && !isNewer) return old;
  const kept = old.submissions === undefined ? {} : { submissions: old.submissions };
  return { rankScore, rankTie, latestUs, version: old.version + 1, ...kept };
};

const signed = ({ ties }: Pick<Board, "ties">, us: number): number => (ties === "LATEST" ? 0 - us : us);

/** Returns whether a score would be clamped. */
export const isBeyondRange = (board: Pick<Board, "scoreDecimals">, score: number): boolean =>
  Math.abs(unitsOf(board, score)) > RANK_MAX;
