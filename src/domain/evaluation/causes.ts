/**
 * Possible effects of actions, rewards and definitions, for the check for endless loops. A cause is written
 * `type`, or `type key` for one currency, badge, streak, segment, reward or boost; the key is `*` where it
 * may be any.
 */

export const ANY_KEY = "*";

/** Returns the causes of `types` about one thing; about any where `key` is not a string. */
export const about = (types: readonly string[], key: unknown): string[] =>
  types.map((type) => `${type} ${typeof key === "string" ? key : ANY_KEY}`);

/** Splits a cause into its type and key. */
export const partsOf = (cause: string): { type: string; key: string | undefined } => {
  const [type = "", key] = cause.split(" ");
  return { type, key };
};

/** Not events, but segments can read what they change. */
export const SCORE = "#score";
export const XP_LOSS = "#xp_loss";

export const CAUSES = {
  xp: ["player.xp_granted", "player.level_up"],
  xpLoss: ["player.updated", XP_LOSS],
  gain: ["player.currency_granted"],
  loss: ["player.currency_spent"],
  lives: ["player.lives_changed"],
  profile: ["player.updated"],
  badge: ["player.badge_earned"],
  badgeLoss: ["player.badge_revoked"],
  reward: ["player.reward_granted"],
  boost: ["player.boost_started", "player.boost_ended"],
  segment: ["player.segment_entered", "player.segment_left"],
  quest: [
    "quest.started",
    "quest.step_completed",
    "quest.completed",
    "quest.claimed",
    "quest.expired",
    "quest.failed",
  ],
  adventure: [
    "adventure.started",
    "adventure.quest_unlocked",
    "adventure.tier_reached",
    "adventure.completed",
    "adventure.claimed",
  ],
  streak: [
    "player.streak_extended",
    "player.streak_frozen",
    "player.streak_broken",
    "player.streak_repaired",
  ],
} as const;

/** A boost with limited uses is used up by the gains that it multiplies. */
export const USES_BOOSTS = about(["player.boost_ended"], ANY_KEY);

export const LEVEL_UP = "player.level_up";

/** The part of a kind of definition in loops. */
export type LoopRole = {
  /** Events that its definitions cause by themselves, when an event or an input that they follow occurs. */
  follows: readonly string[];
  /** Events with which its definitions give their bundles. */
  gives: readonly string[];
};

const NO_ROLE: LoopRole = { follows: [], gives: [] };

/** By the kind of definition. A kind that is missing here would hide endless loops: a test compares them. */
export const LOOP_ROLES = {
  badge: { follows: CAUSES.badge, gives: CAUSES.badge },
  streak: { follows: CAUSES.streak, gives: ["player.streak_extended"] },
  segment: { follows: CAUSES.segment, gives: [] },
  quest: { follows: CAUSES.quest, gives: ["quest.step_completed", "quest.claimed"] },
  adventure: { follows: CAUSES.adventure, gives: ["adventure.claimed"] },
  reward: { follows: [], gives: CAUSES.reward },
  level: { follows: [], gives: [LEVEL_UP] },
  currency: NO_ROLE,
  boost: NO_ROLE,
} satisfies Record<string, LoopRole>;
