import type { HoldingName } from "../../evaluation/player-state.ts";
import { adventures } from "./adventures.ts";
import { badges } from "./badges.ts";
import { balances, lots } from "./balances.ts";
import { boosts } from "./boosts.ts";
import { doc } from "./doc.ts";
import { entries } from "./entries.ts";
import type { PlayerPart } from "./part.ts";
import { quests } from "./quests.ts";
import { segments } from "./segments.ts";
import { streaks } from "./streaks.ts";

const HOLDING_PARTS: Readonly<Record<HoldingName, PlayerPart>> = {
  entries,
  balances,
  lots,
  badges,
  streaks,
  segments,
  boosts,
  quests,
  adventures,
};

/** All state that players have besides their row. */
export const PLAYER_PARTS: readonly PlayerPart[] = [doc, ...Object.values(HOLDING_PARTS)];
