import { z } from "zod";
import { Cap, CAPS_MAX } from "../../evaluation/caps/cap.ts";
import { type ProjectSettings, settingsFrom } from "../../evaluation/project-settings.ts";

const EVENT_AGE_DAYS_MAX = 36_500;
const COUNT_MAX = 1_000_000;
const KEPT_DAYS_MAX = 3_650;

const Lives = z.strictObject({
  enabled: z.boolean(),
  max: z.int().min(1).max(COUNT_MAX),
  refillSeconds: z.int().min(1).max(31_536_000).meta({ description: "Seconds between two refills" }),
  refillAmount: z.int().min(1).max(COUNT_MAX),
  start: z.int().min(0).max(COUNT_MAX).meta({ description: "Initial lives of a new player" }),
  allowOverMax: z.boolean().meta({ description: "Grants may exceed max; lives refill only below it" }),
});

const Share = z.number().min(0).max(1);

/** Schema of a project's settings; see ProjectSettings for their meaning. */
export const SettingsShape = z.strictObject({
  autoCreatePlayers: z
    .boolean()
    .meta({ description: "Events and connections of unknown players create them" }),
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

/** A partial change of settings, with each field of `lives` and `traceSampling` optional. */
export const SettingsPatch = SettingsShape.extend({
  lives: Lives.partial(),
  traceSampling: z.strictObject({ live: Share.optional(), test: Share.optional() }),
}).partial();
export type SettingsPatch = z.output<typeof SettingsPatch>;

const defined = <T extends object>(patch: T): { [K in keyof T]?: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined)) as never;

/** Merges a change into stored settings: absent fields are unchanged, in `lives` and `traceSampling` too. */
export const mergeSettings = (
  stored: Partial<ProjectSettings>,
  { lives, traceSampling, ...rest }: SettingsPatch,
): Partial<ProjectSettings> => {
  const before = settingsFrom(stored);
  return {
    ...stored,
    ...defined(rest),
    ...(lives ? { lives: { ...before.lives, ...defined(lives) } } : {}),
    ...(traceSampling ? { traceSampling: { ...before.traceSampling, ...defined(traceSampling) } } : {}),
  };
};
