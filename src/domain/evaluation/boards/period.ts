import { z } from "zod";
import { Cron } from "../language/patterns.ts";
import { WEEK_DAYS, type WeekDay } from "../../kernel/zones.ts";
import { EventPattern, Key, Path, Zone } from "../language/syntax.ts";
import { checkProperty, Filter } from "../metrics/compile.ts";
import { beginningOf, IsoTimeOrDate } from "../../kernel/iso-time.ts";

type IssueLike = { code?: string | undefined; keys?: string[] };

/** Builds the error that names every unknown field. */
export const unknownFields = (sentence: string) => ({
  error: (issue: unknown) => {
    const { code, keys } = issue as IssueLike;
    return code === "unrecognized_keys" ? `${keys!.join(", ")}: ${sentence}` : undefined;
  },
});

export const NOT_SUPPORTED = unknownFields("not supported");

const EVENT_TYPES_MAX = 20;

export const OPERATORS = ["BEST", "LATEST", "SUM", "DECR"] as const;
export type Operator = (typeof OPERATORS)[number];
const AGGREGATES = ["count", "sum", "max", "min", "latest"] as const;
type Aggregate = (typeof AGGREGATES)[number];

const sourceOnly = <S extends string>(source: S) =>
  z.strictObject({ source: z.literal(source) }, NOT_SUPPORTED);

const CurrencyMetric = z.strictObject(
  {
    source: z.literal("CURRENCY"),
    currencyKey: Key,
    mode: z
      .enum(["BALANCE", "EARNED"])
      .default("BALANCE")
      .describe("BALANCE: the player's balance; EARNED: the gains in the period"),
  },
  NOT_SUPPORTED,
);

const StreakMetric = z.strictObject({ source: z.literal("STREAK"), streakKey: Key }, NOT_SUPPORTED);

const AdventureMetric = z.strictObject(
  { source: z.literal("ADVENTURE_POINTS"), adventureKey: Key },
  NOT_SUPPORTED,
);

const QuestMetric = z.strictObject(
  {
    source: z.literal("QUESTS_COMPLETED"),
    questKey: Key.optional().describe("Only completions of this quest; default: of all"),
  },
  NOT_SUPPORTED,
);

const EventMetric = z
  .strictObject(
    {
      source: z.literal("EVENT"),
      event: z.strictObject(
        { eventTypes: z.array(EventPattern).min(1).max(EVENT_TYPES_MAX), filter: Filter.optional() },
        NOT_SUPPORTED,
      ),
      aggregate: z.enum(AGGREGATES),
      property: Path.optional(),
    },
    NOT_SUPPORTED,
  )
  .superRefine(checkProperty);

/**
 * The metric of a board: XP (in total, or gained in the period), the level, a currency, an aggregate over
 * events, a streak, badge points, points of an adventure, completions of quests, or submitted scores.
 */
export const Metric = z.discriminatedUnion(
  "source",
  [
    sourceOnly("XP"),
    sourceOnly("LEVEL"),
    CurrencyMetric,
    EventMetric,
    StreakMetric,
    sourceOnly("BADGE_POINTS"),
    AdventureMetric,
    QuestMetric,
    sourceOnly("CUSTOM"),
  ],
  {
    error:
      "must have a source of XP, LEVEL, CURRENCY, EVENT, STREAK, BADGE_POINTS, ADVENTURE_POINTS, " +
      "QUESTS_COMPLETED or CUSTOM",
  },
);
export type Metric = z.output<typeof Metric>;

const AGGREGATE_OPERATOR: Record<Aggregate, Operator> = {
  count: "SUM",
  sum: "SUM",
  max: "BEST",
  min: "BEST",
  latest: "LATEST",
};

/** Returns the operator implied by a metric; undefined for CUSTOM. */
export const operatorOf = (metric: Metric): Operator | undefined => {
  if (metric.source === "CUSTOM") return undefined;
  if (metric.source === "XP") return "SUM";
  if (metric.source === "CURRENCY") return metric.mode === "EARNED" ? "SUM" : "LATEST";
  return metric.source === "EVENT" ? AGGREGATE_OPERATOR[metric.aggregate] : "LATEST";
};

/** How long a window accepts scores from before its end after it has ended. */
const CLOSE_GRACE_SECONDS_DEFAULT = 60;
const CLOSE_GRACE_SECONDS_MAX = 86_400;
/** Closed periods whose entries are kept. */
const KEEP_PERIODS_DEFAULT = 52;
const KEEP_PERIODS_MAX = 1_000;
/** Maximum length of a FIXED period, in days. */
const FIXED_DAYS_MAX = 3_660;
const DAY_MS = 86_400_000;
const DAY_MINUTES = 1_440;

const CloseGraceSeconds = z
  .int()
  .min(0)
  .max(CLOSE_GRACE_SECONDS_MAX)
  .describe("How long after the end of a window scores from before its end are accepted");
const KeepPeriods = z
  .int()
  .min(1)
  .max(KEEP_PERIODS_MAX)
  .describe("Number of closed periods whose entries are kept; results are kept for all");

const closing = {
  closeGraceSeconds: CloseGraceSeconds.default(CLOSE_GRACE_SECONDS_DEFAULT),
  keepPeriods: KeepPeriods.default(KEEP_PERIODS_DEFAULT),
};

const checkFixed = (
  { startsAt, endsAt }: { startsAt: string; endsAt: string },
  context: z.RefinementCtx,
): void => {
  const lasts = Date.parse(endsAt) - Date.parse(startsAt);
  const refuse = (message: string): void => context.addIssue({ code: "custom", path: ["endsAt"], message });
  if (lasts <= 0) refuse("must be after startsAt");
  if (lasts > FIXED_DAYS_MAX * DAY_MS) refuse(`must be at most ${FIXED_DAYS_MAX} days after startsAt`);
};

/** Dates are days of the window's own zone. */
const fromDates = <P extends { startsAt: string; endsAt: string }>(period: P): P => {
  const { timezone } = period as { timezone?: string };
  const [startsAt, endsAt] = [period.startsAt, period.endsAt].map((text) => beginningOf(text, timezone));
  return { ...period, startsAt, endsAt };
};

const WeekStartsOn = z.literal(WEEK_DAYS).describe("1: Monday, 7: Sunday");
const DayStartsAtMinutes = z
  .int()
  .min(0)
  .max(DAY_MINUTES - 1)
  .describe("How long after midnight days begin");

/** The schema of a period whose calendar has these fields. */
const periodIn = <
  Z extends z.ZodType<string | undefined>,
  W extends z.ZodType<WeekDay | undefined>,
  D extends z.ZodType<number | undefined>,
>({
  timezone,
  weekStartsOn,
  dayStartsAtMinutes,
}: {
  timezone: Z;
  weekStartsOn: W;
  dayStartsAtMinutes: D;
}) => {
  const common = { timezone, ...closing };
  const periodic = <K extends string>(kind: K) =>
    z.strictObject({ kind: z.literal(kind), dayStartsAtMinutes, ...common }, NOT_SUPPORTED);
  return z.discriminatedUnion(
    "kind",
    [
      z.strictObject({ kind: z.literal("ALL_TIME"), timezone }, NOT_SUPPORTED),
      periodic("DAILY"),
      z.strictObject(
        { kind: z.literal("WEEKLY"), weekStartsOn, dayStartsAtMinutes, ...common },
        NOT_SUPPORTED,
      ),
      periodic("MONTHLY"),
      periodic("QUARTERLY"),
      periodic("YEARLY"),
      z.strictObject({ kind: z.literal("CRON"), cron: Cron, ...common }, NOT_SUPPORTED),
      z
        .strictObject(
          { kind: z.literal("FIXED"), startsAt: IsoTimeOrDate, endsAt: IsoTimeOrDate, ...common },
          NOT_SUPPORTED,
        )
        .overwrite(fromDates)
        .superRefine(checkFixed),
    ],
    { error: "must have a kind of ALL_TIME, DAILY, WEEKLY, MONTHLY, QUARTERLY, YEARLY, CRON or FIXED" },
  );
};

const ONE_ZONE = "One time zone for all players, so that all compete in the same window";

/** How a board's time is divided into windows. */
export const Period = periodIn({
  timezone: Zone.default("UTC").describe(ONE_ZONE),
  weekStartsOn: WeekStartsOn.default(1),
  dayStartsAtMinutes: DayStartsAtMinutes.default(0),
});
export type Period = z.output<typeof Period>;

/** As a request asks for it: what it does not say of its calendar it takes from the project. */
export const AskedPeriod = periodIn({
  timezone: Zone.optional().describe(`${ONE_ZONE}. Default: the project's`),
  weekStartsOn: WeekStartsOn.optional().describe("1: Monday, 7: Sunday. Default: the project's"),
  dayStartsAtMinutes: DayStartsAtMinutes.optional().describe(
    "How long after midnight days begin. Default: the project's",
  ),
});
export type AskedPeriod = z.output<typeof AskedPeriod>;

/** The fields of a period's calendar, as a project or another period has them. */
type OwnCalendar = { timezone: string; weekStartsOn?: WeekDay; dayStartsAtMinutes?: number };

/** Completes what a period does not say of its calendar. */
export const inCalendar = (
  asked: AskedPeriod,
  { timezone, weekStartsOn, dayStartsAtMinutes }: OwnCalendar,
): Period => {
  const isOfDays = !["ALL_TIME", "CRON", "FIXED"].includes(asked.kind);
  const week = asked.kind === "WEEKLY" ? { weekStartsOn } : {};
  return Period.parse({ timezone, ...week, ...(isOfDays ? { dayStartsAtMinutes } : {}), ...asked });
};

/** Fields of a period that may change. */
export const PeriodPatch = z.strictObject(
  { closeGraceSeconds: CloseGraceSeconds.optional(), keepPeriods: KeepPeriods.optional() },
  NOT_SUPPORTED,
);
export type PeriodPatch = z.output<typeof PeriodPatch>;

/** Returns how long a window accepts scores after its end, in ms. */
export const graceMsOf = (period: Period): number =>
  (period.kind === "ALL_TIME" ? 0 : period.closeGraceSeconds) * 1_000;

/** Returns how many closed periods keep their entries. */
export const keepPeriodsOf = (period: Period): number =>
  period.kind === "ALL_TIME" ? KEEP_PERIODS_DEFAULT : period.keepPeriods;

/** Returns the part of a period that determines its windows; the rest may change. */
export const windowsOf = (period: Period): object => {
  if (period.kind === "ALL_TIME") return period;
  const { closeGraceSeconds: _grace, keepPeriods: _kept, ...windows } = period;
  return windows;
};
