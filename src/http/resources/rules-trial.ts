import { z } from "zod";
import { actorOf, BUILDERS, tenantOf } from "../../domain/kernel/caller.ts";
import { Metric } from "../../domain/evaluation/metrics/compile.ts";
import { queueJob } from "../../domain/long-work/project-jobs.ts";
import { audit } from "../../domain/accounts/audit/audit.ts";
import { backtest, backtestParams, BacktestRequest } from "../../domain/rules/insight/backtest.ts";
import {
  getTrace,
  readSimulation,
  simulate,
  type SimulatedEvent,
  Simulation,
} from "../../domain/rules/insight/simulate.ts";
import { validateRule } from "../../domain/rules/lifecycle/validate.ts";
import { group } from "../route.ts";
import { JobBody } from "./project-jobs.ts";
import { JsonObject, manageRules, Problem, readRules, RULE_EXAMPLE } from "./rules.ts";
import { EventTraceBody, eventTraceFields } from "./rules-insight.ts";

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

export const ruleTrialRoutes = [
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
      .meta({ id: "SimulatedEvent" }) as unknown as z.ZodType<SimulatedEvent>,
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
    response: JobBody,
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
    response: EventTraceBody,
    run: (work, { projectId, params }) => getTrace(work, projectId, params.eventId),
  }),
];
