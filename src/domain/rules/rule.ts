import { defineEntity, p } from "@mikro-orm/core";
import type { RuleDocument } from "../evaluation/language/document.ts";
import type { RuleStatus } from "../evaluation/running/rule-status.ts";

export const RuleSchema = defineEntity({
  name: "Rule",
  tableName: "rules",
  properties: {
    id: p.uuid().primary(),
    projectId: p.uuid(),
    key: p.text(),
    name: p.text(),
    status: p.text().$type<RuleStatus>(),
    /** Why the engine paused it: LOOP_GUARD, BUDGET, STEPS or UNFIT. */
    pauseReason: p.text().nullable(),
    /** The version that designers edit; it takes effect only by publishing. */
    draft: p.json<RuleDocument>(),
    draftVersion: p.integer(),
    publishedVersion: p.integer().nullable(),
    createdBy: p.text(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});

export class Rule extends RuleSchema.class {}

RuleSchema.setClass(Rule);

/** A published version; never changed. */
export const RuleVersionSchema = defineEntity({
  name: "RuleVersion",
  tableName: "rule_versions",
  properties: {
    ruleId: p.uuid().primary(),
    version: p.integer().primary(),
    definition: p.json<RuleDocument>(),
    changeNote: p.text().nullable(),
    publishedBy: p.text(),
    publishedAt: p.datetime(3),
  },
});

export class RuleVersion extends RuleVersionSchema.class {}

RuleVersionSchema.setClass(RuleVersion);

export type RuleToShow = Pick<
  Rule,
  | "id"
  | "key"
  | "name"
  | "status"
  | "pauseReason"
  | "draft"
  | "draftVersion"
  | "publishedVersion"
  | "createdBy"
  | "createdAt"
  | "updatedAt"
>;

/** A rule as the API shows it; `published` is what runs while the status is ACTIVE or SHADOW. */
export const showRule = (rule: RuleToShow, published: RuleDocument | null) => ({
  id: rule.id,
  key: rule.key,
  name: rule.name,
  description: rule.draft.description ?? null,
  status: rule.status,
  pauseReason: rule.pauseReason ?? null,
  tags: rule.draft.tags,
  draft: rule.draft,
  draftVersion: rule.draftVersion,
  published,
  publishedVersion: rule.publishedVersion ?? null,
  createdBy: rule.createdBy,
  createdAt: rule.createdAt.toISOString(),
  updatedAt: rule.updatedAt.toISOString(),
});

export type ShownRule = ReturnType<typeof showRule>;
