import { z } from "zod";
import { Filter } from "../metrics/filter.ts";
import { EventPattern, Key, Path } from "../language/syntax.ts";
import { NOT_SUPPORTED } from "./unknown-fields.ts";

export const EVENT_TYPES_MAX = 20;

export const OPERATORS = ["BEST", "LATEST", "SUM", "DECR"] as const;
export type Operator = (typeof OPERATORS)[number];
export const AGGREGATES = ["count", "sum", "max", "min", "latest"] as const;
export type Aggregate = (typeof AGGREGATES)[number];

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
  .superRefine(({ aggregate, property }, context) => {
    if (aggregate === "count" && property !== undefined) {
      context.addIssue({ code: "custom", path: ["property"], message: "count takes no property" });
    }
    if (aggregate !== "count" && property === undefined) {
      context.addIssue({ code: "custom", path: ["property"], message: `${aggregate} needs a property` });
    }
  });

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
