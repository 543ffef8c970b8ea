import type { CompiledBadge } from "./badges/badge.ts";
import type { Board } from "./boards/board.ts";
import type { ActiveCampaign } from "./boosts/campaign-boost.ts";
import type { Cap } from "./caps/cap.ts";
import type { Currency } from "./currencies/currency.ts";
import type { Live } from "./live.ts";
import type { MetricIndex } from "./metrics/compile.ts";
import type { Reward, RewardBundle } from "./rewards/bundle.ts";
import type { CompiledStreak } from "./streaks/compile.ts";
import type { Level, LevelCurve } from "./xp/levels.ts";
import type { WeekDay } from "../kernel/zones.ts";

/** How a project's lives regenerate. */
export type LivesSettings = {
  enabled: boolean;
  max: number;
  refillSeconds: number;
  refillAmount: number;
  /** Initial lives of a new player. */
  start: number;
  /** Grants may exceed `max`; regeneration stops while there are `max` or more. */
  allowOverMax: boolean;
};

/** Settings of a project; absent ones have defaults, see `settingsOf`. */
export type ProjectSettings = {
  /** The first day of weeks: 1 for Monday, 7 for Sunday. */
  weekStartsOn: WeekDay;
  /** How long after midnight days begin, and with them weeks and months. */
  dayStartsAtMinutes: number;
  /** An event or a connection of an unknown player creates the player. */
  autoCreatePlayers: boolean;
  /** Older events are rejected; null accepts any age. */
  maxEventAgeDays: number | null;
  /** Losing XP can lower the level. */
  allowLevelDown: boolean;
  /** A rule may act on a player who does not exist yet, who is then created. */
  createUnknownTargets: boolean;
  /** Maximum factor of all boosts together. */
  maxBoostFactor: number;
  /** XP from events beyond `xp` in a local day is multiplied by `factorAbove`. */
  xpDailySoftCap: { xp: number; factorAbove: number } | null;
  /** The most that rules give a player of XP or a currency in a window. */
  caps: Cap[];
  lives: LivesSettings;
  /** The fraction of events whose evaluation is explained and stored, 0 to 1, by kind of key. */
  traceSampling: { live: number; test: number };
  /** How long traces are kept, in days. */
  tracesDays: number;
  /** How long lines of players' streams and effects of events are kept, in days; the plan may keep less. */
  activityDays: number;
  /** How long executions of rules are kept, in days; the plan may keep less. */
  executionsDays: number;
  /** `onePerMode`: a player has at most one lobby of a mode, otherwise one seat in each lobby. */
  lobby: { onePerMode: boolean };
  /** Whether players may send one another direct messages. */
  chat: { directPolicy: "ALL" | "OFF" };
};

export const DEFAULT_SETTINGS: ProjectSettings = {
  weekStartsOn: 1,
  dayStartsAtMinutes: 0,
  autoCreatePlayers: true,
  maxEventAgeDays: null,
  allowLevelDown: false,
  createUnknownTargets: false,
  maxBoostFactor: 10,
  xpDailySoftCap: null,
  caps: [],
  lives: { enabled: false, max: 5, refillSeconds: 1_800, refillAmount: 1, start: 5, allowOverMax: false },
  traceSampling: { live: 0.01, test: 1 },
  tracesDays: 7,
  activityDays: 30,
  executionsDays: 90,
  lobby: { onePerMode: true },
  chat: { directPolicy: "ALL" },
};

/** Applies the defaults to stored settings. */
export const settingsFrom = (stored: Partial<ProjectSettings>): ProjectSettings => ({
  ...DEFAULT_SETTINGS,
  ...stored,
  lives: { ...DEFAULT_SETTINGS.lives, ...stored.lives },
  traceSampling: { ...DEFAULT_SETTINGS.traceSampling, ...stored.traceSampling },
  lobby: { ...DEFAULT_SETTINGS.lobby, ...stored.lobby },
  chat: { ...DEFAULT_SETTINGS.chat, ...stored.chat },
});

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
