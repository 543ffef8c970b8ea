import { z } from "zod";
import { Filter } from "../metrics/filter.ts";
import { EventPattern, Key, Path } from "../rules/language/syntax.ts";
import { TIES } from "./ranks.ts";

export const NAME_MAX = 100;
export const DESCRIPTION_MAX = 2_000;
export const EVENT_TYPES_MAX = 20;
export const DISPLAY_LIMIT_MAX = 1_000_000;

export const OPERATORS = ["BEST", "LATEST", "SUM"] as const;
export type Operator = (typeof OPERATORS)[number];
export const SORTS = ["DESC", "ASC"] as const;
export type Sort = (typeof SORTS)[number];
export const AGGREGATES = ["count", "sum", "max", "min", "latest"] as const;
export type Aggregate = (typeof AGGREGATES)[number];

type IssueLike = { code?: string | undefined; keys?: string[] };

/** Names every field that is not known, so that a reader sees what to leave out. */
const unknownFields = (sentence: string) => ({
  error: (issue: unknown) => {
    const { code, keys } = issue as IssueLike;
    return code === "unrecognized_keys" ? `${keys!.join(", ")}: ${sentence}` : undefined;
  },
});
const NOT_SUPPORTED = unknownFields("not supported");

const XpMetric = z.strictObject({ source: z.literal("XP") }, NOT_SUPPORTED);
const CustomMetric = z.strictObject({ source: z.literal("CUSTOM") }, NOT_SUPPORTED);
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
  .superRefine(({ aggregate, property }, context) => {
    if (aggregate === "count" && property !== undefined) {
      context.addIssue({ code: "custom", path: ["property"], message: "count takes no property" });
    }
    if (aggregate !== "count" && property === undefined) {
      context.addIssue({ code: "custom", path: ["property"], message: `${aggregate} needs a property` });
    }
  });

/** What a board measures: total XP, an aggregate over events, or scores that are submitted. */
export const Metric = z.discriminatedUnion("source", [XpMetric, EventMetric, CustomMetric], {
  error: "must have a source of XP, EVENT or CUSTOM",
});
export type Metric = z.output<typeof Metric>;

const Name = z.string().min(1).max(NAME_MAX);
const Description = z.string().max(DESCRIPTION_MAX);
const TiesField = z
  .enum(TIES)
  .describe("How equal scores rank: by who reached it first or last, 1-2-2-4 or 1-2-2-3");
const DisplayLimit = z
  .int()
  .min(1)
  .max(DISPLAY_LIMIT_MAX)
  .describe("How many places the pages show; default all");
const Period = z.strictObject(
  {
    kind: z.literal("ALL_TIME", { error: "only ALL_TIME is supported" }),
    timezone: z.literal("UTC", { error: "only UTC is supported" }).default("UTC"),
  },
  NOT_SUPPORTED,
);

const fields = {
  description: Description.optional(),
  metric: Metric,
  sort: z.enum(SORTS).default("DESC").describe("DESC: higher is better; ASC: lower is better"),
  scoreDecimals: z.int().min(0).max(6).default(0),
  period: Period.default({ kind: "ALL_TIME", timezone: "UTC" }),
  ties: TiesField.default("EARLIEST"),
  displayLimit: DisplayLimit.optional(),
  authoritative: z.literal(true, { error: "only true is supported" }).default(true),
};

/**
 * What is stored and shown beside key and name: with the operator, which creation may leave out where it
 * follows.
 */
export const Definition = z.object({ ...fields, operator: z.enum(OPERATORS) });
export type Definition = z.output<typeof Definition>;

const OperatorField = z.enum(OPERATORS, { error: "must be BEST, LATEST or SUM" });

/** The body that makes a leaderboard; the answer fills every default in. */
export const LeaderboardDefinition = z
  .strictObject(
    {
      key: Key,
      name: Name,
      ...fields,
      operator: OperatorField.optional().describe(
        "Needed for CUSTOM; for other sources it follows from the metric",
      ),
      backfill: z
        .boolean()
        .default(false)
        .describe("EVENT boards: count the events that were processed before"),
    },
    NOT_SUPPORTED,
  )
  .transform((definition, context) => {
    const operator = operatorOf(definition.metric) ?? definition.operator;
    const problem = problemOf(definition);
    if (problem) context.addIssue({ code: "custom", path: [problem.field], message: problem.message });
    return problem || !operator ? z.NEVER : { ...definition, operator };
  });
export type LeaderboardDefinition = z.output<typeof LeaderboardDefinition>;

type Problem = { field: string; message: string };
type Input = { metric: Metric; operator?: Operator | undefined; scoreDecimals: number; backfill: boolean };

const problemOf = ({ metric, operator, scoreDecimals, backfill }: Input): Problem | undefined => {
  const derived = operatorOf(metric);
  if (!derived && !operator) return { field: "operator", message: "CUSTOM boards need BEST, LATEST or SUM" };
  if (derived && operator && operator !== derived) {
    return { field: "operator", message: `this metric is ${derived}; leave operator out or say ${derived}` };
  }
  if (metric.source === "XP" && scoreDecimals !== 0)
    return { field: "scoreDecimals", message: "XP is whole" };
  if (metric.source !== "EVENT" && backfill) {
    return { field: "backfill", message: "only for EVENT boards; XP boards start with every player's XP" };
  }
  return undefined;
};

const AGGREGATE_OPERATOR: Record<Aggregate, Operator> = {
  count: "SUM",
  sum: "SUM",
  max: "BEST",
  min: "BEST",
  latest: "LATEST",
};

/** The operator that follows from a metric; undefined for CUSTOM. */
export const operatorOf = (metric: Metric): Operator | undefined => {
  if (metric.source === "CUSTOM") return undefined;
  return metric.source === "XP" ? "SUM" : AGGREGATE_OPERATOR[metric.aggregate];
};

/** What may change later. What scores mean stays: another meaning is another leaderboard. */
export const LeaderboardPatch = z.strictObject(
  {
    name: Name.optional(),
    description: Description.nullable().optional(),
    ties: TiesField.optional(),
    displayLimit: DisplayLimit.nullable().optional(),
    version: z.int().optional().describe("The version that was read: another one answers 409"),
  },
  unknownFields("cannot change; make another leaderboard"),
);
export type LeaderboardPatch = z.output<typeof LeaderboardPatch>;
