import { z } from "zod";
import { CALENDAR_INTERVALS } from "../../domain/analytics/range.ts";
import {
  CLOCKS,
  ENTRIES,
  OFFSET_MAX,
  OFFSETS_MAX,
  readRetention,
  RETENTION_TYPES,
  type RetentionQuestion,
} from "../../domain/analytics/retention.ts";
import { readMetric, readPropertyOf } from "../../domain/analytics/trend-query.ts";
import { invalid } from "../../domain/kernel/errors.ts";
import {
  answerQuestion,
  BreakdownLimitQuery,
  CohortNumber,
  EventType,
  PlayersLink,
  playersLink,
  PropertyPath,
  question,
  QuestionQuery,
  rateBody,
  RetentionNumber,
  textList,
} from "./analytics-fields.ts";
import {
  COHORT_METRICS,
  type CohortQuestion,
  PERIODS_MAX,
  readCohorts,
  SEGMENTATIONS,
} from "../../domain/analytics/cohorts.ts";
import { Flag } from "./bodies.ts";
import { Envelope } from "../../domain/analytics/ask.ts";

const OFFSETS_DEFAULT = "0,1,2,3,7,14,30";
const BRACKETS_DEFAULT = "0,1-3,4-7,8-14";
const RETURN_EVENTS_MAX = 50;
const LIST_MAX = OFFSETS_MAX * 10;

/** Other names that analysts know types by. */
const ALIASES = { classic: "nday", rolling: "unbounded" } as const;

type Offset = { offset: number; until?: number };

const isAscending = (offsets: readonly Offset[]): boolean =>
  offsets.every(({ offset, until = offset }, i) => {
    const before = offsets[i - 1];
    return until >= offset && (before === undefined || offset > (before.until ?? before.offset));
  });

/** A list such as `0,1,7`, or with `isOfRanges` `0,1-3`. */
const offsetList = (isOfRanges: boolean) => {
  const message =
    `must be at most ${OFFSETS_MAX} ascending ${isOfRanges ? "numbers or ranges" : "numbers"} ` +
    `of 0 to ${OFFSET_MAX}, such as ${isOfRanges ? BRACKETS_DEFAULT : OFFSETS_DEFAULT}`;
  return z
    .string()
    .max(LIST_MAX)
    .transform((text, context): Offset[] => {
      const offsets = text.split(",").map((part) => {
        const match = /^\s*(\d{1,4})(?:-(\d{1,4}))?\s*$/.exec(part);
        const offset = Number(match?.[1] ?? Number.NaN);
        return match?.[2] === undefined ? { offset } : { offset, until: Number(match[2]) };
      });
      const isRight =
        offsets.length <= OFFSETS_MAX &&
        offsets.every(({ offset, until = offset }) => offset >= 0 && until <= OFFSET_MAX) &&
        (isOfRanges || offsets.every(({ until }) => until === undefined)) &&
        isAscending(offsets);
      if (isRight) return offsets;
      context.addIssue({ code: "custom", message, input: text });
      return z.NEVER;
    })
    .optional();
};

const RetentionQuery = QuestionQuery.extend({
  unit: z.enum(CALENDAR_INTERVALS).default("day"),
  type: z
    .enum([...RETENTION_TYPES, "classic", "rolling"])
    .default("nday")
    .transform((type) => (type === "classic" || type === "rolling" ? ALIASES[type] : type))
    .meta({
      description:
        "When a player returned: nday (classic) in the very period, unbounded (rolling) then or later, " +
        "within in one of the periods from 1 to it, bracket in one of several",
    }),
  offsets: offsetList(false).meta({
    description: `Periods after that of the start; default ${OFFSETS_DEFAULT}`,
    example: "0,1,7,30",
    override: { type: "string" },
  }),
  brackets: offsetList(true).meta({
    description: `In place of offsets with type=bracket; default ${BRACKETS_DEFAULT}`,
    override: { type: "string" },
  }),
  startEvent: EventType.optional().meta({
    description: "What a player starts with; default: any event",
    "x-ref": "eventType",
  }),
  returnEvent: textList({ max: RETURN_EVENTS_MAX }).optional().meta({
    description: "What a return is, by comma; default: any event, the one that starts included",
    "x-ref": "eventType",
  }),
  entry: z.enum(ENTRIES).default("first_time").meta({
    description: "first_time: by the first start ever; recurring: in each period in which a player starts",
  }),
  clock: z
    .enum(CLOCKS)
    .default("calendar")
    .meta({ description: "24h: days last 24 hours from each start on, with the unit day" }),
  breakdown: PropertyPath.optional().meta({ description: "A property of the event that starts" }),
  limit: BreakdownLimitQuery,
});

const Column = z.object({
  offset: z.int(),
  until: z.int().optional().meta({ description: "The last period of a bracket" }),
});

const Share = Column.extend({
  eligible: z.int().meta({ description: "Players of cohorts that were old enough at asOf" }),
  players: z.int(),
  rate: rateBody,
});

const RetentionBody = Envelope.extend({
  type: z.enum(RETENTION_TYPES),
  unit: z.enum(CALENDAR_INTERVALS),
  entry: z.enum(ENTRIES),
  clock: z.enum(CLOCKS),
  players: PlayersLink,
  cohorts: z.array(
    z
      .object({
        period: z.iso.date().meta({ description: "The first local day of the period" }),
        size: z.int(),
        cells: z.array(
          Column.extend({
            players: z.int(),
            rate: rateBody,
            complete: z.boolean().meta({ description: "Whether the cell's time was over at asOf" }),
          }),
        ),
      })
      .meta({ id: "AnalyticsRetentionCohort" }),
  ),
  overall: z
    .array(Share.extend({ meanRate: rateBody.meta({ description: "The plain mean of the cohorts' rates" }) }))
    .meta({ description: "Over complete cells" }),
  breakdown: z.array(z.object({ value: z.string(), size: z.int(), overall: z.array(Share) })).optional(),
}).meta({ id: "AnalyticsRetention" });

type Query = z.output<typeof RetentionQuery>;

const readOffsets = offsetList(true);

const offsetsOf = ({ type, offsets, brackets }: Query): Offset[] => {
  if (type !== "bracket") {
    if (brackets) throw invalid("brackets", "is for type=bracket; other types have offsets");
    return offsets ?? readOffsets.parse(OFFSETS_DEFAULT)!;
  }
  if (offsets) throw invalid("offsets", "is for other types; type=bracket has brackets");
  return brackets ?? readOffsets.parse(BRACKETS_DEFAULT)!;
};

/** What is asked by the parameters. @throws DomainError VALIDATION_ERROR */
export const retentionOf = (query: Query): RetentionQuestion => {
  const { unit, type, startEvent, returnEvent, entry, clock, breakdown, limit } = query;
  return {
    unit,
    type,
    offsets: offsetsOf(query),
    startEvent,
    returnEvents: returnEvent,
    entry,
    clock,
    breakdown: breakdown === undefined ? undefined : { path: readPropertyOf("breakdown", breakdown), limit },
  };
};

export const analyticsRetentionRoutes = [
  question.get("/analytics/retention", "getAnalyticsRetention", {
    isRevalidated: true,
    summary: "Get how many players return after they started",
    description:
      "The players who started in each period of the range, and how many of them returned so many periods " +
      "later. Periods are those of the calendar, so days last 23 to 25 hours.",
    query: RetentionQuery,
    response: RetentionBody,
    outside: (app, { projectId, query }) => {
      const fields = retentionOf(query);
      return answerQuestion(
        app,
        { id: "retention", projectId, query, fields, daysMax: Infinity },
        async (work, asked) => ({
          ...playersLink("retention", RetentionNumber.shape),
          ...(await readRetention(work, asked, fields)),
        }),
      );
    },
  }),
];

const PERIODS_DEFAULT = 12;
const METRIC_MAX = 500;

const NAMES = COHORT_METRICS.filter((name) => name !== "sum");

const MetricParameter = z
  .string()
  .max(METRIC_MAX)
  .default("players")
  .meta({
    description:
      "players who did anything; rate: their share; events; eventsPerPlayer: by size; xp granted; or " +
      "sum:<eventType>.<property>, as in trends",
    "x-suggest": NAMES,
  });

/** @throws DomainError VALIDATION_ERROR for a metric that is none */
const metricOf = (text: string): Pick<CohortQuestion, "metric" | "sum"> => {
  const name = NAMES.find((one) => one === text);
  if (name !== undefined) return { metric: name };
  const sum = text.startsWith("sum:") ? readMetric(text) : undefined;
  if (sum?.kind === "sum") return { metric: "sum", sum };
  throw invalid("metric", `must be ${NAMES.join(", ")} or sum:<eventType>.<property>`);
};

const CohortsQuery = QuestionQuery.extend({
  unit: z.enum(CALENDAR_INTERVALS).default("week"),
  periods: z.coerce
    .number()
    .int()
    .min(0)
    .max(PERIODS_MAX)
    .default(PERIODS_DEFAULT)
    .meta({ description: "Columns behind the first one" }),
  metric: MetricParameter,
  cumulative: Flag.default(false).meta({
    description: "Players and rates: in the period or any later one; others: up to the period",
  }),
  segmentBy: z.enum(SEGMENTATIONS).default("acquisition"),
  property: PropertyPath.optional().meta({
    description: "With segmentBy=property: of each player's first event",
  }),
  limit: BreakdownLimitQuery,
});

const CohortsBody = Envelope.extend({
  unit: z.enum(CALENDAR_INTERVALS),
  metric: z.string(),
  cumulative: z.boolean(),
  segmentBy: z.enum(SEGMENTATIONS),
  players: PlayersLink,
  cohorts: z.array(
    z
      .object({
        period: z.iso.date().nullable().meta({ description: "The first local day; null for segments" }),
        label: z.string(),
        size: z.int(),
        values: z
          .array(z.number())
          .meta({ description: "For the k-th period after that of the first event" }),
        complete: z.array(z.boolean()).meta({ description: "Whether that period was over for all at asOf" }),
      })
      .meta({ id: "AnalyticsCohort" }),
  ),
  overall: z
    .array(z.object({ k: z.int(), eligible: z.int(), players: z.int(), value: z.number() }))
    .meta({ description: "Over periods of acquisition that were old enough at asOf" }),
}).meta({ id: "AnalyticsCohorts" });

const segmentsOf = ({ segmentBy, property, limit }: z.output<typeof CohortsQuery>) => {
  if (segmentBy === "acquisition") {
    if (property !== undefined) throw invalid("property", "is for segmentBy=property");
    return undefined;
  }
  if (property === undefined) throw invalid("property", "is needed with segmentBy=property");
  return { path: readPropertyOf("property", property), limit };
};

/** What is asked by the parameters. @throws DomainError VALIDATION_ERROR */
export const cohortsOf = (query: z.output<typeof CohortsQuery>): CohortQuestion => {
  const { unit, periods, metric, cumulative } = query;
  return { unit, periods, ...metricOf(metric), isCumulative: cumulative, segmentBy: segmentsOf(query) };
};

export const analyticsCohortRoutes = [
  question.get("/analytics/cohorts", "getAnalyticsCohorts", {
    isRevalidated: true,
    summary: "Get what players do in the periods after they came",
    description:
      "A player comes with the first event ever, and is in one cohort. The k-th period is of the calendar: " +
      "the k-th week or month after.",
    query: CohortsQuery,
    response: CohortsBody,
    outside: (app, { projectId, query }) => {
      const { unit, metric, cumulative, segmentBy } = query;
      const fields = cohortsOf(query);
      return answerQuestion(
        app,
        { id: "cohorts", projectId, query, fields, daysMax: Infinity },
        async (work, asked) => ({
          unit,
          metric,
          cumulative,
          segmentBy,
          ...playersLink("cohorts", CohortNumber.shape),
          ...(await readCohorts(work, asked, fields)),
        }),
      );
    },
  }),
];
