import { sql } from "kysely";
import { z } from "zod";
import { auditDefinition } from "../../accounts/audit/audit.ts";
import { type CountingParts, countUse, LIMITS } from "../../accounts/rate-limits/limiter.ts";
import { type Definition, getDefinition } from "../definitions/definitions.ts";
import { draftOf } from "../definitions/drafts.ts";
import { changeQuest, type PlayerRef, questOf } from "./player-quests.ts";
import type { CompiledQuest } from "../../evaluation/quests/compile.ts";
import type { Quest } from "../../evaluation/quests/quest.ts";
import type { PlayerQuest } from "../../evaluation/quests/show.ts";
import { QUESTIONS_MAX } from "../../evaluation/quests/step.ts";
import {
  EVIDENCE_URL_MAX,
  hashOfCode,
  type Review,
  reviewNow,
  type Submission,
  submitNow,
  type SubmitProblem,
  type Submitted,
} from "../../evaluation/quests/submit.ts";
import { actorOf } from "../../kernel/caller.ts";
import { conflict, invalid, notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import { Person } from "../../kernel/events/shapes.ts";
import { type RowOf, shownRow } from "../../kernel/json.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import { Apart } from "../../kernel/together.ts";
import { countRows, lockRoom, type Transact, type Work } from "../../kernel/work.ts";
import { lockPlan, projectPlans, readPlan } from "../../progression/plan.ts";
import { getPlayer, isPlayer } from "../../progression/players/players.ts";

/** Maximum codes of one request, and free ones of one step. */
export const STEP_CODES_MAX = 10_000;
export const FREE_STEP_CODES_MAX = 1_000_000;

const takesPool = (document: unknown, stepKey: string): boolean | undefined => {
  const step = (document as Quest).steps.find(({ key }) => key === stepKey);
  return step && step.kind === "CODE" && step.perPlayerCodes;
};

const checkStep = (found: Definition, stepKey: string): void => {
  const known = [takesPool(draftOf(found), stepKey), takesPool(found.definition, stepKey)];
  if (known.every((one) => one === undefined)) throw notFound(`step ${stepKey}`);
  if (!known.includes(true))
    throw conflict("INVALID_STATE", `the step ${stepKey} is none of kind CODE with perPlayerCodes`);
};

/**
 * Adds codes to the pool of a step, of which only hashes are kept. A code that is or was in the pool is a
 * duplicate and is not added again.
 * @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE, CODE_LIMIT
 */
export const addStepCodes = async (
  work: Work,
  projectId: string,
  { quest, stepKey, codes }: { quest: string; stepKey: string; codes: readonly string[] },
): Promise<{ added: number; duplicates: number; free: number }> => {
  const found = await getDefinition(work, projectId, { kind: "quest" }, quest);
  const { id, key, status } = found;
  if (status === "ARCHIVED") throw conflict("INVALID_STATE", "the quest is archived");
  checkStep(found, stepKey);
  await lockRoom(work, projectId, `quest codes ${key} ${stepKey}`);
  const free = await countFree(work, projectId, { key, stepKey });
  if (free + codes.length > FREE_STEP_CODES_MAX)
    throw conflict("CODE_LIMIT", `a step may have ${FREE_STEP_CODES_MAX} free codes; it has ${free}`);
  const hashes = codes.map(hashOfCode);
  const { rows } = await sql`
    insert into quest_codes (project_id, quest_key, step_key, hash, created_at)
    select ${projectId}::uuid, ${key}, ${stepKey}, hash, ${work.now.toISOString()}::timestamptz
    from jsonb_array_elements_text(${JSON.stringify(hashes)}::jsonb) as u(hash) order by hash
    on conflict do nothing returning 1`.execute(work.db);
  await auditDefinition(work, "quest.codes_added", { projectId, id, key });
  return { added: rows.length, duplicates: codes.length - rows.length, free: free + rows.length };
};

type OfStep = { key: string; stepKey: string };

const countFree = async ({ db }: Work, projectId: string, { key, stepKey }: OfStep): Promise<number> => {
  const found = await sql<{ n: number }>`
    select count(*) as n from (
      select 1 from quest_codes
      where project_id = ${projectId} and quest_key = ${key} and step_key = ${stepKey} and used_at is null
      limit ${FREE_STEP_CODES_MAX}) as free`.execute(db);
  return found.rows[0]!.n;
};

/** A code of a step's pool. */
type PoolCode = { projectId: string; questKey: string; stepKey: string; hash: string };

const isCode = ({ projectId, questKey, stepKey, hash }: PoolCode) => sql`
  project_id = ${projectId} and quest_key = ${questKey} and step_key = ${stepKey} and hash = ${hash}`;

/**
 * Takes a code out of its pool. Whoever comes at the same time waits for this transaction, and then does not
 * get it. Not in a shared transaction: the submission may still be refused, which would undo what others have
 * done. To be called before the player is locked.
 * @returns whether it was free
 */
const takePoolCode = async (work: Work, code: PoolCode): Promise<boolean> => {
  if (work.isShared) throw new Apart("ALONE", "it may be refused after it has taken a code");
  const { rows } = await sql`
    update quest_codes set used_at = ${work.now.toISOString()}::timestamptz
    where ${isCode(code)} and used_at is null returning 1`.execute(work.db);
  return rows.length > 0;
};

/** Notes who has used a code that was taken; null: nobody, so that it is free again. */
const keepPoolCode = async (work: Work, code: PoolCode, playerId: string | null): Promise<void> => {
  await sql`
    update quest_codes set player_id = ${playerId},
      used_at = case when ${playerId}::uuid is null then null else used_at end
    where ${isCode(code)}`.execute(work.db);
};

/** WITHDRAWN: the quest was over before anybody decided; CONFIRMED: it counted without a review. */
export const SUBMISSION_STATUSES = ["PENDING", "APPROVED", "REJECTED", "WITHDRAWN", "CONFIRMED"] as const;
type SubmissionStatus = (typeof SUBMISSION_STATUSES)[number];

/** What a player has submitted for a step of kind MANUAL. */
export const SubmissionBody = z
  .object({
    id: z.uuid(),
    questKey: z.string(),
    playerQuestId: z.uuid(),
    cycleKey: z.string(),
    stepKey: z.string(),
    ...Person.shape,
    evidenceType: z.enum(["TEXT", "URL"]).nullable(),
    evidence: z.string().nullable().meta({ description: "As the player has written it: show it as text" }),
    status: z.enum(SUBMISSION_STATUSES).meta({
      description: "WITHDRAWN: the quest was over before anybody decided; CONFIRMED: it needed no review",
    }),
    submittedAt: z.iso.datetime(),
    reviewedBy: z.string().nullable(),
    reviewedAt: z.iso.datetime().nullable(),
    note: z.string().nullable(),
  })
  .meta({ id: "QuestSubmission" });

type Row = RowOf<z.output<typeof SubmissionBody>>;

/** Orders of the list. */
export const SUBMISSION_ORDERS = { by: { submittedAt: sql`s.id` }, usual: "asc" } as const;

type ListSubmissions = PageQuery &
  Ordered<SortOf<typeof SUBMISSION_ORDERS>> & {
    status?: SubmissionStatus | undefined;
    /** The UUID or the key. */
    questId?: string | undefined;
    stepKey?: string | undefined;
    /** `{playerId}` of a player. */
    playerId?: string | undefined;
  };

/** Lists what players have submitted, oldest first. @throws DomainError NOT_FOUND for an unknown player */
export const listSubmissions = async (work: Work, projectId: string, query: ListSubmissions) => {
  const { status, questId: quest, stepKey } = query;
  const ofQuest =
    quest === undefined
      ? sql`true`
      : sql`s.quest_key in (select key from definitions where project_id = ${projectId} and kind = 'quest'
          and (key = ${quest} or id::text = ${quest.toLowerCase()}))`;
  const ofStatus = status === undefined ? sql`true` : sql`s.status = ${status}`;
  const ofStep = stepKey === undefined ? sql`true` : sql`s.step_key = ${stepKey}`;
  const ofPlayer = await isPlayer(work, projectId, sql`s.player_id`, query.playerId);
  const where = sql`s.project_id = ${projectId} and ${ofStatus} and ${ofQuest} and ${ofStep} and ${ofPlayer}`;
  const found = await sql<Row>`
    select s.id, s.quest_key as "questKey", s.player_quest_id as "playerQuestId", s.cycle_key as "cycleKey",
      s.step_key as "stepKey", s.player_id as "playerId", p.external_user_id as "externalUserId",
      p.display_name as "displayName", s.evidence_type as "evidenceType", s.evidence, s.status,
      s.submitted_at as "submittedAt", s.reviewed_by as "reviewedBy",
      case when s.reviewed_by is not null then s.closed_at end as "reviewedAt", s.note
    from quest_submissions s join players p on p.project_id = s.project_id and p.id = s.player_id
    where ${where}
    order by ${orderBy(SUBMISSION_ORDERS, query, sql`s.id`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  const total = await countRows(work, sql`quest_submissions s where ${where}`);
  return { submissions: found.rows.map((row) => shownRow(row)), ...total };
};

/** Checks that a quest has a submission. @throws DomainError NOT_FOUND */
const checkSubmission = async (
  { db }: Work,
  projectId: string,
  { id, questKey }: { id: string; questKey: string },
): Promise<void> => {
  const found = isId(id)
    ? await sql`
        select 1 from quest_submissions
        where project_id = ${projectId} and id = ${id} and quest_key = ${questKey}`.execute(db)
    : undefined;
  if (!found?.rows[0]) throw notFound("submission");
};

const OPTIONS_MAX = 20;
const FIELDS = ["evidence", "code", "answers"] as const;

/** What may be submitted for a step; of these fields one, or none for a confirmation without evidence. */
export const submitShape = z.strictObject({
  evidence: z.string().min(1).max(EVIDENCE_URL_MAX).optional().describe("MANUAL: a text or an address"),
  code: z
    .string()
    .min(1)
    .max(200)
    .refine((code) => code.trim() !== "", "must not be blank")
    .optional()
    .describe("CODE: as the player has entered it"),
  answers: z
    .record(
      z.string().min(1).max(64),
      z
        .array(
          z
            .int()
            .min(0)
            .max(OPTIONS_MAX - 1),
        )
        .max(OPTIONS_MAX),
    )
    .refine(
      (answers) => Object.keys(answers).length <= QUESTIONS_MAX,
      `has more than ${QUESTIONS_MAX} questions`,
    )
    .optional()
    .describe("QUIZ: by key of each question the places of the chosen options, from 0"),
});

/** Whether a body submits one thing at most, with what to say of one that does not. */
export const isOneThing = [
  (body: z.output<typeof submitShape>): boolean =>
    FIELDS.filter((field) => body[field] !== undefined).length <= 1,
  { error: `give one of ${FIELDS.join(", ")}, or none` },
] as const;

export const SubmittedBody = submitShape
  .refine(...isOneThing)
  .meta({ id: "QuestSubmit", example: { code: "Open Sesame" } });

/** What is submitted for a step, as requests have it: nothing more is a confirmation. */
type SubmitBody = {
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
  const playerQuest = await changeQuest(work, player, questRef, (turn, quest) => {
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
  const playerQuest = await changeQuest(work, player, questRef, (turn, quest) => {
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

/**
 * Counts a code or answers that a player tries at a step, before the transaction in which they are compared.
 * @throws DomainError NOT_FOUND for an unknown player; RateLimited QUEST_ATTEMPTS past 10 a minute
 */
export const admitAttempt = async (
  parts: CountingParts & { transact: Transact },
  { projectId, id }: PlayerRef,
  { questRef, stepKey, body }: StepRef & { body: SubmitBody },
): Promise<void> => {
  if (body.code === undefined && body.answers === undefined) return;
  const { player, questKey } = await parts.transact(async (work) => ({
    player: await getPlayer(work, projectId, id),
    questKey: questOf(await readPlan(work, projectId, projectPlans), questRef).key,
  }));
  const key = `${projectId}:${player.id}:${questKey}:${stepKey}`;
  const count = { bucket: LIMITS.questAttempts, key };
  await countUse(parts, count, "QUEST_ATTEMPTS", "Too many codes or answers were tried");
};
