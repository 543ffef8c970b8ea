import { badgeKind } from "../badges/kind.ts";
import { campaignBoostKind } from "../boosts/kind.ts";
import { currencyKind } from "../currencies/kind.ts";
import { levelKind } from "../progression/level-kind.ts";
import { rewardKind } from "../rewards/kind.ts";
import { segmentKind } from "../segments/kind.ts";
import { streakKind } from "../streaks/kind.ts";
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
