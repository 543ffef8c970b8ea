import { badgeKind } from "../badges/badge.ts";
import { campaignBoostKind } from "../boosts/campaign-boost.ts";
import { currencyKind } from "../currencies/currency.ts";
import { levelKind } from "../progression/level-rewards.ts";
import { rewardKind } from "../rewards/reward.ts";
import { segmentKind } from "../segments/segment.ts";
import { streakKind } from "../streaks/streak.ts";
import type { DefinitionKind } from "./kind.ts";

/** Every kind, in the order in which an import makes them: what others name comes first. */
export const DEFINITION_KINDS: readonly DefinitionKind[] = [
  currencyKind,
  segmentKind,
  rewardKind,
  badgeKind,
  streakKind,
  levelKind,
  campaignBoostKind,
];
