import { z } from "zod";
import { EventTrace, eventTraceFields } from "../../domain/evaluation/trace/trace.ts";
import {
  EXECUTION_MODES,
  getCatalogue,
  listExecutions,
  VALUE_TYPES,
} from "../../domain/rules/insight/execution-list.ts";
import { GRAPH_EDGES_MAX, graphOfLinked, loadGraph } from "../../domain/economy/loops/graph.ts";
import {
  LIFT_DAYS_MAX,
  reportLift,
  reportStats,
  STATS_DAYS_MAX,
  STATS_INTERVALS,
} from "../../domain/rules/insight/lift.ts";
import { RULE_STATUSES } from "../../domain/evaluation/running/outcome.ts";
import { actorOf, BUILDERS, tenantOf } from "../../domain/kernel/caller.ts";
import { Metric } from "../../domain/evaluation/metrics/compile.ts";
import { ProjectJob, queueJob } from "../../domain/long-work/project-jobs.ts";
import { audit } from "../../domain/accounts/audit/audit.ts";
import { backtest, backtestParams, BacktestRequest } from "../../domain/rules/insight/backtest.ts";
import { getTrace, readSimulation, simulate, Simulation } from "../../domain/rules/insight/simulate.ts";
import { validateRule } from "../../domain/rules/lifecycle/validate.ts";
import { group } from "../route.ts";
import { Histogram, JsonObject, manageRules, Problem, readRules, RULE_EXAMPLE } from "./rules.ts";
import { AfterId, cursorBody, Flag, Span } from "./bodies.ts";

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

const build = group({ tag: "Rules", access: { scope: "rules:read", roles: BUILDERS }, project: "caller" });

const keys = z.array(z.string());

const ValidationBody = z
  .object({
    valid: z.boolean().meta({ description: "It could be saved; see `warnings` for publishing" }),
    errors: z.array(Problem),
    warnings: z.array(
      Problem.extend({
        blocksPublish: z.boolean().meta({ description: "It can be saved, and not be published" }),
      }),
    ),
    needs: z
      .object({
        metrics: z.array(Metric),
        currencies: keys,
        streaks: keys,
        badges: keys,
        leaderboards: keys,
        segments: keys,
        rewards: keys,
        quests: keys,
        adventures: keys,
      })
      .nullable()
      .meta({ description: "Everything that it reads and changes, by key; null while there are errors" }),
    estimatedCost: z
      .object({
        conditions: z.int(),
        actions: z.int(),
        counters: z.int().meta({ description: "Kept for each player; equal ones of other rules are shared" }),
        sharedCounters: z.int().meta({
          description: "Over all players: events of different players wait for one another",
        }),
        isIndexed: z.boolean().meta({
          description: "A property decides at once which events it can match; the others cost nothing",
        }),
        level: z.enum(["LOW", "MEDIUM", "HIGH"]),
      })
      .nullable(),
  })
  .meta({ id: "RuleValidation" });

const SIMULATION_EXAMPLE = {
  event: {
    eventType: "lesson.completed",
    properties: { score: 80 },
    timestamp: "2026-01-10T18:00:00Z",
  },
  player: { snapshot: { xp: 220, currencies: { coins: 5 }, tags: ["beta"] } },
  include: { published: true, drafts: ["weekend-double"] },
  overrides: { limits: "IGNORE" },
};

export const ruleInsightRoutes = [
  build.post("/rules/validate", "validateRule", {
    summary: "Check a rule without saving it",
    description:
      "Returns all problems of the document, each at its place, what it names that the project does not " +
      "have, and circles in which rules would set one another off. Answers 200 for an invalid rule too.",
    body: JsonObject.meta({ example: RULE_EXAMPLE }),
    response: ValidationBody,
    run: (work, { projectId, body }) => validateRule(work, projectId, body),
  }),
  build.post("/rules/simulate", "simulateRules", {
    summary: "Simulate an event",
    description:
      "Writes nothing. Every condition of every rule that listens to the event is shown with what it saw, " +
      "the events that it would bring about likewise, and what of the player would change. The player is " +
      "one of the project's or made up; drafts and inline rules stand in for what is published under their " +
      "key. The properties, attributes and time given have the bounds of live ones, and so has what is " +
      "shown: beyond 64 KiB it loses conditions and effects, and says `truncated`.",
    body: Simulation.meta({ example: SIMULATION_EXAMPLE }),
    readBody: readSimulation,
    response: z
      .object({
        ...eventTraceFields,
        playerExists: z.boolean().meta({
          description: "false: the player was made up, from the snapshot or because nobody has that id",
        }),
        resultingState: z
          .object({ changed: z.array(z.string()), before: JsonObject, after: JsonObject })
          .meta({ description: "Changes of the player's state" }),
      })
      .meta({ id: "SimulatedEvent" }),
    run: (work, { projectId, body }) => simulate(work, projectId, body),
  }),
  manageRules.post("/rules/{ruleId}/backtest", "backtestRule", {
    summary: "Replay past events against a rule",
    description:
      "A job: each player's stored events of the span against this rule alone, without effect. Its result " +
      "(GET /jobs/{jobId}/result) contains events, firings, players reached, cost for each day, limits " +
      "that were hit, the conditions that failed most, and up to 20 traces.",
    body: BacktestRequest.meta({
      example: { from: "2026-01-01T00:00:00Z", to: "2026-02-01T00:00:00Z", sampleRate: 0.1 },
    }),
    status: 201,
    response: ProjectJob,
    run: async (work, { caller, projectId, params, body }) => {
      const given = await backtestParams(work, projectId, params.ruleId, body);
      const createdBy = actorOf(caller);
      const job = await queueJob(work, projectId, { kind: backtest, params: given, createdBy });
      const target = { type: "rule", id: given.ruleId };
      const data = { projectId, key: given.ruleKey, jobId: job.id };
      await audit(work, { action: "rule.backtested", target, tenantId: tenantOf(caller), data });
      return job;
    },
  }),
  readRules.get("/events/{eventId}/trace", "getEventTrace", {
    tag: "Events",
    summary: "Get how an event was evaluated",
    description:
      "Of a sample of events (`settings.traceSampling`), of every event that the loop guard stepped in " +
      "for, and of every event that failed. 404 for others, and once `settings.tracesDays` are over.",
    response: EventTrace,
    run: (work, { projectId, params }) => getTrace(work, projectId, params.eventId),
  }),
  readRules.get("/rules/graph", "getRuleGraph", {
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
  readRules.get("/rules/catalogue", "getRuleCatalogue", {
    summary: "Get the building blocks of rules",
    description:
      "The kinds of conditions, actions and triggers with their JSON Schemas, that of limits, the operators, " +
      "and the events of the service that can trigger a rule. Each field of a schema has a title, a unit " +
      "where it has one, and x-ref where it names something of the project: currency, badge, streak, " +
      "leaderboard, reward, boost, segment, eventType, metric (of the rule), path (of a property of events), " +
      "or entity, which is what the field of that name says. For editors; the same for every project.",
    response: z
      .object({
        conditions: z.array(Item),
        actions: z.array(Item),
        triggers: z.array(Item),
        limits: JsonObject.meta({ description: "JSON Schema of the limits of a rule" }),
        operators: z.array(
          z.object({
            name: z.string(),
            operand: z.enum(["NONE", "RANGE", "LIST", "DURATION", "SCALAR"]),
            isNumeric: z.boolean().meta({ description: "Also for conditions on numbers alone" }),
            valueTypes: z
              .array(z.enum(VALUE_TYPES))
              .meta({ description: "Types of values that it can say something about" }),
          }),
        ),
        listMax: z.int(),
        aggregates: z.array(z.string()),
        eventTypes: z.array(z.string()),
        definitions: JsonObject.meta({ description: "Definitions that `$ref` of the schemas refers to" }),
      })
      .meta({ id: "RuleCatalogue" }),
    outside: async () => {
      const { aggregates, operators, ...catalogue } = getCatalogue();
      const shown = operators.map((one) => ({ ...one, valueTypes: [...one.valueTypes] }));
      return { ...catalogue, operators: shown, aggregates: [...aggregates] };
    },
  }),
  readRules.get("/rules/{ruleId}/executions", "listRuleExecutions", {
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
  readRules.get("/rules/{ruleId}/stats", "getRuleStats", {
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
  readRules.get("/rules/{ruleId}/lift", "getRuleLift", {
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
