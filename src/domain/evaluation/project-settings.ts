import { z } from "zod";
import type { CompiledBadge } from "./badges/badge.ts";
import type { Board } from "./boards/board.ts";
import type { ActiveCampaign } from "./boosts/campaign-boost.ts";
import { Cap, CAPS_MAX } from "./caps/cap.ts";
import type { Currency } from "./currencies/currency.ts";
import type { Live } from "./live.ts";
import type { MetricIndex } from "./metrics/compile.ts";
import type { Reward, RewardBundle } from "./rewards/bundle.ts";
import type { CompiledStreak } from "./streaks/compile.ts";
import type { Level, LevelCurve } from "./xp/levels.ts";
import { WEEK_DAYS } from "../kernel/zones.ts";

const EVENT_AGE_DAYS_MAX = 36_500;
const COUNT_MAX = 1_000_000;
/** Analytics count by quarters of an hour. */
const QUARTER_MINUTES = 15;
const KEPT_DAYS_MAX = 3_650;

/** How a project's lives regenerate. */
export const Lives = z.strictObject({
  enabled: z.boolean(),
  max: z.int().min(1).max(COUNT_MAX),
  refillSeconds: z.int().min(1).max(31_536_000).meta({ description: "Seconds between two refills" }),
  refillAmount: z.int().min(1).max(COUNT_MAX),
  start: z.int().min(0).max(COUNT_MAX).meta({ description: "Initial lives of a new player" }),
  allowOverMax: z.boolean().meta({ description: "Grants may exceed max; lives refill only below it" }),
});
export type LivesSettings = z.output<typeof Lives>;

export const Share = z.number().min(0).max(1);

/** Settings of a project; absent ones have defaults, see `settingsOf`. */
export const SettingsShape = z.strictObject({
  weekStartsOn: z.literal(WEEK_DAYS).meta({ description: "The first day of weeks: 1: Monday, 7: Sunday" }),
  dayStartsAtMinutes: z
    .int()
    .min(0)
    .max(24 * 60 - QUARTER_MINUTES)
    .multipleOf(QUARTER_MINUTES)
    .meta({
      example: 240,
      description:
        "How long after midnight days begin, and with them weeks and months: of limits, caps, metrics, " +
        "streaks, quests, adventures and analytics at once, of leaderboards as they are made",
    }),
  autoCreatePlayers: z
    .boolean()
    .meta({ description: "Events, scores and connections of unknown players create them" }),
  maxEventAgeDays: z.int().min(1).max(EVENT_AGE_DAYS_MAX).nullable().meta({
    description: "Events older than this are rejected; null accepts any age",
  }),
  allowLevelDown: z.boolean().meta({ description: "Losing XP can lower the level" }),
  createUnknownTargets: z
    .boolean()
    .meta({ description: "A rule that acts on a player who does not exist creates the player" }),
  maxBoostFactor: z.number().min(1).max(100).meta({ description: "Maximum factor of all boosts together" }),
  xpDailySoftCap: z
    .strictObject({
      xp: z.int().min(1).max(Number.MAX_SAFE_INTEGER),
      factorAbove: z.number().min(0).max(1),
    })
    .nullable()
    .meta({ description: "XP from rules beyond `xp` in the player's day is multiplied by `factorAbove`" }),
  caps: z
    .array(Cap)
    .max(CAPS_MAX)
    .meta({ description: "The most that all rules together give a player of an asset in a window" }),
  lives: Lives,
  traceSampling: z
    .strictObject({ live: Share, test: Share })
    .meta({ description: "Fraction of events whose evaluation is traced; `test` applies in the sandbox" }),
  tracesDays: z.int().min(1).max(90).meta({ description: "How long traces are kept" }),
  activityDays: z.int().min(1).max(KEPT_DAYS_MAX).meta({
    description:
      "How long players' streams and effects of events are kept; never longer than the plan allows",
  }),
  executionsDays: z.int().min(1).max(KEPT_DAYS_MAX).meta({
    description: "How long executions of rules are kept; never longer than the plan allows",
  }),
  lobby: z
    .strictObject({ onePerMode: z.boolean() })
    .meta({ description: "onePerMode: a player may be in one lobby of a mode at a time" }),
  chat: z
    .strictObject({ directPolicy: z.enum(["ALL", "OFF"]) })
    .meta({ description: "directPolicy: whether players may send direct messages" }),
});
export type ProjectSettings = z.output<typeof SettingsShape>;

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
