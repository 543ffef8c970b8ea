import { sql } from "kysely";
import { auditDefinition } from "../../accounts/audit/definitions.ts";
import { getDefinition } from "../definitions/definitions.ts";
import { conflict } from "../../kernel/errors.ts";
import { lockRoom } from "../../kernel/room-lock.ts";
import { Apart } from "../../kernel/together.ts";
import type { Work } from "../../kernel/work.ts";
import type { Reward } from "../../evaluation/rewards/reward.ts";

/** Maximum number of codes per request. */
export const CODES_MAX = 10_000;
/** Maximum number of free codes per reward. */
export const FREE_CODES_MAX = 1_000_000;

/**
 * Adds codes to a prize's pool. A code that is or was in the pool is a duplicate and is not added again.
 * @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE, CODE_LIMIT
 */
export const addCodes = async (
  work: Work,
  projectId: string,
  { reward, codes }: { reward: string; codes: readonly string[] },
): Promise<{ added: number; duplicates: number }> => {
  const { id, key, status, definition } = await getDefinition(work, projectId, { kind: "reward" }, reward);
  const { fulfilment } = definition as unknown as Reward;
  if (status !== "ACTIVE") throw conflict("INVALID_STATE", "the reward is archived");
  if (fulfilment !== "CODE") throw conflict("INVALID_STATE", "the reward is no prize with codes");
  await lockRoom(work, projectId, `codes ${key}`);
  const free = await countFree(work, projectId, key);
  if (free + codes.length > FREE_CODES_MAX)
    throw conflict("CODE_LIMIT", `a reward may have ${FREE_CODES_MAX} free codes; it has ${free}`);
  const added = await sql`
    insert into prize_codes (project_id, reward_key, code, created_at)
    select ${projectId}::uuid, ${key}, code, ${work.now.toISOString()}::timestamptz
    from jsonb_array_elements_text(${JSON.stringify(codes)}::jsonb) as u(code) order by code
    on conflict do nothing returning 1`.execute(work.db);
  await auditDefinition(work, "reward.codes_added", { projectId, id, key });
  return { added: added.rows.length, duplicates: codes.length - added.rows.length };
};

/** Counts a prize's unassigned codes, up to FREE_CODES_MAX. */
export const countFree = async ({ db }: Work, projectId: string, key: string): Promise<number> => {
  const found = await sql<{ n: string | number }>`
    select count(*) as n from (
      select 1 from prize_codes where project_id = ${projectId} and reward_key = ${key} and grant_id is null
      limit ${FREE_CODES_MAX}) as free`.execute(db);
  return Number(found.rows[0]!.n);
};

/** A grant that needs a code of a prize. */
export type CodeRequest = { projectId: string; rewardKey: string; grantId: string };

/**
 * Takes a free code out of the pool for a grant. Each is locked before it is taken, and codes locked by
 * others are skipped, so no code is assigned twice. Not in a shared transaction: the grant may still be
 * refused, which would undo what the others have done.
 * @throws DomainError CONFLICT OUT_OF_STOCK
 */
export const takeCode = async (
  work: Work,
  { projectId, rewardKey, grantId }: CodeRequest,
): Promise<string> => {
  if (work.isShared) throw new Apart("ALONE", "it may be refused after it has taken a code");
  const taken = await sql<{ code: string }>`
    with free as materialized (
      select code from prize_codes
      where project_id = ${projectId} and reward_key = ${rewardKey} and grant_id is null
      limit 1 for update skip locked)
    update prize_codes c set grant_id = ${grantId} from free f
    where c.project_id = ${projectId} and c.reward_key = ${rewardKey} and c.code = f.code
    returning c.code`.execute(work.db);
  const [found] = taken.rows;
  if (!found) throw conflict("OUT_OF_STOCK", `the reward ${rewardKey} has no code left`);
  return found.code;
};
