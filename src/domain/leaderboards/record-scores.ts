import { z } from "zod";
import type { Board, Moment } from "../evaluation/boards/board.ts";
import {
  breakdownOf,
  findList,
  isBeyondRange,
  type Refusal,
  type Scored,
} from "../evaluation/boards/lists.ts";
import type { Ranked } from "../evaluation/boards/ranks.ts";
import { isMeta, SCORE_META_MAX_BYTES } from "../evaluation/boards/definition.ts";
import { refusalOf, submitScore } from "../evaluation/boards/submit.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { PlanTurn, ProjectPlan } from "../evaluation/project-plan.ts";
import { conflict, DomainError, invalid, notFound } from "../kernel/errors.ts";
import { EXTERNAL_ID_MAX } from "../kernel/limits.ts";
import type { EntryChange, Json } from "../kernel/events/events.ts";
import { eachInTurn, together } from "../kernel/together.ts";
import type { Transact, Work } from "../kernel/work.ts";
import { getLeaderboard } from "./leaderboards.ts";
import type { RankMove, RankMoves } from "./rank-moves.ts";
import { playerIdsOf } from "../players/player-refs.ts";
import { changePlayer } from "../progression/change.ts";
import { openGroupChange } from "../progression/group-change.ts";
import { boardOf, type Leaderboard } from "../progression/load-plan.ts";
import { lockPlayersById } from "../progression/load.ts";
import { lockPlan, planOf } from "../progression/plan.ts";
import { identifyPlayer, upsertPlayers } from "../progression/players/players.ts";

/** Maximum ms by which a score's time may be in the future; up to then it counts as made now. */
const SCORE_FUTURE_MAX_MS = 86_400_000;
/** Maximum number of scores per request. */
export const SCORES_MAX = 500;

/** `playerId`: UUID or `ext:` and the external id. `score` is rounded to the board's decimals. */
export type ScoreSubmission = {
  playerId: string;
  score: number;
  occurredAt?: Date | undefined;
  meta?: Json | undefined;
};

/** Why a score did not count, beyond the board's own restrictions. */
type ScoreProblem = { code: "NOT_FOUND" | "CONFLICT" | "VALIDATION_ERROR"; message: string } & (
  | { field: string }
  | { reason: string }
  | object
);

/** A score that was submitted. */
type RecordedScore = {
  playerId: string;
  scored: Scored;
  change: EntryChange | undefined;
  value: string | undefined;
};

/** The outcome of one score. */
type ScoreOutcome = { problem: ScoreProblem } | RecordedScore;

/** Converts the problem of a single score to an error. */
export const errorOfProblem = (problem: ScoreProblem): DomainError => {
  const { code, message } = problem;
  if ("reason" in problem) return conflict(problem.reason, message);
  if ("field" in problem) return invalid(problem.field, message.slice(problem.field.length + 2));
  return code === "NOT_FOUND" ? notFound("player") : new DomainError(code, message);
};

/** A fault of the submission itself. */
const submissionProblem = (
  board: Pick<Board, "scoreDecimals">,
  { score, occurredAt, meta }: Omit<ScoreSubmission, "playerId">,
  now: Date,
): ScoreProblem | undefined => {
  const refuse = (field: string, message: string): ScoreProblem => ({
    code: "VALIDATION_ERROR",
    field,
    message: `${field}: ${message}`,
  });
  if (isBeyondRange(board, score)) return refuse("score", "is beyond the range of this leaderboard");
  if (occurredAt && occurredAt.getTime() > now.getTime() + SCORE_FUTURE_MAX_MS)
    return refuse("occurredAt", "is more than 24 hours in the future");
  if (meta && !isMeta(meta)) return refuse("meta", `must be at most ${SCORE_META_MAX_BYTES} bytes of JSON`);
  return undefined;
};

const problemOfRefusal = ({ reason, message }: Refusal): ScoreProblem => ({
  code: "CONFLICT",
  reason,
  message,
});

type Target = { projectId: string; leaderboardKey: string; isReviewed?: boolean };

/**
 * Submits scores to one CUSTOM leaderboard, each as if alone and in order: a faulty one does not affect the
 * others. The number of statements is the same for any number of scores.
 */
export const recordScores = async (
  work: Work,
  { projectId, leaderboardKey, isReviewed = false }: Target,
  submissions: readonly ScoreSubmission[],
): Promise<ScoreOutcome[]> => {
  const ids = await playerIdsOf(work, projectId, [...new Set(submissions.map(({ playerId }) => playerId))]);
  if (!isReviewed) await createMissing(work, { projectId, leaderboardKey }, submissions, ids);
  const moments = momentsOf(work, submissions, ids);
  let players = new Map<string, PlayerState>();
  const several = await openGroupChange(work, {
    projectId,
    lock: async () => {
      players = await lockPlayersById(work, projectId, [...moments.keys()]);
      for (const [id, player] of players) player.moments = [...player.moments, ...moments.get(id)!];
      return [...players.values()];
    },
  });
  const board = several.plan.boardsByKey.get(leaderboardKey);
  const recordOne = async (submission: ScoreSubmission): Promise<ScoreOutcome> => {
    const player = players.get(ids.get(submission.playerId) ?? "");
    const problem = board ? submissionProblem(board, submission, work.now) : undefined;
    if (!player) return { problem: { code: "NOT_FOUND", message: "player not found" } };
    if (problem) return { problem };
    if (!board) return { problem: problemOfRefusal(notActive(leaderboardKey)) };
    if (player.status !== "ACTIVE") return { problem: inactive(player) };
    const turn = several.open(player);
    const { score, meta } = submission;
    const scored = submitScore(turn, board, score, { atMs: atOf(work.now, submission), meta, isReviewed });
    await several.settle(turn);
    return outcomeOf(board, player, scored);
  };
  const outcomes: ScoreOutcome[] = [];
  for (const submission of submissions) outcomes.push(await recordOne(submission));
  await several.save();
  return outcomes;
};

/** Returns the new player's name if a score may create the player, as an event may. */
const newcomerOf = (plan: ProjectPlan, ref: string): string | undefined => {
  const name = ref.startsWith("ext:") ? ref.slice("ext:".length) : "";
  const isName = name.length > 0 && name.length <= EXTERNAL_ID_MAX;
  return isName && plan.settings.autoCreatePlayers ? name : undefined;
};

/** Creates the players of good scores who do not exist yet, and adds their `ids`. */
const createMissing = async (
  work: Work,
  { projectId, leaderboardKey }: Target,
  submissions: readonly ScoreSubmission[],
  ids: Map<string, string>,
): Promise<void> => {
  const plan = await planOf(work, projectId);
  const board = plan.boardsByKey.get(leaderboardKey);
  const names = new Set<string>();
  for (const submission of submissions) {
    const name = ids.has(submission.playerId) ? undefined : newcomerOf(plan, submission.playerId);
    if (name !== undefined && board && !submissionProblem(board, submission, work.now)) names.add(name);
  }
  if (names.size === 0) return;
  // Existing players are locked before others are created, as in batches, to avoid deadlocks.
  await lockPlayersById(work, projectId, [...new Set(ids.values())]);
  const players = [...names].map((externalUserId) => ({ externalUserId }));
  const made = await upsertPlayers(work, projectId, { players, cause: { kind: "API" } });
  for (const [i, name] of [...names].entries()) {
    const one = made[i]!;
    if (one.status !== "REJECTED") ids.set(`ext:${name}`, one.playerId);
  }
};

const outcomeOf = (board: Board, player: PlayerState, scored: Scored): RecordedScore => {
  const entry = scored.listId === undefined ? undefined : player.entries.get(scored.listId);
  const change: EntryChange | undefined = entry && [player.id, entry.rankScore, entry.rankTie, entry.version];
  return { playerId: player.id, scored, change, value: breakdownOf(board, player) };
};

/** A list in which a score counts, and the player's entry there before it. */
type EntryBefore = { listId: string; entry: Ranked | undefined };

const entryBefore = (board: Board, player: PlayerState, atMs: number): EntryBefore | undefined => {
  const list = findList(board, player, { at: atMs });
  if (typeof list === "string") return undefined;
  const { rankScore, rankTie } = player.entries.get(list.id) ?? {};
  if (rankScore === undefined || rankTie === undefined) return { listId: list.id, entry: undefined };
  return { listId: list.id, entry: { playerId: player.id, rankScore, rankTie } };
};

type BoardOfPlan = { plan: ProjectPlan; board: Board };

/**
 * Submits one score to a CUSTOM leaderboard, together with the others who share the transaction.
 * @throws DomainError NOT_FOUND for an unknown player, unless the project creates players; CONFLICT
 */
const recordScore = async (
  work: Work,
  { plan, board }: BoardOfPlan,
  submission: ScoreSubmission,
): Promise<RecordedScore & { before: EntryBefore | undefined }> => {
  const { projectId } = plan;
  const atMs = atOf(work.now, submission);
  const submit = (turn: PlanTurn) => {
    const { player } = turn;
    if (player.status !== "ACTIVE") throw errorOfProblem(inactive(player));
    const before = entryBefore(board, player, atMs);
    const scored = submitScore(turn, board, submission.score, { atMs, meta: submission.meta });
    if (scored.refusal) throw errorOfProblem(problemOfRefusal(scored.refusal));
    return () => ({ ...outcomeOf(board, player, scored), before });
  };
  const options = { moments: [{ at: atMs }], isOfActive: true };
  const record = async (id: string) => (await changePlayer(work, { projectId, id }, submit, options)).value;
  try {
    return await record(submission.playerId);
  } catch (error) {
    if (!(error instanceof DomainError && error.code === "NOT_FOUND")) throw error;
    const externalUserId = newcomerOf(plan, submission.playerId);
    if (externalUserId === undefined) throw error;
    return record((await identifyPlayer(work, projectId, { externalUserId })).player.id);
  }
};

/** The effective time: no later than now. */
const atOf = (now: Date, { occurredAt }: ScoreSubmission): number =>
  Math.min(occurredAt?.getTime() ?? now.getTime(), now.getTime());

/** Returns the moments of each player's scores, by id. */
const momentsOf = (
  work: Work,
  submissions: readonly ScoreSubmission[],
  ids: ReadonlyMap<string, string>,
): Map<string, Moment[]> => {
  const moments = new Map<string, Moment[]>();
  for (const submission of submissions) {
    const id = ids.get(submission.playerId);
    if (id === undefined) continue;
    moments.set(id, [...(moments.get(id) ?? []), { at: atOf(work.now, submission) }]);
  }
  return moments;
};

const notActive = (key: string): Refusal => ({
  reason: "LEADERBOARD_CLOSED",
  message: `leaderboard ${key} is not active`,
});

const inactive = ({ status }: PlayerState): ScoreProblem => ({
  code: "CONFLICT",
  reason: "PLAYER_INACTIVE",
  message: `the player is ${status}`,
});

/** What is left to do of a submission once it is committed, as JSON: its ranks. */
export type ScoreLeft = { result: ScoreResult; move: RankMove; isListed: boolean };

/** The effect of a score. `held`: it waits for a review, and nothing has changed. */
export const ScoreChange = z.object({
  accepted: z.boolean(),
  improved: z.boolean(),
  score: z.number().nullable().meta({ description: "The player's score now" }),
  held: z.boolean().meta({ description: "Out of bounds: it waits for a review and nothing has changed" }),
  reviewId: z.uuid().nullable(),
});
type ScoreChange = z.output<typeof ScoreChange>;

/** Ranks are null when the player has none, and when the rank index did not answer. */
type ScoreResult = ScoreChange & { rank: number | null; previousRank: number | null };

/** Returns the leaderboard if it accepts scores. @throws DomainError NOT_FOUND, CONFLICT */
const takesScores = async (work: Work, projectId: string, ref: string): Promise<Leaderboard> => {
  const leaderboard = await getLeaderboard(work, projectId, ref);
  const refusal = refusalOf(boardOf(leaderboard));
  if (refusal) throw errorOfProblem(problemOfRefusal(refusal));
  return leaderboard;
};

const changeOf = ({ accepted, improved, score, held }: Scored): ScoreChange => ({
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
const boardFor = async (work: Work, projectId: string, ref: string): Promise<BoardOfPlan> => {
  const plan = await lockPlan(work, projectId);
  const board = plan.boards.find(({ id }) => id === ref.toLowerCase()) ?? plan.boardsByKey.get(ref);
  if (board && !refusalOf(board)) return { plan, board };
  const { key } = await checkTakesScores(work, { projectId, ref });
  throw errorOfProblem(problemOfRefusal(notActive(key)));
};

/**
 * Submits a player's score to a CUSTOM leaderboard by its operator, in the period of its time. `accepted` is
 * false when a newer score stands (LATEST), when it does not suffice to enter, and when it is held. The ranks
 * are those before and after, unless others score at the same time; they are read by `finish`, once the score
 * is committed.
 * @throws DomainError NOT_FOUND for an unknown leaderboard or player (a name creates the player, where the
 * project's settings say so); VALIDATION_ERROR for a score, a time or
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
    const target = await boardFor(work, projectId, leaderboardRef);
    const problem = submissionProblem(target.board, submission, work.now);
    if (problem) throw errorOfProblem(problem);
    return { ...(await recordScore(work, target, submission)), ties: target.board.ties };
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
