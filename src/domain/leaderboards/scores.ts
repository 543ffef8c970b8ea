import type { Transact, Work } from "../kernel/work.ts";
import { eachInTurn, together } from "../kernel/together.ts";
import type { Board } from "../evaluation/boards/board.ts";
import type { Scored } from "../evaluation/boards/record.ts";
import { refusalOf } from "../evaluation/boards/submit.ts";
import { boardOf, type Leaderboard } from "../progression/leaderboard.ts";
import { lockPlan } from "../progression/locked-plan.ts";
import { getLeaderboard } from "./leaderboards.ts";
import type { RankMove, RankMoves } from "./rank-moves.ts";
import {
  errorOfProblem,
  notActive,
  problemOfRefusal,
  recordScore,
  recordScores,
  type ScoreOutcome,
  type ScoreProblem,
  type ScoreSubmission,
  submissionProblem,
} from "./record-scores.ts";

/** What is left to do of a submission once it is committed, as JSON: its ranks. */
export type ScoreLeft = { result: ScoreResult; move: RankMove; isListed: boolean };

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

const checkTakesScores = together({
  phase: "READS",
  isWrite: false,
  run: (work, boards: readonly { projectId: string; ref: string }[]) =>
    eachInTurn(boards, ({ projectId, ref }) => takesScores(work, projectId, ref)),
});

/** Returns the board if it accepts scores. @throws DomainError NOT_FOUND, CONFLICT */
const boardFor = async (work: Work, projectId: string, ref: string): Promise<Board> => {
  const { boards, boardsByKey } = await lockPlan(work, projectId);
  const board = boards.find(({ id }) => id === ref.toLowerCase()) ?? boardsByKey.get(ref);
  if (board && !refusalOf(board)) return board;
  const { key } = await checkTakesScores(work, { projectId, ref });
  throw errorOfProblem(problemOfRefusal(notActive(key)));
};

/**
 * Submits a player's score to a CUSTOM leaderboard by its operator, in the period of its time. `accepted` is
 * false when a newer score stands (LATEST), when it does not suffice to enter, and when it is held. The ranks
 * are those before and after, unless others score at the same time; they are read by `finish`, once the score
 * is committed.
 * @throws DomainError NOT_FOUND for an unknown leaderboard or player; VALIDATION_ERROR for a score, a time or
 * a meta out of range; CONFLICT: LEADERBOARD_CLOSED, LEADERBOARD_DERIVED, PLAYER_INACTIVE, NOT_ELIGIBLE,
 * LIMIT_REACHED, SCORE_OUT_OF_BOUNDS, INSUFFICIENT_FUNDS
 */
export const submitPlayerScore = async (
  transact: Transact,
  projectId: string,
  leaderboardRef: string,
  submission: ScoreSubmission,
): Promise<{ result: ScoreResult; left: ScoreLeft | undefined }> => {
  const { scored, playerId, change, before, ties } = await transact(async (work) => {
    const board = await boardFor(work, projectId, leaderboardRef);
    const problem = submissionProblem(board, submission, work.now);
    if (problem) throw errorOfProblem(problem);
    return { ...(await recordScore(work, { projectId, board }, submission)), ties: board.ties };
  });
  const result = { ...changeOf(scored), rank: null, previousRank: null };
  if (!before) return { result, left: undefined };
  const period = { projectId, periodId: before.listId, ties };
  const move = { period, playerId, before: before.entry, change };
  return { result, left: { result, move, isListed: scored.listId !== undefined } };
};

/**
 * Reads the ranks of a committed score: those before and after it, unless others score at the same time. May
 * run twice.
 */
export const finishScore = async (
  { rankMoves }: { rankMoves: RankMoves },
  { result, move, isListed }: ScoreLeft,
): Promise<ScoreResult> => {
  const ranks = await rankMoves(move);
  return { ...result, ...ranks, ...(isListed ? {} : { rank: null }) };
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
