import { z } from "zod";
import { CALENDAR_INTERVALS } from "../../domain/analytics/range.ts";
import {
  COHORT_METRICS,
  type CohortQuestion,
  PERIODS_MAX,
  readCohorts,
  SEGMENTATIONS,
} from "../../domain/analytics/cohorts.ts";
import { readMetric, readPropertyOf } from "../../domain/analytics/trend-query.ts";
import { invalid } from "../../domain/kernel/errors.ts";

import {
  answerQuestion,
  BreakdownLimitQuery,
  CohortNumber,
  EnvelopeBody,
  PlayersLink,
  playersLink,
  PropertyPath,
  question,
  QuestionQuery,
} from "./analytics-fields.ts";
import { Flag } from "./bodies.ts";

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

const CohortsBody = EnvelopeBody.extend({
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
