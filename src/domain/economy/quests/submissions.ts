import { auditDefinition } from "../../accounts/audit/definitions.ts";
import { type Limiter, RateLimited } from "../../accounts/rate-limits/limiter.ts";
import { LIMITS } from "../../accounts/rate-limits/limits.ts";
import type { CompiledQuest } from "../../evaluation/quests/compile.ts";
import { hashOfCode } from "../../evaluation/quests/codes.ts";
import type { PlayerQuest } from "../../evaluation/quests/show.ts";
import { type Review, reviewNow } from "../../evaluation/quests/review.ts";
import {
  type Submission,
  type Submitted,
  type SubmitProblem,
  submitNow,
} from "../../evaluation/quests/submit.ts";
import { actorOf } from "../../kernel/caller.ts";
import { conflict, invalid, notFound } from "../../kernel/errors.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { lockPlan } from "../../progression/locked-plan.ts";
import { projectPlans, readPlan } from "../../progression/plan.ts";
import { getPlayer } from "../../progression/players/players.ts";
import { changeQuestOf, type PlayerRef } from "./change-quests.ts";
import { keepPoolCode, type PoolCode, takePoolCode } from "./codes.ts";
import { questOf } from "./player-quests.ts";
import { checkSubmission } from "./reviews.ts";

/** What is submitted for a step, as requests have it: nothing more is a confirmation. */
export type SubmitBody = {
  evidence?: string | undefined;
  code?: string | undefined;
  answers?: Readonly<Record<string, readonly number[]>> | undefined;
};

type StepRef = { questRef: string; stepKey: string };

/** The answer to a submission. */
export type SubmitAnswer = Omit<Submitted, "row" | "isPoolUsed"> & { playerQuest: PlayerQuest };

const refusalOf = (problem: SubmitProblem, stepKey: string): Error => {
  if ("unknown" in problem) return notFound(`step ${stepKey}`);
  if ("field" in problem) return invalid(problem.field, problem.message);
  return conflict(problem.reason, problem.message);
};

const submissionOf = ({ evidence, code, answers }: SubmitBody, isTaken: boolean): Submission => {
  if (code !== undefined) return { kind: "CODE", hash: hashOfCode(code), isTaken };
  return answers === undefined ? { kind: "MANUAL", evidence } : { kind: "QUIZ", answers };
};

const hasPool = (quest: CompiledQuest, stepKey: string): boolean =>
  [quest, ...quest.earlier.values()].some(({ steps }) =>
    steps.some(({ definition: step }) => step.key === stepKey && step.kind === "CODE" && step.perPlayerCodes),
  );

/**
 * Submits a confirmation, a code or answers for a step of a player's quest. What is wrong counts as an
 * attempt, and is answered as not accepted.
 * @throws DomainError NOT_FOUND; VALIDATION_ERROR where the step wants something else; CONFLICT:
 * QUEST_NOT_AVAILABLE, LIMIT_REACHED, PLAYER_INACTIVE, INVALID_STATE, or STEP_ and the state of the step
 */
export const submitPlayerStep = async (
  work: Work,
  player: PlayerRef,
  { questRef, stepKey, body }: StepRef & { body: SubmitBody },
): Promise<SubmitAnswer> => {
  const { projectId } = player;
  const plan = await lockPlan(work, projectId);
  const named = questOf(plan, questRef);
  const pool: PoolCode | undefined =
    body.code !== undefined && hasPool(named, stepKey)
      ? { projectId, questKey: named.key, stepKey, hash: hashOfCode(body.code) }
      : undefined;
  const isTaken = pool !== undefined && (await takePoolCode(work, pool));
  let submitted: Submitted | undefined;
  let playerId = "";
  const playerQuest = await changeQuestOf(work, player, { plan, questRef }, (turn, quest) => {
    if (quest.phase === "PAUSED") throw conflict("INVALID_STATE", "the quest is PAUSED");
    const outcome = submitNow(turn, quest, { stepKey, submission: submissionOf(body, isTaken) });
    if (!("accepted" in outcome)) throw refusalOf(outcome, stepKey);
    submitted = outcome;
    playerId = turn.player.id;
    return outcome.row;
  });
  const { row: _row, isPoolUsed, ...answer } = submitted!;
  if (isTaken) await keepPoolCode(work, pool, isPoolUsed ? playerId : null);
  return { ...answer, playerQuest };
};

/**
 * Decides about a submission for a step of a player's quest, once: the oldest that waits, or the one that is
 * named.
 * @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE where nothing waits, PLAYER_INACTIVE
 */
export const reviewPlayerStep = async (
  work: Work,
  player: PlayerRef,
  { questRef, note, ...given }: Omit<Review, "by" | "note"> & { questRef: string; note?: string | undefined },
): Promise<PlayerQuest> => {
  const { projectId } = player;
  const plan = await lockPlan(work, projectId);
  const named = questOf(plan, questRef);
  if (given.submissionId !== undefined)
    await checkSubmission(work, projectId, { id: given.submissionId, questKey: named.key });
  const by = work.by ? actorOf(work.by.caller) : "system";
  let decided = "";
  const playerQuest = await changeQuestOf(work, player, { plan, questRef }, (turn, quest) => {
    if (quest.phase === "PAUSED") throw conflict("INVALID_STATE", "the quest is PAUSED");
    const outcome = reviewNow(turn, quest, { ...given, note: note ?? null, by });
    if (typeof outcome === "string") throw conflict("INVALID_STATE", outcome);
    decided = outcome.id;
    return outcome.row;
  });
  const action = given.decision === "APPROVE" ? "approved" : "rejected";
  await auditDefinition(work, `quest_submission.${action}`, { projectId, id: decided, key: named.key });
  return playerQuest;
};

type TryParts = { transact: Transact; limiter: Limiter; clock: () => Date };

/**
 * Counts a code or answers that a player tries at a step, before the transaction in which they are compared.
 * @throws DomainError NOT_FOUND for an unknown player; RateLimited QUEST_ATTEMPTS past 10 a minute
 */
export const admitAttempt = async (
  { transact, limiter, clock }: TryParts,
  { projectId, id }: PlayerRef,
  { questRef, stepKey, body }: StepRef & { body: SubmitBody },
): Promise<void> => {
  if (body.code === undefined && body.answers === undefined) return;
  const { player, questKey } = await transact(async (work) => ({
    player: await getPlayer(work, projectId, id),
    questKey: questOf(await readPlan(work, projectId, projectPlans), questRef).key,
  }));
  const state = await limiter.consume(
    LIMITS.questAttempts,
    `${projectId}:${player.id}:${questKey}:${stepKey}`,
  );
  if (state.isAllowed) return;
  const message = "Too many codes or answers were tried; wait a minute";
  throw new RateLimited("QUEST_ATTEMPTS", message, state, clock().getTime());
};
