import type { HoldingName } from "../evaluation/player-state.ts";
import type { Pieces } from "../kernel/pace.ts";
import { mergeBadges, mergeCurrencies, type Merging } from "./merge-holdings.ts";
import { mergeBoosts, mergeEntries, mergeSegments, mergeStreaks } from "./merge-progress.ts";
import { mergeAdventures } from "./merge-adventures.ts";
import { mergeQuests } from "./merge-quests.ts";
import { inLists, ofPlayer, type PersonalTable } from "./personal-table.ts";

/** Handling of a kind of holdings when players are merged, shown, exported and erased. */
export type HoldingLife = {
  /** How the source's holdings are merged; null: with another kind. */
  merge: ((merging: Merging) => Pieces<void>) | null;
  /** The table that stores it. */
  table: PersonalTable;
  /** Whether the source's rows are deleted after the merge. */
  isLeftBehind: boolean;
  /** Whether it can be included when a player is read. */
  isIncluded: boolean;
};

/** Steps for a segment, a boost or a place on a leaderboard. */
const ROW_STEPS = 40;

/** Merges holdings that take the same number of steps for each row. */
const byRow = (name: HoldingName, merge: (merging: Merging) => void) =>
  function* (merging: Merging): Pieces<void> {
    yield ROW_STEPS * merging.source.player[name].size;
    merge(merging);
  };

/** By kind, in the order in which they are merged. */
export const HOLDING_LIFE = {
  badges: {
    merge: mergeBadges,
    table: ofPlayer("player_badges", "badge_key"),
    isLeftBehind: true,
    isIncluded: true,
  },
  streaks: {
    merge: mergeStreaks,
    table: ofPlayer("player_streaks", "streak_key"),
    isLeftBehind: true,
    isIncluded: true,
  },
  boosts: {
    merge: byRow("boosts", mergeBoosts),
    table: ofPlayer("player_boosts", "id"),
    isLeftBehind: true,
    isIncluded: true,
  },
  entries: {
    merge: byRow("entries", mergeEntries),
    table: { table: "leaderboard_entries", orderBy: "period_id", onErase: "DELETED", isOf: inLists },
    // Those of open lists are deleted, and others move along; see merge-rows.ts.
    isLeftBehind: false,
    // Ranks are not in the database.
    isIncluded: false,
  },
  balances: {
    merge: mergeCurrencies,
    table: ofPlayer("player_balances", "currency_key", "KEPT"),
    isLeftBehind: true,
    // Always included.
    isIncluded: false,
  },
  lots: { merge: null, table: ofPlayer("currency_lots", "id"), isLeftBehind: true, isIncluded: false },
  segments: {
    merge: byRow("segments", mergeSegments),
    table: ofPlayer("player_segments", "segment_key"),
    isLeftBehind: true,
    isIncluded: true,
  },
  quests: {
    merge: byRow("quests", mergeQuests),
    table: ofPlayer("player_quests", "quest_key, cycle_key"),
    isLeftBehind: true,
    isIncluded: true,
  },
  adventures: {
    merge: byRow("adventures", mergeAdventures),
    table: ofPlayer("player_adventures", "adventure_key"),
    isLeftBehind: true,
    isIncluded: true,
  },
} as const satisfies Record<HoldingName, HoldingLife>;
