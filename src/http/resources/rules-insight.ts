import { z } from "zod";
import { EventTrace, eventTraceFields } from "../../domain/evaluation/trace/trace.ts";
import {
  Catalogue,
  Execution,
  EXECUTION_MODES,
  getCatalogue,
  listExecutions,
} from "../../domain/rules/insight/execution-list.ts";
import { GRAPH_EDGES_MAX, graphOfLinked, loadGraph, RuleGraph } from "../../domain/economy/loops/graph.ts";
import {
  Lift,
  LIFT_DAYS_MAX,
  reportLift,
  reportStats,
  RuleStatsReport,
  STATS_DAYS_MAX,
  STATS_INTERVALS,
} from "../../domain/rules/insight/lift.ts";
import { actorOf, BUILDERS, tenantOf } from "../../domain/kernel/caller.ts";
import { ProjectJob, queueJob } from "../../domain/long-work/project-jobs.ts";
import { audit } from "../../domain/accounts/audit/audit.ts";
import { backtest, backtestParams, BacktestRequest } from "../../domain/rules/insight/backtest.ts";
import { getTrace, readSimulation, simulate, Simulation } from "../../domain/rules/insight/simulate.ts";
import { validateRule, Validation } from "../../domain/rules/lifecycle/validate.ts";
import { group } from "../route.ts";
import { JsonObject, manageRules, readRules, RULE_EXAMPLE } from "./rules.ts";
import { AfterId, cursorBody, Flag, Span } from "./bodies.ts";

const build = group({ tag: "Rules", access: { scope: "rules:read", roles: BUILDERS }, project: "caller" });

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
    response: Validation,
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
    response: RuleGraph,
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
    response: Catalogue,
    outside: async () => getCatalogue(),
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
    response: cursorBody(Execution, z.uuid()),
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
    response: RuleStatsReport,
    run: (work, { projectId, params, query }) => reportStats(work, projectId, params.ruleId, query),
  }),
  readRules.get("/rules/{ruleId}/lift", "getRuleLift", {
    summary: "Compare players whom a rule met with those held back",
    description:
      "For rules with `rollout.holdoutPercent`. Default: the last 30 days; at most " +
      `${LIFT_DAYS_MAX}. Read \`notes\`, and the interval of the difference: one that contains 0 ` +
      "proves nothing.",
    query: z.object(Span.shape),
    response: Lift,
    run: (work, { projectId, params, query }) => reportLift(work, projectId, params.ruleId, query),
  }),
];
