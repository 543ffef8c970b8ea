import { conflict, DomainError, invalid, notFound } from "../kernel/errors.ts";
import type { EntryChange } from "../kernel/events/events.ts";
import { getPlayer } from "../progression/players/players.ts";
import { periodTopic, type Topics } from "../kernel/events/topics.ts";
import type { Transact, Work } from "../kernel/work.ts";
import { boardOf, type Leaderboard } from "../progression/leaderboard.ts";
import { getLeaderboard } from "./leaderboards.ts";
import { findList } from "../evaluation/boards/lists.ts";
import type { PeriodRef, RankStore } from "../evaluation/boards/ranks.ts";
import type { Scored } from "../evaluation/boards/record.ts";
import {
  problemOfRefusal,
  recordScores,
  type ScoreOutcome,
  type ScoreProblem,
  type ScoreSubmission,
  submissionProblem,
} from "./record-scores.ts";
import { refusalOf } from "../evaluation/boards/submit.ts";

export type ScoreParts = { transact: Transact; ranks: RankStore; topics: Topics };

/** The effect of a score. `held`: it waits for a review, and nothing has changed. */
export type ScoreChange = {
  accepted: boolean;
  improved: boolean;
  score: number | null;
  held: boolean;
  reviewId: string | null;
};

/** Ranks are null when the player has none, and when the rank index did not answer. */
export type ScoreResult = ScoreChange & { rank: number | null; previousRank: number | null };

/** A valid submission: its list, and the rank before it. */
export type PreparedScore = {
  submission: ScoreSubmission;
  leaderboard: Leaderboard;
  previousRank: number | null;
};

/** Converts the problem of a single score to an error. */
export const errorOfProblem = (problem: ScoreProblem): DomainError => {
  const { code, message } = problem;
  if ("reason" in problem) return conflict(problem.reason, message);
  if ("field" in problem) return invalid(problem.field, message.slice(problem.field.length + 2));
  return code === "NOT_FOUND" ? notFound("player") : new DomainError(code, message);
};

/**
 * Validates a submission beforehand, because ranks are not queried in a transaction.
 * @throws DomainError NOT_FOUND for an unknown leaderboard or player; CONFLICT (LEADERBOARD_CLOSED,
 * LEADERBOARD_DERIVED); VALIDATION_ERROR for a score, a time or a meta out of range
 */
export const prepareScore = async (
  { transact, ranks }: ScoreParts,
  projectId: string,
  leaderboardRef: string,
  submission: ScoreSubmission,
): Promise<PreparedScore> => {
  const { leaderboard, place } = await transact(async (work) => {
    const found = await takesScores(work, projectId, leaderboardRef);
    const board = boardOf(found);
    const problem = submissionProblem(board, submission, work.now);
    if (problem) throw errorOfProblem(problem);
    const player = await getPlayer(work, projectId, submission.playerId);
    const atMs = Math.min(submission.occurredAt?.getTime() ?? Infinity, work.now.getTime());
    const list = findList(board, player, atMs);
    const isPlace = typeof list !== "string";
    return { leaderboard: found, place: isPlace ? { periodId: list.id, playerId: player.id } : undefined };
  });
  const { ties } = leaderboard.definition;
  const previousRank = place
    ? await rankIn(ranks, { projectId, periodId: place.periodId, ties }, place.playerId)
    : null;
  return { submission, leaderboard, previousRank };
};

/** Returns the leaderboard if it accepts scores. @throws DomainError NOT_FOUND, CONFLICT */
const takesScores = async (work: Work, projectId: string, ref: string): Promise<Leaderboard> => {
  const leaderboard = await getLeaderboard(work, projectId, ref);
  const refusal = refusalOf(boardOf(leaderboard));
  if (refusal) throw errorOfProblem(problemOfRefusal(refusal));
  return leaderboard;
};

export const changeOf = ({ accepted, improved, score, held }: Scored): ScoreChange => ({
  accepted,
  improved,
  score,
  held: held !== undefined,
  reviewId: held?.reviewId ?? null,
});

/** Returns why a score did not count; undefined when it did, or is held. */
export const problemOf = (outcome: ScoreOutcome): ScoreProblem | undefined => {
  if ("problem" in outcome) return outcome.problem;
  const { refusal } = outcome.scored;
  return refusal && problemOfRefusal(refusal);
};

/**
 * Submits a player's score to a CUSTOM leaderboard by its operator, in the period of its time. `accepted` is
 * false when a newer score stands (LATEST), when it does not suffice to enter, and when it is held. The ranks
 * are those before and after, unless others score at the same time; the one after is computed by `finish`,
 * once the score is committed.
 * @throws DomainError NOT_FOUND; CONFLICT: LEADERBOARD_CLOSED, PLAYER_INACTIVE, NOT_ELIGIBLE, LIMIT_REACHED,
 * SCORE_OUT_OF_BOUNDS, INSUFFICIENT_FUNDS
 */
export const submitPlayerScore = async (
  { transact, ranks, topics }: ScoreParts,
  { leaderboard, submission, previousRank }: PreparedScore,
): Promise<{ result: ScoreResult; finish: () => Promise<ScoreResult> }> => {
  const { projectId, key: leaderboardKey } = leaderboard;
  const { scored, playerId, change } = await transact(async (work) => {
    const [outcome] = await recordScores(work, { projectId, leaderboardKey }, [submission]);
    const problem = problemOf(outcome!);
    if (problem || "problem" in outcome!) throw errorOfProblem(problem!);
    return outcome!;
  });
  const result = { ...changeOf(scored), rank: null, previousRank };
  if (scored.listId === undefined) return { result, finish: async () => result };
  const period = { projectId, periodId: scored.listId, ties: leaderboard.definition.ties };
  return {
    result,
    finish: async () => ({
      ...result,
      rank: await rankAfter({ ranks, topics }, period, { playerId, change }),
    }),
  };
};

/** The outcome of one score of a batch. */
export type BatchScore = ScoreChange & {
  playerId: string | null;
  error: { code: string; reason: string | null; message: string } | null;
};

const NOTHING: ScoreChange = { accepted: false, improved: false, score: null, held: false, reviewId: null };

/** The result for an invalid score. */
export const unreadable = (message: string): BatchScore => failed({ code: "VALIDATION_ERROR", message });

const failed = (problem: ScoreProblem): BatchScore => {
  const { code, message } = problem;
  const reason = "reason" in problem ? problem.reason : null;
  return { ...NOTHING, playerId: null, error: { code, reason, message } };
};

/**
 * Submits many scores to one leaderboard, each as if alone: one result for each, and a faulty one does not
 * affect the others.
 * @throws DomainError NOT_FOUND for an unknown leaderboard; CONFLICT: LEADERBOARD_CLOSED, LEADERBOARD_DERIVED
 */
export const submitScores = async (
  work: Work,
  projectId: string,
  leaderboardRef: string,
  submissions: readonly ScoreSubmission[],
): Promise<BatchScore[]> => {
  const { key: leaderboardKey } = await takesScores(work, projectId, leaderboardRef);
  const outcomes = await recordScores(work, { projectId, leaderboardKey }, submissions);
  return outcomes.map((outcome) => {
    const problem = problemOf(outcome);
    if ("problem" in outcome) return failed(outcome.problem);
    const { playerId, scored } = outcome;
    if (problem) return { ...failed(problem), playerId, score: scored.score };
    return { ...changeOf(scored), playerId, error: null };
  });
};

/** The index is memory that is rebuilt when needed: its failure must not refuse a score. */
const unlessAway = async <T>(ask: () => Promise<T>): Promise<T | undefined> => {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof DomainError) return undefined;
    throw error;
  }
};

const rankIn = async (ranks: RankStore, period: PeriodRef, playerId: string): Promise<number | null> =>
  (await unlessAway(() => ranks.standing(period, playerId)))?.rank ?? null;

type Applied = { playerId: string; change: EntryChange | undefined };

/**
 * Returns the rank once the entry is in the index. The relay applies it as well; versions make that harmless.
 */
const rankAfter = async (
  { ranks, topics }: Pick<ScoreParts, "ranks" | "topics">,
  period: PeriodRef,
  { playerId, change }: Applied,
): Promise<number | null> => {
  const { projectId, periodId } = period;
  const moved = change && (await unlessAway(() => ranks.apply(projectId, periodId, [change])));
  // The relay will find nothing new, so watchers are notified here.
  if (moved) topics.publish(periodTopic(projectId, periodId), moved);
  return rankIn(ranks, period, playerId);
};
