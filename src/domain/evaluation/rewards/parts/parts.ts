import { addTags } from "./add-tags.ts";
import { badges } from "./badges.ts";
import { boosts } from "./boosts.ts";
import { currencies } from "./currencies.ts";
import { lives } from "./lives.ts";
import { premium } from "./premium.ts";
import { rewards } from "./rewards.ts";
import { streakFreezes } from "./streak-freezes.ts";
import { xp } from "./xp.ts";

/** All parts of a bundle, in the order in which they are granted. */
export const BUNDLE_PARTS = {
  xp,
  currencies,
  lives,
  badges,
  boosts,
  streakFreezes,
  rewards,
  addTags,
  premium,
};

export type PartOfBundle = keyof typeof BUNDLE_PARTS;
