import { METRIC_NAMES } from "../../domain/analytics/measure-buckets.ts";
import { z } from "zod";
import {
  AGAINST,
  EXPERIMENT_METRICS_MAX,
  POPULATIONS,
  readExperiment,
  readGroups,
} from "../../domain/analytics/experiments/experiment.ts";
import { readMetrics } from "../../domain/analytics/trend-query.ts";

import {
  answerQuestion,
  ExperimentNumber,
  metricList,
  PlayersLink,
  playersLink,
  question,
  QuestionQuery,
} from "./analytics-fields.ts";
import { Envelope } from "../../domain/analytics/ask.ts";

const GroupBody = z.object({
  players: z.int().meta({ description: "Of whom the value is" }),
  value: z.number().nullable().meta({ description: "The share or the mean; null of nobody" }),
  deviation: z.number().nullable().meta({ description: "Of means: the standard deviation" }),
});

const ExperimentBody = Envelope.extend({
  ruleId: z.uuid(),
  ruleKey: z.string(),
  version: z.int().meta({ description: "The published one, whose groups these are" }),
  percent: z.number(),
  holdoutPercent: z.number(),
  against: z.enum(AGAINST),
  population: z.enum(POPULATIONS),
  players: PlayersLink,
  treated: z.int().meta({ description: "Players to whom the rule applies" }),
  control: z.int().meta({ description: "Players with whom they are compared" }),
  metrics: z.array(
    z
      .object({
        metric: z.string(),
        kind: z.enum(["share", "mean"]),
        method: z.enum(["newcombe", "welch"]).meta({
          description:
            "newcombe: hybrid score interval (Statistics in Medicine 17, 1998); welch: t interval " +
            "(Biometrika 34, 1947)",
        }),
        treated: GroupBody,
        control: GroupBody,
        difference: z
          .object({ value: z.number(), low: z.number(), high: z.number(), confidence: z.number() })
          .nullable()
          .meta({
            description: "Treated minus control, with its 95 % interval; null where a group is too small",
          }),
      })
      .meta({ id: "AnalyticsComparedMetric" }),
  ),
  notes: z.array(z.string()).meta({ description: "Caveats" }),
}).meta({ id: "AnalyticsExperiment" });

/** Which players are compared. */
const ComparedFields = {
  against: z.enum(AGAINST).optional().meta({
    description:
      "holdout: those held out; excluded: those whom the rollout leaves out. Default: a holdout, if any",
  }),
  population: z.enum(POPULATIONS).default("all").meta({
    description: "all: players with an event before the end of the range; new: those new in it",
  }),
};

const RuleRef = z.string().max(64).meta({ description: "The UUID or the key of the rule" });

/** Of which experiment players are listed. */
export const ExperimentListQuery = QuestionQuery.extend({ ruleId: RuleRef, ...ComparedFields });

const metric = metricList(EXPERIMENT_METRICS_MAX).meta({
  description: "Metrics as trends have them, by comma",
  "x-suggest": METRIC_NAMES,
});

/** An experiment with the rule among the parameters: of a file. */
export const ExperimentQuery = ExperimentListQuery.extend({ metric });

export const analyticsExperimentRoutes = [
  question.get("/analytics/experiments/{ruleId}", "getAnalyticsExperiment", {
    isRevalidated: true,
    summary: "Compare the players who have a rule with those who do not",
    description:
      "For rules with a rollout or a holdout: both groups by metrics of single players, with their " +
      "difference and its 95 % interval. Groups are those of the published version, whether a player met " +
      "the rule or not.",
    params: z.object({ ruleId: RuleRef }),
    query: QuestionQuery.extend({
      metric,
      ...ComparedFields,
    }),
    response: ExperimentBody,
    prepare: (app, { projectId, params, query }) =>
      app.transact((work) => readGroups(work, projectId, { ruleRef: params.ruleId, against: query.against })),
    outside: (app, { projectId, query, prepared: groups }) => {
      const metrics = readMetrics(query.metric);
      return answerQuestion(
        app,
        { id: "experiment", projectId, query, fields: groups },
        async (work, asked) => ({
          ...playersLink("experiments", { ruleId: true, ...ExperimentNumber.shape }),
          ...(await readExperiment(work, asked, { groups, metrics, population: query.population })),
        }),
      );
    },
  }),
];
