import type { Board } from "./board.ts";
import {
  entryRefusal,
  fromRankScore,
  isBeyondRange,
  isEnough,
  isRefusal,
  nextEntry,
  type Operation,
  recordIn,
  type Refusal,
  removedVersion,
  type Scored,
  type ScoreTarget,
  targetAt,
  toRankScore,
  toUs,
  unchanged,
} from "./lists.ts";
import { useBoosts } from "../boosts/boosts.ts";
import { adjustCurrency } from "../currencies/adjust.ts";
import { publish } from "../emit.ts";
import type { EntryState } from "../player-state.ts";
import { playerOf, type Turn, write } from "../turn.ts";
import type { Json } from "../../kernel/events/events.ts";
import { firstOf } from "../../kernel/first.ts";
import { newId } from "../../kernel/ids.ts";

const MINUTE_MS = 60_000;

/** A score to be checked against bounds; `after`: the resulting score. */
type Bounded = { target: ScoreTarget; score: number; atMs: number; after: number | null };

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
const violationOf = (turn: Turn, board: Board, bounded: Bounded): string | undefined =>
  board.bounds && firstOf(BOUNDS, (bound) => bound(board, bounded, turn));

type SubmitOptions = {
  /** When the score was achieved, in ms; default: the time of the turn's event. */
  atMs?: number;
  /** Whether boosts on `score:{key}` multiply a score above 0. */
  isBoostable?: boolean;
  /** Kept with the score as long as it stands. */
  meta?: Json | undefined;
  /** Whether the score is recorded with the firing of the rule that submits it. */
  isRecorded?: boolean;
  /** The score was approved by a review: bounds do not apply. */
  isReviewed?: boolean;
};

/** Returns why a board accepts no submitted scores; undefined when it does. */
export const refusalOf = (board: Board): Refusal | undefined => {
  if (board.status !== "ACTIVE")
    return { reason: "LEADERBOARD_CLOSED", message: `leaderboard ${board.key} is not active` };
  if (board.metric.source === "CUSTOM") return undefined;
  const message = `leaderboard ${board.key} is fed by ${board.metric.source}`;
  return { reason: "LEADERBOARD_DERIVED", message };
};

/**
 * Submits a score for the turn's player to a CUSTOM board, by its operator, subject to bounds, number of
 * submissions and cost of entry. Scores beyond the board's range are clamped. A score that is refused, or
 * held for a review, changes nothing on the board and adds a warning.
 */
export const submitScore = (
  turn: Turn,
  board: Board,
  submitted: number,
  options: SubmitOptions = {},
): Scored => {
  const { atMs = turn.event.at } = options;
  const target = Number.isFinite(submitted)
    ? (refusalOf(board) ?? targetAt(turn, board, { at: atMs }))
    : NOT_FINITE;
  if (isRefusal(target)) return refuse(turn, board, { refusal: target });
  const refusal = entryRefusal(turn, board, target) ?? tooMany(board, target);
  if (refusal) return refuse(turn, board, { refusal, target });
  const score = boosted(turn, board, submitted, options);
  if (isBeyondRange(board, score)) turn.warn(`leaderboard ${board.key}: the score is clamped`);
  return submit(turn, board, { target, score, atMs, options });
};

const boosted = (turn: Turn, { key }: Board, score: number, { isBoostable = false }: SubmitOptions): number =>
  isBoostable && score > 0 ? score * useBoosts(turn, `score:${key}`) : score;

const NOT_FINITE: Refusal = { reason: "SCORE_OUT_OF_BOUNDS", message: "the score is not a finite number" };

const refuse = (turn: Turn, board: Board, given: { refusal: Refusal; target?: ScoreTarget }): Scored => {
  turn.warn(given.refusal.message);
  return unchanged(board, given);
};

const tooMany = ({ key, maxSubmissions = Infinity }: Board, { old }: ScoreTarget): Refusal | undefined =>
  (old?.submissions ?? 0) < maxSubmissions
    ? undefined
    : {
        reason: "LIMIT_REACHED",
        message: `leaderboard ${key} takes ${maxSubmissions} scores of a player in a period`,
      };

type Submission = { target: ScoreTarget; score: number; atMs: number; options: SubmitOptions };

const submit = (turn: Turn, board: Board, { target, score, atMs, options }: Submission): Scored => {
  const { operator } = board;
  const operation: Operation = { operator, rankScore: toRankScore(board, score), atUs: toUs(atMs) };
  const given = { target, score, atMs, meta: options.meta };
  const after = scoreAfter(board, target, operation);
  const violation = options.isReviewed ? undefined : violationOf(turn, board, { ...given, after });
  if (violation !== undefined) return violated(turn, board, { ...given, violation });
  const refusal = payEntry(turn, board, { target, operation });
  if (refusal) return refuse(turn, board, { refusal, target });
  countMinute(turn, board, atMs);
  const scored = recordIn(turn, board, { ...operation, target, more: moreOf(board, target, options) });
  const { rankScore, atUs } = operation;
  if (options.isRecorded && turn.player.entries.has(target.list.id))
    write(turn, "scores", [target.list.id, rankScore, atUs]);
  return scored;
};

/** Returns the data to be stored on the entry besides the score. */
const moreOf = (
  { maxSubmissions }: Board,
  { old }: ScoreTarget,
  { meta, isRecorded = false }: SubmitOptions,
) => ({
  ...recordedOf(old, isRecorded),
  ...(maxSubmissions === undefined ? {} : { submissions: (old?.submissions ?? 0) + 1 }),
  // Data of the previous score is replaced.
  ...(meta !== undefined || old ? { meta: meta ?? null } : {}),
});

/** Counts recorded scores as long as there are no others. */
const recordedOf = (old: EntryState | undefined, isRecorded: boolean): Pick<EntryState, "recorded"> => {
  const before = old ? old.recorded : 0;
  return isRecorded && before !== undefined ? { recorded: before + 1 } : {};
};

/** Returns the resulting score; null without an entry. */
const scoreAfter = (board: Board, { old }: ScoreTarget, operation: Operation): number | null => {
  const after = nextEntry(board, old, operation) ?? old;
  return after ? fromRankScore(board, after.rankScore) : null;
};

type Violated = Pick<Submission, "target" | "score" | "atMs"> & { meta: Json | undefined; violation: string };

/** Refuses a score that is out of bounds, or holds it for a review. */
const violated = (turn: Turn, board: Board, { target, violation, ...score }: Violated): Scored => {
  const { list } = target;
  const refusal: Refusal = { reason: "SCORE_OUT_OF_BOUNDS", message: violation };
  if (board.bounds?.onViolation !== "HOLD") return refuse(turn, board, { refusal, target });
  const { player } = turn;
  const reviewId = newId();
  write(turn, "scoreReviews", {
    id: reviewId,
    projectId: player.projectId,
    leaderboardId: board.id,
    periodId: list.id,
    playerId: player.id,
    score: score.score,
    violation,
    meta: score.meta ?? null,
    atMs: score.atMs,
  });
  publish(
    turn,
    "leaderboard.score_held",
    {
      ...playerOf(turn),
      leaderboardKey: board.key,
      leaderboardId: board.id,
      periodKey: list.window.key,
      board: list.value,
      score: score.score,
      violation,
      reviewId,
    },
    { isSilent: true },
  );
  turn.warn(`leaderboard ${board.key}: the score is held for a review: ${violation}`);
  const { refusal: _, ...standing } = unchanged(board, { refusal, target });
  return { ...standing, held: { reviewId, violation } };
};

/** Charges the cost of entry to a player who enters. */
const payEntry = (
  turn: Turn,
  board: Board,
  { target, operation }: { target: ScoreTarget; operation: Operation },
): Refusal | undefined => {
  const { entryCost, key } = board;
  const enters = !target.old && isEnough(board, nextEntry(board, undefined, operation)!.rankScore);
  if (!entryCost || !enters) return undefined;
  const { currencyKey, amount } = entryCost;
  // A player who was removed and enters again pays again: the list counts the removals.
  const times = removedVersion(turn.player.doc, target.list.id) ?? 0;
  const { entry } = adjustCurrency(turn, {
    currencyKey,
    amount: -amount,
    cause: { kind: "LEADERBOARD", refKey: key },
    key: `lbe:${target.list.id}:${times}`,
    reason: `entry to leaderboard ${key}`,
  });
  if (entry) return undefined;
  const message = `the player does not have ${amount} ${currencyKey} to enter leaderboard ${key}`;
  return { reason: "INSUFFICIENT_FUNDS", message };
};
/** Counts scores per minute of the clock, for the latest minute only. */
const countMinute = ({ player }: Turn, { id, bounds }: Board, atMs: number): void => {
  if (bounds?.maxPerMinute === undefined) return;
  const minute = Math.floor(atMs / MINUTE_MS);
  const [latest, count] = player.doc.s?.[id] ?? [minute, 0];
  if (minute < latest) return;
  const counted = [minute, minute === latest ? count + 1 : 1] as const;
  player.doc = { ...player.doc, s: { ...player.doc.s, [id]: counted } };
  player.dirty.doc = true;
};
