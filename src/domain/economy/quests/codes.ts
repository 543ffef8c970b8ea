import { sql } from "kysely";
import { auditDefinition } from "../../accounts/audit/definitions.ts";
import { hashOfCode } from "../../evaluation/quests/codes.ts";
import type { Quest } from "../../evaluation/quests/quest.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import { lockRoom } from "../../kernel/room-lock.ts";
import { Apart } from "../../kernel/together.ts";
import type { Work } from "../../kernel/work.ts";
import type { Definition } from "../definitions/definition.ts";
import { getDefinition } from "../definitions/definitions.ts";
import { draftOf } from "../definitions/drafts.ts";

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
  const found = await sql<{ n: string | number }>`
    select count(*) as n from (
      select 1 from quest_codes
      where project_id = ${projectId} and quest_key = ${key} and step_key = ${stepKey} and used_at is null
      limit ${FREE_STEP_CODES_MAX}) as free`.execute(db);
  return Number(found.rows[0]!.n);
};

/** A code of a step's pool. */
export type PoolCode = { projectId: string; questKey: string; stepKey: string; hash: string };

const isCode = ({ projectId, questKey, stepKey, hash }: PoolCode) => sql`
  project_id = ${projectId} and quest_key = ${questKey} and step_key = ${stepKey} and hash = ${hash}`;

/**
 * Takes a code out of its pool. Whoever comes at the same time waits for this transaction, and then does not
 * get it. Not in a shared transaction: the submission may still be refused, which would undo what others have
 * done. To be called before the player is locked.
 * @returns whether it was free
 */
export const takePoolCode = async (work: Work, code: PoolCode): Promise<boolean> => {
  if (work.isShared) throw new Apart("ALONE", "it may be refused after it has taken a code");
  const { rows } = await sql`
    update quest_codes set used_at = ${work.now.toISOString()}::timestamptz
    where ${isCode(code)} and used_at is null returning 1`.execute(work.db);
  return rows.length > 0;
};

/** Notes who has used a code that was taken; null: nobody, so that it is free again. */
export const keepPoolCode = async (work: Work, code: PoolCode, playerId: string | null): Promise<void> => {
  await sql`
    update quest_codes set player_id = ${playerId},
      used_at = case when ${playerId}::uuid is null then null else used_at end
    where ${isCode(code)}`.execute(work.db);
};
