import type { Cause } from "../events.ts";
import type { RewardGrantRow, Turn } from "../progression/turn.ts";

export type RewardGrant = {
  rewardKey: string;
  quantity: number;
  delivery: "AUTO" | "CLAIM";
  expiresInSeconds?: number;
  cause: Cause;
  key: string;
};
export type RewardProblem = "UNKNOWN_REWARD" | "NOT_AVAILABLE" | "OUT_OF_STOCK" | "LIMIT_REACHED";

/** Gives a reward of the catalogue: `player.reward_granted`. */
export const grantReward = (
  _turn: Turn,
  _grant: RewardGrant,
): { grant: RewardGrantRow } | { problem: RewardProblem } => {
  throw new Error("not built");
};
