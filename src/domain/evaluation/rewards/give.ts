import { awardBadge } from "../badges/award.ts";
import { startBoost } from "../boosts/boosts.ts";
import { adjustCurrency } from "../currencies/adjust.ts";
import { adjustLives } from "../lives/lives.ts";
import { isFlooded, type Turn } from "../turn.ts";
import { updatePlayer } from "../profile.ts";
import { grantXp } from "../xp/xp.ts";
import { grantFreezes } from "../streaks/advance.ts";
import { BUNDLE_DEPTH_MAX, type BundleGrant, type RewardBundle } from "./bundle.ts";
import { grantReward } from "./shared-keys.ts";
import { BUNDLE_PARTS, type PartOfBundle } from "./parts.ts";

/** Maximum bundles that one tracked event or change may grant to a player. */
export const BUNDLES_MAX = 1_000;

/**
 * Grants the parts of a bundle one after another, each with its own deterministic key. A part that cannot be
 * granted adds a warning and does not affect the others. Nested bundles are counted and cut off: definitions
 * that would exceed the limit are rejected when they are saved.
 */
export const giveBundle = (turn: Turn, grant: BundleGrant): void => {
  const count = (turn.root.bundles ??= { depth: 0, given: 0 });
  if (count.depth >= BUNDLE_DEPTH_MAX || count.given >= BUNDLES_MAX || isFull(turn, count.depth)) {
    turn.warn(`${grant.reason}: too many rewards inside one another; ${grant.key} is not given`);
    return;
  }
  count.depth++;
  count.given++;
  try {
    for (const name of IN_ORDER) givePart(turn, grant, name);
  } finally {
    count.depth--;
  }
};

/** Grants of rules must stay within their write budget, except for the bundle that an action names. */
const isFull = (turn: Turn, depth: number): boolean =>
  isFlooded(turn) || (depth > 0 && turn.root.acting !== undefined && turn.root.cost.written.isSpent);

/** The origin of a part; `key` is the bundle's, to which the part appends its name. */
type Source = Omit<BundleGrant, "bundle">;

type Give<P extends PartOfBundle> = (turn: Turn, value: NonNullable<RewardBundle[P]>, source: Source) => void;

/** How each part is granted. */
const GIVE: { [P in PartOfBundle]: Give<P> } = {
  xp: (turn, amount, { cause, key, reason }) =>
    void grantXp(turn, { amount, cause, key: `${key}:xp`, reason }),

  currencies: (turn, amounts, { cause, key, reason }) => {
    for (const [currencyKey, amount] of Object.entries(amounts)) {
      const part = { currencyKey, amount, cause, key: `${key}:cur:${currencyKey}`, reason };
      const { problem } = adjustCurrency(turn, part);
      if (problem !== undefined) turn.warn(`${reason}: ${amount} of currency ${currencyKey}: ${problem}`);
    }
  },

  lives: (turn, lives, { cause, key, reason }) => {
    const what = lives === "FULL" ? { refill: lives } : { amount: lives };
    const { problem } = adjustLives(turn, { ...what, cause, key: `${key}:lives`, reason });
    if (problem !== undefined) turn.warn(`${reason}: lives: ${problem}`);
  },

  badges: (turn, badges, { cause, key, reason }) =>
    badges.forEach((badge, i) => {
      const problem = awardBadge(turn, { ...badge, cause, key: `${key}:bdg:${i}` });
      if (problem !== undefined) turn.warn(`${reason}: badge ${badge.badgeKey}: ${problem}`);
    }),

  boosts: (turn, boosts, { cause }) => {
    for (const boost of boosts) startBoost(turn, { ...boost, stacking: "EXTEND", cause });
  },

  streakFreezes: (turn, amounts, { reason }) => {
    for (const [streakKey, amount] of Object.entries(amounts)) {
      if (grantFreezes(turn, streakKey, amount) === undefined)
        turn.warn(`${reason}: there is no streak ${streakKey}: its freezes are not given`);
    }
  },

  rewards: (turn, rewards, { cause, key, reason }) =>
    rewards.forEach(({ rewardKey, quantity = 1 }, i) => {
      const part = { rewardKey, quantity, delivery: "AUTO" as const, cause, key: `${key}:rwd:${i}` };
      const given = grantReward(turn, part);
      if ("problem" in given) turn.warn(`${reason}: reward ${rewardKey}: ${given.problem}`);
    }),

  addTags: (turn, addTags, { cause, reason }) => {
    if (addTags.length === 0) return;
    const problem = updatePlayer(turn, { addTags }, cause);
    if (problem !== undefined) turn.warn(`${reason}: tags: ${problem}`);
  },
  premium: (turn, { adventureKey }, { reason }) => {
    const problem = turn.grantPremium(adventureKey);
    if (problem !== undefined) turn.warn(`${reason}: premium of ${adventureKey}: ${problem}`);
  },
};

const IN_ORDER = Object.keys(BUNDLE_PARTS) as PartOfBundle[];

const givePart = <P extends PartOfBundle>(turn: Turn, { bundle, ...source }: BundleGrant, name: P): void => {
  const value = bundle[name];
  if (value !== undefined) GIVE[name](turn, value, source);
};
