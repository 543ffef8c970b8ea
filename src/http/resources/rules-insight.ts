import { z } from "zod";
import { EXECUTION_MODES, getCatalogue, listExecutions } from "../../domain/rules/insight/execution-list.ts";
import { GRAPH_EDGES_MAX, graphOfLinked, loadGraph } from "../../domain/economy/loops/graph.ts";
import {
  LIFT_DAYS_MAX,
  reportLift,
  reportStats,
  STATS_DAYS_MAX,
  STATS_INTERVALS,
} from "../../domain/rules/insight/lift.ts";
import { RULE_STATUSES } from "../../domain/evaluation/running/rule-status.ts";

import { AfterId, cursorBody, Flag, Span } from "./list-bodies.ts";
import { Histogram, JsonObject, readRules as read } from "./rules-bodies.ts";

const ExecutionBody = z
  .object({
    id: z.uuid(),
    ruleId: z.uuid(),
    ruleVersion: z.int(),
    playerId: z.uuid(),
    externalUserId: z.string().nullable(),
    eventId: z.uuid().meta({ description: "The tracked event; of a change by REST an id of its own" }),
    depth: z.int().meta({ description: "Steps from the tracked event: 0 if it triggered the rule directly" }),
    mode: z.enum(EXECUTION_MODES).meta({ description: "HOLDOUT: the player was held back" }),
    effects: z
      .array(z.object({ type: z.string(), data: JsonObject }))
      .nullable()
      .meta({ description: "Its effects; for SHADOW the simulated ones; null for HOLDOUT" }),
    revertedAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "RuleExecution" });

const StatsBucket = z
  .object({
    from: z.iso.datetime(),
    to: z.iso.datetime(),
    evaluated: z.int().meta({
      description:
        "Events that the rule was tested for; those that an indexed property rules out are not counted",
    }),
    fired: z.int(),
    reasons: Histogram.meta({ example: { MATCHED: 3, CONDITIONS_NOT_MET: 12 } }),
    cost: Histogram.meta({
      description: "Given by the rule, less what it took, by asset",
      example: { xp: 300, "currency:coins": 15 },
    }),
    sampled: z
      .object({
        evaluations: z.int(),
        failingConditions: Histogram.meta({
          description: "The condition because of which it did not match",
          example: { "conditions.all[0]": 9 },
        }),
        p50Micros: z.number().nullable(),
        p99Micros: z.number().nullable().meta({ description: "99 in 100 took at most so long; to a fifth" }),
      })
      .meta({ description: "Of sampled events only, see settings.traceSampling" }),
  })
  .meta({ id: "RuleStatsBucket" });

const LiftGroup = z
  .object({
    players: z.int(),
    activeLater: z.int().meta({ description: "Players who sent another event at least a day later" }),
    activeLaterShare: z.number().nullable(),
    eventsPerPlayer: z.number().nullable().meta({ description: "Sent after, on average" }),
  })
  .meta({ id: "RuleLiftGroup" });

const Item = z.object({
  type: z.string().meta({ example: "event_property" }),
  summary: z.string(),
  available: z.boolean(),
  schema: JsonObject.nullable().meta({ description: "JSON Schema; null: not available yet" }),
});

export const ruleInsightRoutes = [
  read.get("/rules/graph", "getRuleGraph", {
    summary: "Get which rules can set off which",
    description:
      "Of published rules, paused ones included: what each listens to and can cause, also through " +
      `levels, badges, streaks, segments and rewards. At most ${GRAPH_EDGES_MAX} edges; all cycles.`,
    response: z
      .object({
        nodes: z.array(
          z.object({
            ruleId: z.uuid(),
            key: z.string(),
            name: z.string(),
            status: z.enum(RULE_STATUSES),
            listensTo: z.array(z.string()),
            causes: z.array(z.string()),
          }),
        ),
        edges: z.array(z.object({ from: z.uuid(), to: z.uuid(), via: z.array(z.string()) })),
        cycles: z.array(
          z.object({
            rules: z.array(z.object({ ruleId: z.uuid(), key: z.string() })),
            path: z.array(z.string()).meta({ description: "One way round: rules and event types by turns" }),
            isBounded: z.boolean().meta({ description: "A limit, cooldown, budget or stopOnMatch ends it" }),
          }),
        ),
        truncated: z.boolean(),
      })
      .meta({ id: "RuleGraph" }),
    outside: async (app, { projectId }) =>
      graphOfLinked(await app.transact((work) => loadGraph(work, projectId))),
  }),
  read.get("/rules/catalogue", "getRuleCatalogue", {
    summary: "Get the building blocks of rules",
    description:
      "The kinds of conditions and actions with their JSON Schemas, the operators, and the events of the " +
      "service that can trigger a rule. For editors; the same for every project.",
    response: z
      .object({
        conditions: z.array(Item),
        actions: z.array(Item),
        operators: z.array(
          z.object({
            name: z.string(),
            operand: z.enum(["NONE", "RANGE", "LIST", "DURATION", "SCALAR"]),
            isNumeric: z.boolean().meta({ description: "Also for conditions on numbers alone" }),
          }),
        ),
        listMax: z.int(),
        aggregates: z.array(z.string()),
        eventTypes: z.array(z.string()),
        definitions: JsonObject.meta({ description: "Definitions that `$ref` of the schemas refers to" }),
      })
      .meta({ id: "RuleCatalogue" }),
    outside: async () => {
      const { aggregates, ...catalogue } = getCatalogue();
      return { ...catalogue, aggregates: [...aggregates] };
    },
  }),
  read.get("/rules/{ruleId}/executions", "listRuleExecutions", {
    summary: "List when a rule fired, newest first",
    query: AfterId.extend({
      playerId: z.string().max(260).optional().meta({ description: "Id, or `ext:` and the external id" }),
      eventId: z.uuid().optional(),
      mode: z.enum(EXECUTION_MODES).optional(),
      shadow: Flag.meta({ description: "true: mode SHADOW alone; false: mode LIVE alone" }),
      ...Span.shape,
    }),
    response: cursorBody(ExecutionBody, z.uuid()),
    run: async (work, { projectId, params, query: { shadow, ...query } }) => {
      const mode = query.mode ?? (shadow === undefined ? undefined : shadow ? "SHADOW" : "LIVE");
      const found = await listExecutions(work, projectId, params.ruleId, { ...query, mode });
      return {
        data: found.executions,
        pagination: { limit: query.limit, nextCursor: found.nextCursor },
      };
    },
  }),
  read.get("/rules/{ruleId}/stats", "getRuleStats", {
    summary: "Get the statistics of a rule",
    description:
      "Of tracked events, by the hour (UTC) in which they were processed; the last 10 seconds may be " +
      "missing, and stay so if a worker is killed: executions are exact. Default: the last 7 days; at most " +
      `${STATS_DAYS_MAX}. Failing conditions and times are of sampled events.`,
    query: z.object({ ...Span.shape, interval: z.enum(STATS_INTERVALS).default("DAY") }),
    response: z
      .object({
        ruleId: z.uuid(),
        from: z.iso.datetime(),
        to: z.iso.datetime(),
        interval: z.enum(STATS_INTERVALS),
        total: StatsBucket,
        buckets: z.array(StatsBucket).meta({ description: "Those with anything in them, oldest first" }),
      })
      .meta({ id: "RuleStats" }),
    run: (work, { projectId, params, query }) => reportStats(work, projectId, params.ruleId, query),
  }),
  read.get("/rules/{ruleId}/lift", "getRuleLift", {
    summary: "Compare players whom a rule met with those held back",
    description:
      "For rules with `rollout.holdoutPercent`. Default: the last 30 days; at most " +
      `${LIFT_DAYS_MAX}. Read \`notes\`, and the interval of the difference: one that contains 0 ` +
      "proves nothing.",
    query: z.object(Span.shape),
    response: z
      .object({
        ruleId: z.uuid(),
        from: z.iso.datetime(),
        to: z.iso.datetime(),
        treated: LiftGroup,
        holdout: LiftGroup,
        activeLaterDifference: z
          .object({ value: z.number(), low: z.number(), high: z.number() })
          .nullable()
          .meta({ description: "Treated minus holdout, with its 95 % interval" }),
        eventsPerPlayerDifference: z.number().nullable(),
        notes: z.array(z.string()),
      })
      .meta({ id: "RuleLift" }),
    run: (work, { projectId, params, query }) => reportLift(work, projectId, params.ruleId, query),
  }),
];
