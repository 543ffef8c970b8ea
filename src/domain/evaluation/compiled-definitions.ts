import type { CompiledBadge } from "./badges/badge.ts";
import type { ActiveCampaign } from "./boosts/campaign-boost.ts";
import type { Currency } from "./currencies/currency.ts";
import type { Live } from "./live.ts";
import type { Board } from "./boards/board.ts";
import type { MetricIndex } from "./metrics/compile.ts";
import type { ProjectSettings } from "./project-settings.ts";
import type { RewardBundle } from "./rewards/bundle.ts";
import type { Reward } from "./rewards/reward.ts";
import type { CompiledStreak } from "./streaks/compile.ts";
import type { Level } from "./xp/level.ts";
import type { LevelCurve } from "./xp/levels.ts";

type WithTiers = { tiers: readonly { premium?: RewardBundle | undefined }[] };

/**
 * A project's definitions as data for a turn, without archived ones. What operates on a turn itself, such as
 * rules, is part of `ProjectPlan`.
 */
export type CompiledDefinitions = {
  projectId: string;
  timezone: string;
  settings: ProjectSettings;
  curve: LevelCurve;
  currencies: ReadonlyMap<string, Currency>;
  badges: ReadonlyMap<string, CompiledBadge>;
  /** Badges that follow a counter, by its id. */
  badgesByMetric: ReadonlyMap<string, readonly CompiledBadge[]>;
  streaks: ReadonlyMap<string, CompiledStreak>;
  streaksByEventType(eventType: string): readonly CompiledStreak[];
  /** Membership of a DYNAMIC segment follows from its definition. */
  segments: ReadonlyMap<string, { definition: { kind: "STATIC" | "DYNAMIC" } }>;
  rewards: ReadonlyMap<string, Live<Reward>>;
  /** Adventures, as far as rewards open their premium tiers. */
  adventures: { byKey: ReadonlyMap<string, { definition: WithTiers }> };
  /** Whether any badge or reward is limited across all players. */
  hasLimited: boolean;
  /** Keyed by level number. */
  levels: ReadonlyMap<number, Level>;
  boosts: readonly ActiveCampaign[];
  boards: readonly Board[];
  boardsByKey: ReadonlyMap<string, Board>;
  /** The running rules, as far as turns need them; counts of SHADOW rules are kept apart. */
  rules: { all: readonly { id: string; isShadow: boolean }[] };
  /** Counters that rules, badges and segments read. */
  metrics: MetricIndex;
  /**
   * Returns whether anything listens to an event type, so that an effect of that type becomes a derived
   * event.
   */
  hasListeners(eventType: string): boolean;
};
