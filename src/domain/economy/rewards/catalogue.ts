import { adjustCurrency } from "../../evaluation/currencies/adjust.ts";
import { readDefinition } from "../definitions/named.ts";
import { conflict, type DomainError, invalid } from "../../kernel/errors.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import { lockPlayerRow, type PlayerKey } from "../../progression/reference.ts";
import { checkActive } from "../../evaluation/active.ts";
import { changePlayer } from "../../progression/change.ts";
import type { Turn } from "../../evaluation/turn.ts";
import type { Work } from "../../kernel/work.ts";
import { takeCode } from "./codes.ts";
import {
  grantReward,
  type RewardGrant,
  rewardProblem,
  type RewardProblem,
} from "../../evaluation/rewards/grant.ts";
import { getGrant, type PlayerReward } from "./player-rewards.ts";
import type { Reward } from "../../evaluation/rewards/reward.ts";

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
export type RewardOrder = { reward: string; quantity: number; cause: Cause };

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
  const gives = [{ rewards: [{ rewardKey }] }];
  const changed = await changePlayer(work, player, give, { gives });
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
