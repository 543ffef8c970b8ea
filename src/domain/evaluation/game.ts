import type { CompiledBadge } from "./badges/badge.ts";
import type { ActiveCampaign } from "./boosts/campaign-boost.ts";
import type { Currency } from "./currencies/currency.ts";
import type { Live } from "./live.ts";
import type { Board } from "./boards/board.ts";
import type { MetricIndex } from "./metrics/compile.ts";
import type { ProjectSettings } from "./project-settings.ts";
import type { Reward } from "./rewards/reward.ts";
import type { CompiledStreak } from "./streaks/compile.ts";
import type { Level } from "./xp/level.ts";
import type { LevelCurve } from "./xp/levels.ts";

/**
 * A project's definitions as a turn reads them, archived ones left out. What works on a turn itself, such as
 * rules, is not part of it: see `ProjectPlan`.
 */
export type Game = {
  projectId: string;
  timezone: string;
  settings: ProjectSettings;
  curve: LevelCurve;
  currencies: ReadonlyMap<string, Currency>;
  badges: ReadonlyMap<string, CompiledBadge>;
  /** Those that follow a counter, by its id. */
  badgesByMetric: ReadonlyMap<string, readonly CompiledBadge[]>;
  streaks: ReadonlyMap<string, CompiledStreak>;
  streaksHearing(eventType: string): readonly CompiledStreak[];
  /** Who is in a DYNAMIC segment is up to its definition. */
  segments: ReadonlyMap<string, { definition: { kind: "STATIC" | "DYNAMIC" } }>;
  rewards: ReadonlyMap<string, Live<Reward>>;
  /** Whether any badge or reward is limited over all players. */
  hasLimited: boolean;
  /** By number. */
  levels: ReadonlyMap<number, Level>;
  boosts: readonly ActiveCampaign[];
  boards: readonly Board[];
  boardsByKey: ReadonlyMap<string, Board>;
  /** The rules that run, as far as turns know them; of one in SHADOW, counts are kept apart. */
  rules: { all: readonly { id: string; isShadow: boolean }[] };
  /** Counters that rules, badges and segments read. */
  metrics: MetricIndex;
  /** Whether anything listens to an event type; then an effect of that type becomes a derived event. */
  hears(eventType: string): boolean;
};
