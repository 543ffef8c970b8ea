import { sql } from "kysely";
import { listIncludedBadges, type PlayerBadge } from "../economy/badges/player-badges.ts";
import { listBoosts } from "../economy/boosts/operations.ts";
import type { BoostView } from "../kernel/events/events.ts";
import { listPlayerAdventures } from "../economy/adventures/player-adventures.ts";
import type { PlayerAdventure } from "../evaluation/adventures/show.ts";
import { listIncludedQuests } from "../economy/quests/player-quests.ts";
import type { PlayerQuest } from "../evaluation/quests/show.ts";
import { listStreaks } from "../economy/streaks/player-streaks.ts";
import type { PlayerStreak } from "../economy/streaks/show.ts";
import { HOLDING_NAMES, type HoldingName } from "../evaluation/player-state.ts";
import { HOLDING_LIFE } from "./holdings.ts";
import { listIncludedMetrics, type PlayerMetric } from "./metrics.ts";
import { kept } from "../kernel/statements.ts";
import type { Work } from "../kernel/work.ts";
import { type Identity, listIdentities } from "../progression/players/identities.ts";
import type { Player } from "../players/player.ts";

type Life = typeof HOLDING_LIFE;
type IncludedHolding = {
  [Name in HoldingName]: Life[Name]["isIncluded"] extends true ? Name : never;
}[HoldingName];
export type Include = IncludedHolding | "identities" | "metrics";

/** Data that can be included with a player, besides ranks. */
export const INCLUDES: readonly Include[] = [
  ...HOLDING_NAMES.filter((name): name is IncludedHolding => HOLDING_LIFE[name].isIncluded),
  "identities",
  "metrics",
];

export type Included = {
  /** Those held and those in progress, 100 of each at most. */
  badges?: PlayerBadge[];
  streaks?: PlayerStreak[];
  /** Keys. */
  segments?: string[];
  boosts?: BoostView[];
  /** Those of the project that are shown to the player, 100 at most. */
  quests?: PlayerQuest[];
  /** Those of the project that run, or that the player has joined. */
  adventures?: PlayerAdventure[];
  identities?: Identity[];
  /** The first 100. */
  metrics?: PlayerMetric[];
};

type Readers = { [Name in Include]: (work: Work, player: Player) => Promise<Included[Name] & {}> };

const READERS: Readers = {
  badges: listIncludedBadges,
  streaks: listStreaks,
  segments: async ({ db }, { projectId, id }) => {
    const found = await kept(
      db,
      sql<{ segment_key: string }>`
      select segment_key from player_segments where project_id = ${projectId} and player_id = ${id}
      order by segment_key`,
    );
    return found.rows.map((row) => row.segment_key);
  },
  boosts: listBoosts,
  quests: listIncludedQuests,
  adventures: listPlayerAdventures,
  identities: listIdentities,
  metrics: listIncludedMetrics,
};

/** Reads the requested data of a player. */
export const showIncluded = async (
  work: Work,
  player: Player,
  names: readonly Include[],
): Promise<Included> => {
  const included: Included = {};
  for (const name of names) Object.assign(included, { [name]: await READERS[name](work, player) });
  return included;
};
