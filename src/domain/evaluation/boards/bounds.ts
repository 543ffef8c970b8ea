import type { Turn } from "../turn.ts";
import type { Board } from "./board.ts";
import type { ScoreTarget } from "./record.ts";
import { fromRankScore, toUs } from "./scoring.ts";

const MINUTE_MS = 60_000;

/** A score to be checked against bounds; `after`: the resulting score. */
export type Bounded = { target: ScoreTarget; score: number; atMs: number; after: number | null };

type Bound = (board: Board, bounded: Bounded, turn: Turn) => string | undefined;

const least: Bound = ({ bounds }, { score }) =>
  bounds?.min !== undefined && score < bounds.min
    ? `min: the score ${score} is below ${bounds.min}`
    : undefined;

const highest: Bound = ({ bounds }, { score }) =>
  bounds?.max !== undefined && score > bounds.max
    ? `max: the score ${score} is above ${bounds.max}`
    : undefined;

/** A first score of a board that keeps one score has no predecessor; sums begin at 0. */
const delta: Bound = (board, { target: { old }, after }) => {
  const { bounds, operator } = board;
  if (bounds?.maxDelta === undefined || after === null) return undefined;
  const addsUp = operator === "SUM" || operator === "DECR";
  if (!old && !addsUp) return undefined;
  const moved = Math.abs(after - (old ? fromRankScore(board, old.rankScore) : 0));
  return moved > bounds.maxDelta ? `maxDelta: the score moves by more than ${bounds.maxDelta}` : undefined;
};

const interval: Bound = ({ bounds }, { target: { old }, atMs }) => {
  if (bounds?.minIntervalSeconds === undefined || !old) return undefined;
  const apartUs = Math.abs(toUs(atMs) - old.latestUs);
  return apartUs < bounds.minIntervalSeconds * 1_000_000
    ? `minIntervalSeconds: less than ${bounds.minIntervalSeconds} s from the last score`
    : undefined;
};

const perMinute: Bound = ({ id, bounds }, { atMs }, { player }) => {
  if (bounds?.maxPerMinute === undefined) return undefined;
  const [minute, count] = player.doc.s?.[id] ?? [-1, 0];
  return Math.floor(atMs / MINUTE_MS) === minute && count >= bounds.maxPerMinute
    ? `maxPerMinute: more than ${bounds.maxPerMinute} in a minute`
    : undefined;
};

const BOUNDS = [least, highest, delta, interval, perMinute];

/** Returns the first bound that a score violates, as a text that begins with the bound's name. */
export const violationOf = (turn: Turn, board: Board, bounded: Bounded): string | undefined => {
  if (!board.bounds) return undefined;
  for (const bound of BOUNDS) {
    const violation = bound(board, bounded, turn);
    if (violation !== undefined) return violation;
  }
  return undefined;
};
