import { sql } from "kysely";
import { conflict } from "../../kernel/errors.ts";
import { lockPlayerRow } from "../../progression/reference.ts";
import { checkActive } from "../../evaluation/active.ts";
import { changePlayers } from "../../progression/change.ts";
import type { Turn } from "../../evaluation/turn.ts";
import type { Work } from "../../kernel/work.ts";
import type { RewardBundle } from "../../evaluation/rewards/bundle.ts";
import { takeCode } from "./codes.ts";
import { grantContents, publishReward } from "../../evaluation/rewards/grant.ts";
import {
  type GrantRow,
  type GrantStatus,
  isOver,
  lockGrant,
  type PlayerReward,
  showGrant,
} from "./player-rewards.ts";

type PlayerKey = { projectId: string; id: string };

/**
 * Claims a pending reward: grants a bundle's contents, or assigns a code. Idempotent.
 * @throws DomainError NOT_FOUND; CONFLICT: CLAIM_EXPIRED, OUT_OF_STOCK, INVALID_STATE, PLAYER_INACTIVE
 */
export const claimReward = async (work: Work, of: PlayerKey, grantId: string): Promise<PlayerReward> => {
  const player = await lockPlayerRow(work, of);
  const row = await lockGrant(work, player, grantId);
  if (row.status === "EXPIRED" || isOver(row, work.now))
    throw conflict("CLAIM_EXPIRED", "the time to claim the reward is over");
  if (row.status === "REVOKED") throw conflict("INVALID_STATE", "the reward was taken back");
  if (row.status !== "PENDING") return showGrant(row, work.now);
  const rewardKey = row.reward_key;
  const code =
    row.fulfilment === "CODE" ? await takeCode(work, player.projectId, { rewardKey, grantId: row.id }) : null;
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
  const row = await lockGrant(work, player, grantId);
  if (row.status === "FULFILLED") return showGrant(row, work.now);
  if (row.kind !== "PRIZE") throw conflict("INVALID_STATE", "only prizes can be handed over");
  if (row.status !== "GRANTED" && row.status !== "CLAIMED")
    throw conflict("INVALID_STATE", `the reward is ${showGrant(row, work.now).status}`);
  return settle(work, player, { row, status: "FULFILLED", code: row.code }, () => undefined);
};

type Settled = { row: GrantRow; status: GrantStatus; code: string | null };
type GrantDetails = { id: string; rewardKey: string; contents: RewardBundle; cause: GrantRow["cause"] };

/** Sets a grant's new status, emits its event, and then runs `more`. */
const settle = async (
  work: Work,
  { projectId, id }: PlayerKey,
  { row, status, code }: Settled,
  more: (turn: Turn, details: GrantDetails) => void,
): Promise<PlayerReward> => {
  await sql`
    update reward_grants set status = ${status}, code = ${code},
      updated_at = ${work.now.toISOString()}::timestamptz
    where project_id = ${projectId} and player_id = ${id} and id = ${row.id}`.execute(work.db);
  const contents = row.contents as RewardBundle;
  const details: GrantDetails = { id: row.id, rewardKey: row.reward_key, contents, cause: row.cause };
  await changePlayers(work, projectId, { playerIds: [id], gives: [contents] }, (turn) => {
    publishReward(turn, { ...details, status }, { kind: row.kind ?? "BUNDLE", code });
    more(turn, details);
  });
  return showGrant(await lockGrant(work, { projectId, id }, row.id), work.now);
};
