import { z } from "zod";
import { EVENT_TYPES_MAX, Filter, WindowlessMetric } from "../metrics/compile.ts";
import { RewardBundle } from "../rewards/bundle.ts";
import { patternsOf } from "../language/patterns.ts";
import { Description, EventPattern, Key, Name } from "../language/syntax.ts";
import { type Refuse, refuserOf } from "../language/trees.ts";
import { CALENDAR_UNITS } from "../../kernel/zones.ts";

export const STREAKS_MAX = 20;
export const QUALIFY_PARTS_MAX = 5;
export const MILESTONES_MAX = 20;
export const FREEZES_MAX = 100;
/** Grace must end before the period after the one that it extends. */
export const GRACE_SECONDS_MAX = 43_200;
export const REPAIR_HOURS_MAX = 720;
const LENGTH_MAX = 100_000;
const THRESHOLD_MAX = 9e9;
const DAY_MINUTES = 1_440;
const DATES_OFF_MAX = 400;

const Part = z.strictObject({
  metric: WindowlessMetric,
  threshold: z.number().gt(0).max(THRESHOLD_MAX).default(1).describe("The required value of the metric"),
});

const DaysOff = z.strictObject({
  weekdays: z.array(z.int().min(1).max(7)).max(6).default([]).describe("1: Monday, to 7: Sunday"),
  dates: z.array(z.iso.date()).max(DATES_OFF_MAX).default([]).describe("Planned rest, such as holidays"),
});

const BreakOn = z.strictObject({
  eventTypes: z.array(EventPattern).min(1).max(EVENT_TYPES_MAX),
  filter: Filter.optional(),
});

const Freeze = z.strictObject({
  enabled: z.boolean().default(true),
  max: z.int().min(1).max(FREEZES_MAX).default(2).describe("Maximum freezes that a player may hold"),
  initial: z.int().min(0).max(FREEZES_MAX).default(0).describe("Initial freezes of a player"),
  autoEarnEvery: z
    .int()
    .min(2)
    .max(LENGTH_MAX)
    .optional()
    .describe("Earns a freeze each time a run has grown by this many periods"),
  autoUse: z
    .boolean()
    .default(true)
    .describe(
      "Whether a missed period uses a freeze automatically; otherwise a paid repair uses one for each",
    ),
});

const Milestone = z.strictObject({
  length: z.int().min(1).max(LENGTH_MAX),
  every: z.int().min(1).max(LENGTH_MAX).optional().describe("Repeats after this many more"),
  rewards: RewardBundle.default({}),
});

export const streakShape = z.strictObject({
  key: Key,
  name: Name,
  description: Description.optional(),
  mode: z
    .enum(["PERIODIC", "CONSECUTIVE"])
    .default("PERIODIC")
    .describe("PERIODIC: periods in a row. CONSECUTIVE: events in a row, until one of `breakOn`"),
  period: z.enum(CALENDAR_UNITS).default("DAY").describe("Local days, weeks or months"),
  qualify: z
    .strictObject({
      mode: z.enum(["ALL", "ANY"]).default("ALL").describe("Whether all parts are required, or one"),
      parts: z.array(Part).min(1).max(QUALIFY_PARTS_MAX),
    })
    .describe("Requirements for a period to count; with CONSECUTIVE, for an event"),
  breakOn: BreakOn.optional().describe("CONSECUTIVE only: an event that ends the run"),
  timezonePolicy: z
    .enum(["PLAYER", "PROJECT"])
    .default("PLAYER")
    .describe("Whose time zone determines the periods"),
  dayStartsAtMinutes: z
    .int()
    .min(0)
    .max(DAY_MINUTES - 1)
    .optional()
    .describe("How long after midnight periods begin; default: the project's"),
  daysOff: DaysOff.optional().describe(
    "Days on which nothing needs to be done: they neither break a run nor use a freeze, and count if they " +
      "are completed. For the period DAY",
  ),
  graceSeconds: z
    .int()
    .min(0)
    .max(GRACE_SECONDS_MAX)
    .default(0)
    .describe("Grace time after the end of a period in which it can still be completed"),
  freeze: Freeze.optional().describe("Freezes protect a run from missed periods"),
  repairWindowHours: z
    .int()
    .min(0)
    .max(REPAIR_HOURS_MAX)
    .default(0)
    .describe("How long a broken run can be repaired; 0: not at all"),
  repairCost: z
    .strictObject({ currencyKey: Key, amount: z.int().min(1).max(Number.MAX_SAFE_INTEGER) })
    .optional()
    .describe("The cost of a paid repair"),
  milestones: z.array(Milestone).max(MILESTONES_MAX).default([]),
});

export type Streak = z.output<typeof streakShape>;

const OWN_PATTERNS: ReadonlySet<string> = new Set(
  ["extended", "at_risk", "frozen", "broken", "repaired"].flatMap((what) =>
    patternsOf(`player.streak_${what}`),
  ),
);

/** Zod check of constraints between fields. */
const checkStreak = (streak: Streak, context: z.RefinementCtx): void => {
  const refuse = refuserOf(context);
  const { mode, period, breakOn, freeze, key, daysOff } = streak;
  if (mode === "CONSECUTIVE") checkConsecutive(streak, refuse);
  else if (breakOn) refuse(["breakOn"], "is for CONSECUTIVE streaks");
  if (daysOff && period !== "DAY") refuse(["daysOff"], "is for streaks of days");
  if (freeze && freeze.initial > freeze.max) refuse(["freeze", "initial"], "must be at most max");
  if (streak.repairCost && streak.repairWindowHours === 0)
    refuse(["repairCost"], "needs repairWindowHours above 0");
  checkEventTypes(streak, refuse);
  streak.milestones.forEach(({ rewards }, i) => {
    // More would extend the run that earned it.
    if ((rewards.streakFreezes?.[key] ?? 0) > 1)
      refuse(["milestones", i, "rewards", "streakFreezes", key], "may be at most 1 of the streak itself");
  });
};

/** Events caused by streaks would trigger them again. */
const checkEventTypes = ({ qualify, breakOn }: Streak, refuse: Refuse): void => {
  const lists = [
    ...qualify.parts.map(({ metric }, i) => ({
      path: ["qualify", "parts", i, "metric", "eventTypes"],
      types: metric.eventTypes,
    })),
    { path: ["breakOn", "eventTypes"], types: breakOn?.eventTypes ?? [] },
  ];
  for (const { path, types } of lists) {
    types.forEach((type, i) => {
      if (OWN_PATTERNS.has(type)) refuse([...path, i], "includes events that streaks cause");
    });
  }
};

const checkConsecutive = ({ breakOn, period, graceSeconds, daysOff }: Streak, refuse: Refuse): void => {
  if (!breakOn) refuse(["breakOn"], "is needed: an event that ends a CONSECUTIVE streak");
  if (period !== "DAY") refuse(["period"], "is for PERIODIC streaks");
  if (graceSeconds > 0) refuse(["graceSeconds"], "is for PERIODIC streaks");
  if (daysOff) refuse(["daysOff"], "is for PERIODIC streaks");
};

/** A streak of a project. */
export const Streak = streakShape.superRefine(checkStreak).meta({
  example: {
    key: "daily-lesson",
    name: "Daily lesson",
    period: "DAY",
    qualify: {
      mode: "ALL",
      parts: [{ metric: { eventTypes: ["lesson.completed"], aggregate: "count" }, threshold: 1 }],
    },
    freeze: { enabled: true, max: 2, initial: 1, autoEarnEvery: 7 },
    repairWindowHours: 48,
    milestones: [{ length: 7, every: 7, rewards: { xp: 50 } }],
  },
});
