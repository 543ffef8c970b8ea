import { z } from "zod";
import { BUILDERS, DESIGNERS, EVERY_ROLE } from "../../domain/access.ts";
import { actorOf } from "../../domain/caller.ts";
import { pageBody, pageOf, PageQuery } from "../../domain/paging.ts";
import { RuleDocument, RulePatch, StoredRule } from "../../domain/rules/document.ts";
import { archiveRule, pauseRule, publishRule, resumeRule } from "../../domain/rules/publishing.ts";
import { RULE_STATUSES } from "../../domain/rules/rule.ts";
import { createRule, getRule, listRules, patchRule } from "../../domain/rules/rules.ts";
import { simulate, Simulation } from "../../domain/rules/simulate.ts";
import { route } from "../route.ts";

const RuleParams = z.object({
  ruleId: z.string().max(64).meta({ description: "The rule's UUID or its key" }),
});

const RuleBody = z
  .object({
    id: z.uuid(),
    key: z.string(),
    name: z.string(),
    description: z.string().nullable(),
    status: z.enum(RULE_STATUSES),
    pauseReason: z.string().nullable(),
    tags: z.array(z.string()),
    draft: StoredRule.meta({ description: "What is edited" }),
    draftVersion: z.int(),
    published: StoredRule.nullable().meta({ description: "What runs while the rule is ACTIVE" }),
    publishedVersion: z.int().nullable(),
    createdBy: z.string(),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "Rule" });

const ListRulesQuery = PageQuery.extend({
  status: z.enum(RULE_STATUSES).optional().meta({ description: "Default: all but ARCHIVED" }),
  eventType: z
    .string()
    .max(100)
    .optional()
    .meta({ description: "Rules that listen to it, by name or by pattern" }),
  tag: z.string().max(64).optional(),
  search: z.string().min(1).max(100).optional().meta({ description: "Part of the name or key" }),
});

const PublishBody = z.strictObject({ changeNote: z.string().max(500).optional() });

type Trace = {
  path: string;
  type: string;
  op?: string | undefined;
  expected?: unknown;
  actual?: unknown;
  pass: boolean;
  children?: Trace[] | undefined;
};
const TraceNodeBody: z.ZodType<Trace> = z
  .object({
    path: z.string().meta({ example: "conditions.all[0]" }),
    type: z.string(),
    op: z.string().optional(),
    expected: z.unknown().optional(),
    actual: z.unknown().optional(),
    pass: z.boolean(),
    get children() {
      return z.array(TraceNodeBody).optional();
    },
  })
  .meta({ id: "TraceNode" });

const JsonObject = z.record(z.string(), z.unknown());

const RuleTraceBody = z.object({
  ruleId: z.uuid(),
  ruleKey: z.string(),
  version: z.int().meta({ description: "Of what ran: published or draft; 0 for an inline rule" }),
  fired: z.boolean(),
  reason: z.string().meta({ example: "CONDITIONS_NOT_MET" }),
  detail: z.string().optional(),
  nextEligibleAt: z.iso.datetime().optional(),
  stoppedBy: z.string().optional(),
  conditions: TraceNodeBody,
  effects: z.array(z.object({ type: z.string(), data: z.unknown(), cause: JsonObject })),
  warnings: z.array(z.string()),
});

const EventTraceBody = z
  .object({
    eventId: z.null(),
    eventType: z.string(),
    player: z.object({ playerId: z.uuid(), externalUserId: z.string() }),
    evaluatedAt: z.iso.datetime(),
    rulesIndexed: z.int(),
    rules: z.array(RuleTraceBody),
    leaderboards: z.array(z.object({ key: z.string(), before: z.number().nullable(), after: z.number() })),
    warnings: z.array(z.string()),
    truncated: z.boolean(),
    resultingState: z.object({ changed: z.array(z.string()), before: JsonObject, after: JsonObject }),
  })
  .meta({ id: "EventTrace" });

/** What the operations share. */
const read = { tag: "Rules", access: { scope: "rules:read", roles: EVERY_ROLE }, project: "caller" } as const;
const write = {
  tag: "Rules",
  access: { scope: "rules:manage", roles: DESIGNERS },
  project: "caller",
} as const;

export const ruleRoutes = [
  route({
    ...read,
    method: "get",
    path: "/rules",
    id: "listRules",
    summary: "List rules",
    description: "Newest first.",
    query: ListRulesQuery,
    response: pageBody(RuleBody),
    run: (app, { projectId, query }) =>
      app.transact(async (work) => {
        const { rules, total } = await listRules(work, projectId, query);
        return pageOf(rules, total, query);
      }),
  }),
  route({
    ...write,
    method: "post",
    path: "/rules",
    id: "createRule",
    summary: "Create a rule",
    description: "As a DRAFT: it runs once it is published.",
    body: RuleDocument,
    status: 201,
    response: RuleBody,
    run: (app, { caller, projectId, body }) =>
      app.transact((work) => createRule(work, projectId, body, actorOf(caller))),
  }),
  route({
    tag: "Rules",
    access: { scope: "rules:read", roles: BUILDERS },
    project: "caller",
    method: "post",
    path: "/rules/simulate",
    id: "simulateRules",
    summary: "Show what an event would do",
    description:
      "Writes nothing. Every condition of every rule that listens to the event is shown with what it saw.",
    body: Simulation,
    response: EventTraceBody,
    run: (app, { projectId, body }) => app.transact((work) => simulate(work, projectId, body)),
  }),
  route({
    ...read,
    method: "get",
    path: "/rules/{ruleId}",
    id: "getRule",
    summary: "Get a rule",
    params: RuleParams,
    response: RuleBody,
    run: (app, { projectId, params }) => app.transact((work) => getRule(work, projectId, params.ruleId)),
  }),
  route({
    ...write,
    method: "patch",
    path: "/rules/{ruleId}",
    id: "updateRule",
    summary: "Edit a rule's draft",
    description:
      "Send the `draftVersion` that you have read; a stale one is 409 with the reason VERSION_CONFLICT.",
    params: RuleParams,
    body: RulePatch,
    response: RuleBody,
    run: (app, { projectId, params, body }) =>
      app.transact((work) => patchRule(work, projectId, params.ruleId, body)),
  }),
  route({
    ...write,
    method: "delete",
    path: "/rules/{ruleId}",
    id: "archiveRule",
    summary: "Archive a rule",
    description: "For good. The rule keeps its key and its versions.",
    params: RuleParams,
    response: RuleBody,
    run: (app, { projectId, params }) => app.transact((work) => archiveRule(work, projectId, params.ruleId)),
  }),
  route({
    ...write,
    method: "post",
    path: "/rules/{ruleId}/publish",
    id: "publishRule",
    summary: "Publish a rule's draft",
    description: "The draft becomes the version that runs, from the next events on.",
    params: RuleParams,
    body: PublishBody.optional(),
    response: RuleBody,
    run: (app, { caller, projectId, params, body }) =>
      app.transact((work) =>
        publishRule(work, projectId, params.ruleId, { ...body, publishedBy: actorOf(caller) }),
      ),
  }),
  route({
    ...write,
    method: "post",
    path: "/rules/{ruleId}/pause",
    id: "pauseRule",
    summary: "Pause a rule",
    params: RuleParams,
    response: RuleBody,
    run: (app, { projectId, params }) => app.transact((work) => pauseRule(work, projectId, params.ruleId)),
  }),
  route({
    ...write,
    method: "post",
    path: "/rules/{ruleId}/resume",
    id: "resumeRule",
    summary: "Resume a paused rule",
    params: RuleParams,
    response: RuleBody,
    run: (app, { projectId, params }) => app.transact((work) => resumeRule(work, projectId, params.ruleId)),
  }),
];
