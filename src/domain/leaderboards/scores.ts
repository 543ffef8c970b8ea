import { conflict, DomainError, invalid } from "../errors.ts";
import type { EntryChange } from "../events.ts";
import { getPlayer } from "../players/players.ts";
import { changePlayer } from "../progression/change.ts";
import type { Turn } from "../progression/turn.ts";
import type { Transact } from "../work.ts";
import { type LeaderboardParts, periodOf } from "./entries.ts";
import { boardOf, type Leaderboard } from "./leaderboard.ts";
import { getLeaderboard } from "./leaderboards.ts";
import type { PeriodRef, RankStore } from "./ranks.ts";
import { type Board, isBeyondRange, refusalOf, type Scored, submitScore } from "./scoring.ts";

/**
 * A score that claims to be made later than this from now is refused, in ms; up to then it counts as made
 * now.
 */
export const SCORE_FUTURE_MAX_MS = 86_400_000;

/** `playerId`: UUID or `ext:` and the external id. `score` is rounded to the board's decimals. */
export type ScoreSubmission = { playerId: string; score: number; occurredAt?: Date | undefined };

/** Ranks are null when the player has none, and when the rank index did not answer. */
export type ScoreResult = {
  accepted: boolean;
  improved: boolean;
  score: number | null;
  rank: number | null;
  previousRank: number | null;
};

type Recorded = { scored: Scored; change: EntryChange | undefined };

/** A submission that may be made: whose, where, and the rank before it. */
export type PreparedScore = {
  submission: ScoreSubmission;
  leaderboard: Leaderboard;
  playerId: string;
  previousRank: number | null;
};

/**
 * Looks at a submission before it is made, because ranks are not asked for in a transaction.
 * @throws DomainError NOT_FOUND for an unknown leaderboard or player; CONFLICT (LEADERBOARD_CLOSED,
 * LEADERBOARD_DERIVED); VALIDATION_ERROR for a score or a time out of range
 */
export const prepareScore = async (
  { transact, ranks }: LeaderboardParts,
  projectId: string,
  leaderboardRef: string,
  submission: ScoreSubmission,
): Promise<PreparedScore> => {
  const { leaderboard, playerId } = await transact(async (work) => {
    const found = await getLeaderboard(work, projectId, leaderboardRef);
    checkSubmission(found, submission, work.now);
    return { leaderboard: found, playerId: (await getPlayer(work, projectId, submission.playerId)).id };
  });
  const previousRank = await rankIn(ranks, periodOf(leaderboard), playerId);
  return { submission, leaderboard, playerId, previousRank };
};

/**
 * Submits a player's score to a CUSTOM leaderboard by its operator. `accepted` is false when a newer score
 * stands (LATEST). The ranks are those before and after, as far as others do not score at the same time; the
 * one after is `finish`'s to find, once the score is committed.
 * @throws DomainError CONFLICT (LEADERBOARD_CLOSED, PLAYER_INACTIVE)
 */
export const submitPlayerScore = async (
  { transact, ranks }: LeaderboardParts,
  prepared: PreparedScore,
): Promise<{ result: ScoreResult; finish: () => Promise<ScoreResult> }> => {
  const { leaderboard, playerId, previousRank } = prepared;
  const { scored, change } = await record(transact, prepared);
  const { accepted, improved, score } = scored;
  const result = { accepted, improved, score, rank: null, previousRank };
  return {
    result,
    finish: async () => ({
      ...result,
      rank: await rankAfter(ranks, periodOf(leaderboard), { playerId, change }),
    }),
  };
};

/** The index is memory that is built anew at need: no score is refused for want of it. */
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

const checkSubmission = (
  leaderboard: Leaderboard,
  { score, occurredAt }: ScoreSubmission,
  now: Date,
): void => {
  checkOpen(boardOf(leaderboard));
  if (isBeyondRange(boardOf(leaderboard), score))
    throw invalid("score", "is beyond the range of this leaderboard");
  if (occurredAt && occurredAt.getTime() > now.getTime() + SCORE_FUTURE_MAX_MS) {
    throw invalid("occurredAt", "is more than 24 hours in the future");
  }
};

const checkOpen = (board: Board): void => {
  const problem = refusalOf(board);
  if (problem === undefined) return;
  throw conflict(board.status === "ACTIVE" ? "LEADERBOARD_DERIVED" : "LEADERBOARD_CLOSED", problem);
};

const record = (
  transact: Transact,
  { leaderboard, playerId, submission: { score, occurredAt } }: PreparedScore,
): Promise<Recorded> =>
  transact(async (work) => {
    const submit = (turn: Turn): Recorded => {
      if (turn.player.status !== "ACTIVE")
        throw conflict("PLAYER_INACTIVE", `the player is ${turn.player.status}`);
      // The board as of this transaction: it may have been paused since it was read.
      const board = turn.project.boardsByKey.get(leaderboard.key);
      if (!board) throw conflict("LEADERBOARD_CLOSED", `leaderboard ${leaderboard.key} is not active`);
      const atMs = Math.min(occurredAt?.getTime() ?? turn.nowMs, turn.nowMs);
      const scored = submitScore(turn, board, score, { atMs });
      const entry = turn.player.entries.get(board.periodId);
      return { scored, change: entry && [playerId, entry.rankScore, entry.rankTie, entry.version] };
    };
    return (await changePlayer(work, leaderboard.projectId, playerId, submit)).value;
  });

type Applied = { playerId: string; change: EntryChange | undefined };

/** The rank once the entry is in the index. The relay applies it as well; versions make that harmless. */
const rankAfter = async (
  ranks: RankStore,
  period: PeriodRef,
  { playerId, change }: Applied,
): Promise<number | null> => {
  if (change) await unlessAway(() => ranks.apply(period.projectId, period.periodId, [change]));
  return rankIn(ranks, period, playerId);
};
