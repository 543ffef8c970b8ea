import { z } from "zod";
import { actorOf, DESIGNERS, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { RuleDocument, RulePatch, StoredRule } from "../../domain/evaluation/language/document.ts";
import { RULE_STATUSES } from "../../domain/evaluation/running/outcome.ts";
import { group } from "../route.ts";
import { pageBody, PageQuery, sortsOf } from "../../domain/kernel/paging.ts";
import { queueJob } from "../../domain/long-work/project-jobs.ts";
import { backfill } from "../../domain/rules/insight/recount-players.ts";
import { duplicateRule, ORDER_MAX, orderRules } from "../../domain/rules/lifecycle/order.ts";
import {
  archiveRule,
  listVersions,
  pauseRule,
  PUBLISH_MODES,
  publishRule,
  resumeRule,
  rollbackRule,
  shadowRule,
  ShownVersion,
  VERSION_ORDERS,
} from "../../domain/rules/lifecycle/publishing.ts";
import { createRule, getRule, listRules, patchRule, RULE_ORDERS } from "../../domain/rules/rules.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { Order, paged, pageReply } from "./bodies.ts";

/** Properties shared by operations on rules. */

export const readRules = group({
  tag: "Rules",
  access: { scope: "rules:read", roles: EVERY_ROLE },
  project: "caller",
});
export const manageRules = group({
  tag: "Rules",
  access: { scope: "rules:manage", roles: DESIGNERS },
  project: "caller",
});

/** The example rule of the documentation. */
export const RULE_EXAMPLE = {
  key: "weekend-double",
  name: "Weekend lessons pay double",
  tags: ["xp"],
  priority: 50,
  triggers: [{ kind: "EVENT", eventTypes: ["lesson.completed", "quiz.*"] }],
  conditions: {
    all: [
      { type: "event_property", path: "score", op: "gte", value: 60 },
      { type: "time_window", daysOfWeek: [6, 7], timezone: "PLAYER" },
      { none: [{ type: "player_property", field: "tags", op: "contains", value: "staff" }] },
    ],
  },
  actions: [
    {
      id: "xp",
      type: "grant_xp",
      amount: { op: "mul", args: [{ ref: "event.properties.score" }, 2] },
    },
  ],
  limits: { perPlayer: [{ max: 10, window: "DAY" }], cooldownSeconds: 30 },
};

const RuleBody = z
  .object({
    id: z.uuid(),
    key: z.string(),
    name: z.string(),
    description: z.string().nullable(),
    status: z.enum(RULE_STATUSES).meta({
      description: "SHADOW: evaluated and recorded, but its effects are not applied",
    }),
    pauseReason: z.string().nullable().meta({
      description: "Why the engine paused it: LOOP_GUARD, BUDGET, STEPS or UNFIT; null when somebody did",
    }),
    tags: z.array(z.string()),
    draft: StoredRule.meta({ description: "The edited draft" }),
    draftVersion: z.int(),
    published: StoredRule.nullable().meta({
      description: "The version that runs while the rule is ACTIVE or in SHADOW",
    }),
    publishedVersion: z.int().nullable(),
    createdBy: z.string().meta({ example: "user:0197c2a0-0000-7000-8000-000000000000" }),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "Rule" });

/** A published rule, with warnings about possible mistakes. */
const PublishedRuleBody = RuleBody.extend({
  warnings: z.array(z.string()).meta({
    description: "Circles in which rules set one another off, and that a limit of theirs ends",
    example: ["can set itself off: weekend-double → player.xp_granted → bonus → lesson.completed"],
  }),
}).meta({ id: "PublishedRule" });

export const JsonObject = z.record(z.string(), z.unknown());

const ListRulesQuery = PageQuery.extend({
  status: z.enum(RULE_STATUSES).optional().meta({ description: "Default: all but ARCHIVED" }),
  eventType: z
    .string()
    .max(100)
    .optional()
    .meta({ description: "Rules that listen to it, by name or by pattern", example: "lesson.completed" }),
  tag: z.string().max(64).optional(),
  search: z.string().min(1).max(100).optional().meta({ description: "Part of the name or key" }),
  sort: z.enum(sortsOf(RULE_ORDERS)).default("createdAt").meta({ description: "`priority` is the draft's" }),
  order: Order,
});

const PublishBody = z.strictObject({
  changeNote: z.string().max(500).optional().meta({ example: "Twice as much on weekends" }),
  mode: z
    .enum(PUBLISH_MODES)
    .optional()
    .meta({ description: "Default ACTIVE. SHADOW: evaluated and recorded, without effect" }),
  backfill: z
    .boolean()
    .optional()
    .meta({
      description:
        "Counts what players did before: a job makes the counters of the rule's conditions anew. Until it " +
        "is done they know of new events only",
    }),
});

export const ruleRoutes = [
  readRules.get("/rules", "listRules", {
    isRevalidated: true,
    summary: "List rules",
    description: "Newest first, unless sorted otherwise.",
    query: ListRulesQuery,
    response: pageBody(RuleBody),
    run: async (work, { projectId, query }) =>
      pageReply(await listRules(work, projectId, query), "rules", query),
  }),
  manageRules.post("/rules", "createRule", {
    summary: "Create a rule",
    description:
      "As a DRAFT: it runs once it is published. POST /rules/validate checks one without saving it.",
    body: RuleDocument.meta({ example: RULE_EXAMPLE }),
    status: 201,
    response: RuleBody,
    run: (work, { caller, projectId, body }) => createRule(work, projectId, body, actorOf(caller)),
  }),
  manageRules.put("/rules/order", "orderRules", {
    summary: "Put rules in order",
    description:
      "The first one runs first. Priorities are written anew in steps of 10, in drafts and, as a further " +
      "version, in what is published; rules that are not named keep theirs. All or nothing.",
    body: z.strictObject({
      ids: z
        .array(z.string().max(64))
        .min(1)
        .max(ORDER_MAX)
        .meta({ description: "UUIDs or keys", example: ["weekend-double", "first-lesson"] }),
    }),
    example: { ids: ["weekend-double", "first-lesson"] },
    response: z.object({ data: z.array(RuleBody) }),
    run: async (work, { projectId, body }) => ({ data: await orderRules(work, projectId, body.ids) }),
  }),
  readRules.get("/rules/{ruleId}", "getRule", {
    isRevalidated: true,
    summary: "Get a rule",
    response: RuleBody,
    run: (work, { projectId, params }) => getRule(work, projectId, params.ruleId),
  }),
  manageRules.patch("/rules/{ruleId}", "updateRule", {
    summary: "Edit a rule's draft",
    description:
      "Send the `draftVersion` that you have read; a stale one is 409 with the reason VERSION_CONFLICT.",
    body: RulePatch,
    example: { draftVersion: 1, name: "Weekend lessons pay triple", description: null },
    response: RuleBody,
    run: (work, { projectId, params, body }) => patchRule(work, projectId, params.ruleId, body),
  }),
  manageRules.delete("/rules/{ruleId}", "archiveRule", {
    summary: "Archive a rule",
    description: "For good. The rule keeps its key and its versions.",
    response: RuleBody,
    run: (work, { projectId, params }) => archiveRule(work, projectId, params.ruleId),
  }),
  manageRules.post("/rules/{ruleId}/publish", "publishRule", {
    summary: "Publish a rule's draft",
    description:
      "The draft becomes the version that runs, from the next events on. Refused (400) when it names " +
      "something that the project does not have, and, with the reason RULE_LOOP, when rules would set one " +
      "another off without end.",
    body: PublishBody.optional(),
    example: { changeNote: "Twice as much on weekends" },
    response: PublishedRuleBody.extend({
      backfillJobId: z.uuid().nullable().meta({ description: "See GET /jobs/{jobId}" }),
    }),
    run: async (work, { caller, projectId, params, body }) => {
      const publishedBy = actorOf(caller);
      const rule = await publishRule(work, projectId, params.ruleId, { ...body, publishedBy });
      if (body?.backfill !== true) return { ...rule, backfillJobId: null };
      const job = { kind: backfill, params: { ruleId: rule.id }, createdBy: publishedBy };
      return { ...rule, backfillJobId: (await queueJob(work, projectId, job)).id };
    },
  }),
  manageRules.post("/rules/{ruleId}/pause", "pauseRule", {
    summary: "Pause a rule",
    description: "What it has counted stays.",
    response: RuleBody,
    run: (work, { projectId, params }) => pauseRule(work, projectId, params.ruleId),
  }),
  manageRules.post("/rules/{ruleId}/resume", "resumeRule", {
    summary: "Let a paused or SHADOW rule act again",
    description: "As it was published; checked as on publishing, since the project may have changed.",
    response: PublishedRuleBody,
    run: (work, { projectId, params }) => resumeRule(work, projectId, params.ruleId),
  }),
  manageRules.post("/rules/{ruleId}/shadow", "shadowRule", {
    summary: "Put a rule into SHADOW",
    description:
      "It is evaluated and its simulated effects are recorded (GET …/executions), but none is applied.",
    response: PublishedRuleBody,
    run: (work, { projectId, params }) => shadowRule(work, projectId, params.ruleId),
  }),
  manageRules.post("/rules/{ruleId}/duplicate", "duplicateRule", {
    summary: "Copy a rule's draft into a new rule",
    description: "As a DRAFT, under the rule's key with `-copy` unless you name another.",
    body: z
      .strictObject({ key: Key.optional(), name: z.string().min(2).max(255).optional() })
      .meta({ example: { key: "weekend-triple" } })
      .optional(),
    status: 201,
    response: RuleBody,
    run: (work, { caller, projectId, params, body }) =>
      duplicateRule(work, projectId, params.ruleId, { ...body, createdBy: actorOf(caller) }),
  }),
  readRules.get("/rules/{ruleId}/versions", "listRuleVersions", {
    summary: "List a rule's published versions, newest first",
    ...paged(ShownVersion, VERSION_ORDERS, {}),
    run: async (work, { projectId, params, query }) =>
      pageReply(await listVersions(work, projectId, params.ruleId, query), "versions", query),
  }),
  manageRules.post("/rules/{ruleId}/rollback", "rollbackRule", {
    summary: "Publish an older version of a rule again",
    description:
      "As a new version. A rule in SHADOW stays there, any other becomes ACTIVE. The draft becomes that " +
      "version too, unless it has edits that were never published.",
    body: z.strictObject({ version: z.int().min(1).meta({ example: 1 }) }),
    example: { version: 1 },
    response: PublishedRuleBody,
    run: (work, { caller, projectId, params, body }) =>
      rollbackRule(work, projectId, params.ruleId, { ...body, publishedBy: actorOf(caller) }),
  }),
];
