import { z } from "zod";
import { actorOf } from "../../domain/kernel/caller.ts";
import { pageBody, pageOf, PageQuery } from "../../domain/kernel/paging.ts";
import { queueJob } from "../../domain/long-work/project-jobs.ts";
import { backfill } from "../../domain/rules/insight/recount-players.ts";
import { RuleDocument, RulePatch, StoredRule } from "../../domain/evaluation/language/document.ts";
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
  VERSION_ORDERS,
} from "../../domain/rules/lifecycle/publishing.ts";
import { RULE_STATUSES } from "../../domain/evaluation/running/rule-status.ts";
import { createRule, getRule, listRules, patchRule, RULE_SORTS } from "../../domain/rules/rules.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";

import { Order, sortedBy } from "./list-bodies.ts";
import {
  manageRules as write,
  PublishedRuleBody,
  readRules as read,
  RULE_EXAMPLE,
  RuleBody,
} from "./rules-bodies.ts";

const ListRulesQuery = PageQuery.extend({
  status: z.enum(RULE_STATUSES).optional().meta({ description: "Default: all but ARCHIVED" }),
  eventType: z
    .string()
    .max(100)
    .optional()
    .meta({ description: "Rules that listen to it, by name or by pattern", example: "lesson.completed" }),
  tag: z.string().max(64).optional(),
  search: z.string().min(1).max(100).optional().meta({ description: "Part of the name or key" }),
  sort: z.enum(RULE_SORTS).default("createdAt").meta({ description: "`priority` is the draft's" }),
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

const VersionBody = z
  .object({
    version: z.int(),
    definition: StoredRule,
    changeNote: z.string().nullable(),
    publishedBy: z.string(),
    publishedAt: z.iso.datetime(),
    isPublished: z.boolean().meta({ description: "The one that runs, or would" }),
  })
  .meta({ id: "RuleVersion" });

export const ruleRoutes = [
  read.get("/rules", "listRules", {
    isRevalidated: true,
    summary: "List rules",
    description: "Newest first, unless sorted otherwise.",
    query: ListRulesQuery,
    response: pageBody(RuleBody),
    run: async (work, { projectId, query }) => {
      const { rules, total } = await listRules(work, projectId, query);
      return pageOf(rules, total, query);
    },
  }),
  write.post("/rules", "createRule", {
    summary: "Create a rule",
    description:
      "As a DRAFT: it runs once it is published. POST /rules/validate checks one without saving it.",
    body: RuleDocument.meta({ example: RULE_EXAMPLE }),
    status: 201,
    response: RuleBody,
    run: (work, { caller, projectId, body }) => createRule(work, projectId, body, actorOf(caller)),
  }),
  write.put("/rules/order", "orderRules", {
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
  read.get("/rules/{ruleId}", "getRule", {
    isRevalidated: true,
    summary: "Get a rule",
    response: RuleBody,
    run: (work, { projectId, params }) => getRule(work, projectId, params.ruleId),
  }),
  write.patch("/rules/{ruleId}", "updateRule", {
    summary: "Edit a rule's draft",
    description:
      "Send the `draftVersion` that you have read; a stale one is 409 with the reason VERSION_CONFLICT.",
    body: RulePatch,
    example: { draftVersion: 1, name: "Weekend lessons pay triple", description: null },
    response: RuleBody,
    run: (work, { projectId, params, body }) => patchRule(work, projectId, params.ruleId, body),
  }),
  write.delete("/rules/{ruleId}", "archiveRule", {
    summary: "Archive a rule",
    description: "For good. The rule keeps its key and its versions.",
    response: RuleBody,
    run: (work, { projectId, params }) => archiveRule(work, projectId, params.ruleId),
  }),
  write.post("/rules/{ruleId}/publish", "publishRule", {
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
  write.post("/rules/{ruleId}/pause", "pauseRule", {
    summary: "Pause a rule",
    description: "What it has counted stays.",
    response: RuleBody,
    run: (work, { projectId, params }) => pauseRule(work, projectId, params.ruleId),
  }),
  write.post("/rules/{ruleId}/resume", "resumeRule", {
    summary: "Let a paused or SHADOW rule act again",
    description: "As it was published; checked as on publishing, since the project may have changed.",
    response: PublishedRuleBody,
    run: (work, { projectId, params }) => resumeRule(work, projectId, params.ruleId),
  }),
  write.post("/rules/{ruleId}/shadow", "shadowRule", {
    summary: "Put a rule into SHADOW",
    description:
      "It is evaluated and its simulated effects are recorded (GET …/executions), but none is applied.",
    response: PublishedRuleBody,
    run: (work, { projectId, params }) => shadowRule(work, projectId, params.ruleId),
  }),
  write.post("/rules/{ruleId}/duplicate", "duplicateRule", {
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
  read.get("/rules/{ruleId}/versions", "listRuleVersions", {
    summary: "List a rule's published versions, newest first",
    query: PageQuery.extend(sortedBy(VERSION_ORDERS)),
    response: pageBody(VersionBody),
    run: async (work, { projectId, params, query }) => {
      const { versions, total } = await listVersions(work, projectId, params.ruleId, query);
      return pageOf(versions, total, query);
    },
  }),
  write.post("/rules/{ruleId}/rollback", "rollbackRule", {
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
