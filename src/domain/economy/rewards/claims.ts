import { sql } from "kysely";
import { conflict } from "../../kernel/errors.ts";
import { insertWarehouseChanges } from "../../kernel/events/warehouse-changes.ts";
import { lockPlayerRow, type PlayerKey } from "../../progression/reference.ts";
import { checkActive } from "../../evaluation/active.ts";
import { changePlayer } from "../../progression/change.ts";
import type { Turn } from "../../evaluation/turn.ts";
import { unanswered } from "../../kernel/statements.ts";
import { together } from "../../kernel/together.ts";
import type { Work } from "../../kernel/work.ts";
import type { RewardBundle } from "../../evaluation/rewards/bundle.ts";
import { takeCode } from "./codes.ts";
import { grantContents, publishReward } from "../../evaluation/rewards/grant.ts";
import {
  getGrant,
  type GrantRow,
  type GrantStatus,
  isOver,
  lockGrant,
  type PlayerReward,
  showGrant,
} from "./player-rewards.ts";

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
  const rewardKey = row.reward_key;
  const code =
    row.fulfilment === "CODE"
      ? await takeCode(work, { projectId: player.projectId, rewardKey, grantId: row.id })
      : null;
  return settle(work, player, { row, status: "CLAIMED", code }, (turn, details) => {
    checkActive(turn.player);
    grantContents(turn, { ...details, key: row.idempotency_key });
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
  const details: GrantDetails = { id: row.id, rewardKey: row.reward_key, contents, cause: row.cause };
  const tell = (turn: Turn) => {
    publishReward(turn, { ...details, status }, { kind: row.kind ?? "BUNDLE", code });
    more(turn, details);
    return () => undefined;
  };
  await changePlayer(work, player, tell, { gives: [contents] });
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
