import { adventureKind } from "../economy/adventures/kind.ts";
import { badgeKind } from "../economy/badges/kind.ts";
import { campaignBoostKind } from "../economy/boosts/kind.ts";
import { currencyKind } from "../economy/currencies/kind.ts";
import { levelKind } from "../economy/levels/kind.ts";
import { questKind } from "../economy/quests/kind.ts";
import { rewardKind } from "../economy/rewards/references.ts";
import { segmentKind } from "../economy/segments/members.ts";
import { streakKind } from "../economy/streaks/kind.ts";
import type { DefinitionKind } from "../economy/definitions/definitions.ts";

/** Every kind, in the order in which an import creates them: referenced ones come first. */
export const DEFINITION_KINDS: readonly DefinitionKind[] = [
  currencyKind,
  segmentKind,
  rewardKind,
  badgeKind,
  streakKind,
  levelKind,
  campaignBoostKind,
  questKind,
  adventureKind,
];
