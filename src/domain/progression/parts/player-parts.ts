import type { HoldingName } from "../../evaluation/player-state.ts";
import { entries } from "./entries.ts";
import { balances, boosts, docPart, lots, type PlayerPart, segments, streaks } from "./part.ts";
import { adventures, badges, quests } from "./quests.ts";

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
export const PLAYER_PARTS: readonly PlayerPart[] = [docPart, ...Object.values(HOLDING_PARTS)];
