import { sql } from "kysely";
import { z } from "zod";
import { auditDefinition } from "../../accounts/audit/audit.ts";
import { getDefinition, readDefinition } from "../definitions/definitions.ts";
import {
  getGrant,
  type GrantRow,
  type GrantStatus,
  isOver,
  lockGrant,
  type PlayerReward,
  showGrant,
} from "./player-rewards.ts";
import { adjustCurrency } from "../../evaluation/currencies/adjust.ts";
import { checkActive } from "../../evaluation/player-state.ts";
import type { Reward, RewardBundle } from "../../evaluation/rewards/bundle.ts";
import {
  grantContents,
  grantReward,
  limitedKey,
  publishReward,
  type RewardGrant,
  rewardProblem,
  type RewardProblem,
} from "../../evaluation/rewards/shared-keys.ts";
import type { Turn } from "../../evaluation/turn.ts";
import { conflict, type DomainError, invalid } from "../../kernel/errors.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { insertWarehouseChanges } from "../../kernel/events/warehouse-changes.ts";
import { newId } from "../../kernel/ids.ts";
import { unanswered } from "../../kernel/statements.ts";
import { Apart, together } from "../../kernel/together.ts";
import { lockRoom, type Work } from "../../kernel/work.ts";
import { changePlayer, lockPlayerRow, type PlayerKey } from "../../progression/change.ts";

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
const countFree = async ({ db }: Work, projectId: string, key: string): Promise<number> => {
  const found = await sql<{ n: number }>`
    select count(*) as n from (
      select 1 from prize_codes where project_id = ${projectId} and reward_key = ${key} and grant_id is null
      limit ${FREE_CODES_MAX}) as free`.execute(db);
  return found.rows[0]!.n;
};

/** A grant that needs a code of a prize. */
type CodeRequest = { projectId: string; rewardKey: string; grantId: string };

/**
 * Takes a free code out of the pool for a grant. Each is locked before it is taken, and codes locked by
 * others are skipped, so no code is assigned twice. Not in a shared transaction: the grant may still be
 * refused, which would undo what the others have done.
 * @throws DomainError CONFLICT OUT_OF_STOCK
 */
const takeCode = async (work: Work, { projectId, rewardKey, grantId }: CodeRequest): Promise<string> => {
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

/**
 * Claims a pending reward: grants a bundle's contents, or assigns a code. Idempotent.
 * @throws DomainError NOT_FOUND; CONFLICT: CLAIM_EXPIRED, OUT_OF_STOCK, INVALID_STATE, PLAYER_INACTIVE
 */
export const claimReward = async (work: Work, of: PlayerKey, grantId: string): Promise<PlayerReward> => {
  const player = await lockPlayerRow(work, of);
  const row = await lockGrant(work, { player, grantId });
  if (row.status === "EXPIRED" || isOver(row, work.now))
    throw conflict("CLAIM_EXPIRED", "the time to claim the reward is over");
  if (row.status === "REVOKED") throw conflict("INVALID_STATE", "the reward was taken back");
  if (row.status !== "PENDING") return showGrant(row, work.now);
  const { rewardKey } = row;
  const code =
    row.fulfilment === "CODE"
      ? await takeCode(work, { projectId: player.projectId, rewardKey, grantId: row.id })
      : null;
  return settle(work, player, { row, status: "CLAIMED", code }, (turn, details) => {
    checkActive(turn.player);
    grantContents(turn, { ...details, key: row.key });
  });
};

/**
 * Marks a prize as handed over. Idempotent.
 * @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE for anything but a prize, or one that is still to be
 * claimed
 */
export const fulfilReward = async (work: Work, of: PlayerKey, grantId: string): Promise<PlayerReward> => {
  const player = await lockPlayerRow(work, of);
  const row = await lockGrant(work, { player, grantId });
  if (row.status === "FULFILLED") return showGrant(row, work.now);
  if (row.kind !== "PRIZE") throw conflict("INVALID_STATE", "only prizes can be handed over");
  if (row.status !== "GRANTED" && row.status !== "CLAIMED")
    throw conflict("INVALID_STATE", `the reward is ${showGrant(row, work.now).status}`);
  return settle(work, player, { row, status: "FULFILLED", code: row.code }, () => undefined);
};

type Settled = { row: GrantRow; status: GrantStatus; code: string | null };
type GrantDetails = { id: string; rewardKey: string; contents: RewardBundle; cause: GrantRow["cause"] };

/** Emits the event of a grant's new status, runs `more`, and then sets the status. */
const settle = async (
  work: Work,
  player: PlayerKey,
  { row, status, code }: Settled,
  more: (turn: Turn, details: GrantDetails) => void,
): Promise<PlayerReward> => {
  const contents = row.contents as RewardBundle;
  const details: GrantDetails = { id: row.id, rewardKey: row.rewardKey, contents, cause: row.cause };
  const tell = (turn: Turn) => {
    publishReward(turn, { ...details, status }, { kind: row.kind, code });
    more(turn, details);
    return () => undefined;
  };
  await changePlayer(work, player, tell);
  await setStatus(work, { player, grantId: row.id, status, code });
  return getGrant(work, { player, grantId: row.id });
};

type NewStatus = { player: PlayerKey; grantId: string; status: GrantStatus; code: string | null };

const setStatus = together({
  phase: "WRITES",
  isWrite: true,
  run: async ({ db, now }, settled: readonly NewStatus[]) => {
    const rows = settled.map(({ player, grantId, status, code }) => ({
      p: player.id,
      g: grantId,
      s: status,
      c: code,
    }));
    const { projectId } = settled[0]!.player;
    await unanswered(
      db,
      sql`
      with settled as (
        update reward_grants t set status = r.s, code = r.c, updated_at = ${now.toISOString()}::timestamptz
        from json_to_recordset(${JSON.stringify(rows)}::json) as r(p uuid, g uuid, s text, c text)
        where t.project_id = ${projectId} and t.player_id = r.p and t.id = r.g
        returning t.id)
      ${insertWarehouseChanges(projectId, "REWARD", sql`select id as ref from settled`)}`,
    );
    return settled.map(() => ({ value: undefined }));
  },
});

/** Remaining stock of a reward. */
export const RewardStock = z
  .object({
    stock: z.int().nullable().meta({ description: "Null: without limit" }),
    given: z.int().nullable().meta({ description: "Of the stock" }),
    left: z.int().nullable(),
    freeCodes: z.int().nullable().meta({ description: "Of a prize with codes" }),
  })
  .meta({ id: "RewardStock" });
type RewardStock = z.output<typeof RewardStock>;

/** @throws DomainError NOT_FOUND */
export const readStock = async (work: Work, projectId: string, ref: string): Promise<RewardStock> => {
  const { key, definition } = await getDefinition(work, projectId, { kind: "reward" }, ref);
  const { stock, fulfilment } = definition as unknown as Reward;
  const freeCodes = fulfilment === "CODE" ? await countFree(work, projectId, key) : null;
  if (stock === undefined) return { stock: null, given: null, left: null, freeCodes };
  const { scope, windowNo } = limitedKey(projectId, "reward", key);
  const found = await sql<{ used: number }>`
    select used from shared_counters
    where project_id = ${projectId} and scope = ${scope} and window_no = ${windowNo}`.execute(work.db);
  const given = found.rows[0]?.used ?? 0;
  return { stock, given, left: Math.max(0, stock - given), freeCodes };
};

const errorOf = (problem: RewardProblem, rewardKey: string): DomainError => {
  switch (problem) {
    case "UNKNOWN_REWARD":
      return conflict("INVALID_STATE", `the reward ${rewardKey} is archived`);
    case "NOT_AVAILABLE":
      return conflict(problem, `the reward ${rewardKey} is not available now`);
    case "OUT_OF_STOCK":
      return conflict(problem, `not enough of the reward ${rewardKey} are left`);
    case "LIMIT_REACHED":
      return conflict(problem, `the player would exceed the limit of the reward ${rewardKey}`);
  }
};

/** `reward`: its UUID or key. */
type RewardOrder = { reward: string; quantity: number; cause: Cause };

/**
 * Grants a reward to a player by REST. A prize with codes is granted with its code, unless it must be
 * claimed.
 * @throws DomainError NOT_FOUND; VALIDATION_ERROR; CONFLICT: NOT_AVAILABLE, OUT_OF_STOCK, LIMIT_REACHED,
 * INVALID_STATE, PLAYER_INACTIVE
 */
export const grantByHand = (
  work: Work,
  player: PlayerKey,
  order: RewardOrder & { delivery: RewardGrant["delivery"] },
): Promise<PlayerReward> => handOut(work, player, order, () => undefined);

/**
 * Sells a reward to a player for its price.
 * @throws DomainError as grantByHand; CONFLICT: INSUFFICIENT_FUNDS, NOT_FOR_SALE
 */
export const purchaseReward = (work: Work, player: PlayerKey, order: RewardOrder): Promise<PlayerReward> =>
  handOut(work, player, { ...order, delivery: "AUTO" }, pay);

type Order = RewardOrder & { delivery: RewardGrant["delivery"] };
type Pay = (turn: Turn, reward: Reward, order: { key: string; quantity: number; cause: Cause }) => void;

const handOut = async (work: Work, player: PlayerKey, order: Order, pay: Pay): Promise<PlayerReward> => {
  const { projectId } = player;
  const { quantity, cause, delivery } = order;
  const named = { projectId, kind: "reward", ref: order.reward };
  const { key: rewardKey, definition } = await readDefinition(work, named);
  const hasCode = (definition as unknown as Reward).fulfilment === "CODE";
  if (hasCode && quantity > 1) throw invalid("quantity", "must be 1 for a prize with codes");
  const prize = hasCode && delivery === "AUTO" ? await keepCode(work, player, rewardKey) : undefined;
  const key = `api:${newId()}`;
  const give = (turn: Turn) => {
    checkActive(turn.player);
    const reward = turn.project.rewards.get(rewardKey)?.definition;
    const problem = reward ? rewardProblem(turn, reward, quantity) : "UNKNOWN_REWARD";
    if (problem !== undefined) throw errorOf(problem, rewardKey);
    pay(turn, reward!, { key, quantity, cause });
    const given = grantReward(turn, {
      rewardKey,
      quantity,
      delivery,
      cause,
      key,
      ...(prize ? { prize } : {}),
    });
    if ("problem" in given) throw errorOf(given.problem, rewardKey);
    return () => given.grant.id;
  };
  const changed = await changePlayer(work, player, give);
  return getGrant(work, { player: { projectId, id: changed.player.id }, grantId: changed.value });
};

/** Reserves a code for an imminent grant. The player's lock comes first, as everywhere. */
const keepCode = async (work: Work, player: PlayerKey, rewardKey: string) => {
  const { projectId } = await lockPlayerRow(work, player);
  const grantId = newId();
  return { grantId, code: await takeCode(work, { projectId, rewardKey, grantId }) };
};

/** Charges the price before anything is granted, so that nobody pays with what they buy. */
const pay: Pay = (turn, { key: rewardKey, price }, { key, quantity, cause }) => {
  if (!price) throw conflict("NOT_FOR_SALE", `the reward ${rewardKey} has no price`);
  const { currencyKey } = price;
  const amount = -Math.min(Number.MAX_SAFE_INTEGER, price.amount * quantity);
  const reason = `reward:${rewardKey}`;
  const { problem } = adjustCurrency(turn, { currencyKey, amount, cause, key: `${key}:price`, reason });
  if (problem === "UNKNOWN_CURRENCY")
    throw conflict("INVALID_STATE", `the currency ${currencyKey} is archived`);
  if (problem !== undefined)
    throw conflict(
      "INSUFFICIENT_FUNDS",
      `the player does not have ${-amount} of the currency ${currencyKey}`,
    );
};
