import { z } from "zod";
import { DESIGNERS, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { StoredRule } from "../../domain/evaluation/language/document.ts";
import { RULE_STATUSES } from "../../domain/evaluation/running/rule-status.ts";
import { group } from "../route.ts";

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

export const RuleBody = z
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
export const PublishedRuleBody = RuleBody.extend({
  warnings: z.array(z.string()).meta({
    description: "Circles in which rules set one another off, and that a limit of theirs ends",
    example: ["can set itself off: weekend-double → player.xp_granted → bonus → lesson.completed"],
  }),
}).meta({ id: "PublishedRule" });

export const Problem = z.object({
  field: z.string().meta({ example: "actions.0.currencyKey" }),
  message: z.string(),
});

export const JsonObject = z.record(z.string(), z.unknown());
export const Histogram = z.record(z.string(), z.number());
