import { z } from "zod";
import { RESERVED_EVENT_TYPES } from "../events.ts";
import { ActionSchema, type Action } from "./actions/index.ts";
import { conditionProblems, Group, type Problem } from "./groups.ts";
import { EventPattern, Key } from "./syntax.ts";
import { unavailableProblems } from "./unavailable.ts";
import { CALENDAR_UNITS } from "./zones.ts";

export const TRIGGERS_MAX = 5;
export const EVENT_TYPES_MAX = 20;
export const ACTIONS_MAX = 20;
export const LIMITS_MAX = 4;
/** Firings of a rolling limit: each one is remembered by its time. */
export const ROLLING_MAX = 100;
const YEAR_SECONDS = 31_536_000;

const isSystemType = (pattern: string): boolean =>
  pattern.startsWith("system.") || RESERVED_EVENT_TYPES.has(pattern);

const Trigger = z.strictObject({
  kind: z.literal("EVENT"),
  eventTypes: z
    .array(
      EventPattern.refine(
        (pattern) => !isSystemType(pattern),
        "rules on the service's own events are not available yet",
      ),
    )
    .min(1)
    .max(EVENT_TYPES_MAX),
});

const LimitWindow = z.union(
  [
    z.enum(["LIFETIME", ...CALENDAR_UNITS]),
    z.strictObject({ rollingSeconds: z.int().min(1).max(YEAR_SECONDS) }),
  ],
  { error: 'must be LIFETIME, DAY, WEEK, MONTH or {"rollingSeconds": 1 to 31536000}' },
);

/**
 * At most `max` firings for one player in each local day, week (from Monday), month, ever, or any span of
 * seconds.
 */
const Limit = z
  .strictObject({ max: z.int().min(1).max(1_000_000_000), window: LimitWindow })
  .refine(({ max, window }) => typeof window === "string" || max <= ROLLING_MAX, {
    path: ["max"],
    message: `a rolling limit allows at most ${ROLLING_MAX}`,
  });
export type Limit = z.output<typeof Limit>;

const Limits = z.strictObject({
  perPlayer: z.array(Limit).max(LIMITS_MAX).default([]),
  cooldownSeconds: z.int().min(1).max(YEAR_SECONDS).optional(),
});

/** By the event's time, from inclusive to exclusive. */
const Schedule = z
  .strictObject({
    activeFrom: z.iso.datetime({ offset: true }).optional(),
    activeUntil: z.iso.datetime({ offset: true }).optional(),
  })
  .refine(
    ({ activeFrom, activeUntil }) =>
      activeFrom === undefined ||
      activeUntil === undefined ||
      Date.parse(activeFrom) < Date.parse(activeUntil),
    { path: ["activeUntil"], message: "must be after activeFrom" },
  );

const Actions = z
  .array(ActionSchema)
  .min(1)
  .max(ACTIONS_MAX)
  .superRefine((actions, context) => {
    const seen = new Set<string>();
    actions.forEach(({ id }, i) => {
      if (id !== undefined && seen.has(id)) {
        context.addIssue({ code: "custom", path: [i, "id"], message: `"${id}" is taken by another action` });
      }
      if (id !== undefined) seen.add(id);
    });
  });

const fields = {
  key: Key,
  name: z.string().min(2).max(255),
  description: z.string().max(2_000),
  tags: z.array(Key).max(20),
  priority: z.int().min(-1_000).max(1_000),
  triggers: z.array(Trigger).min(1).max(TRIGGERS_MAX),
  conditions: Group,
  actions: Actions,
  limits: Limits,
  schedule: Schedule,
  stopOnMatch: z.boolean(),
  exclusiveGroup: Key,
};

/**
 * Problems that the schemas below cannot put at their path, or cannot put well; nothing is parsed when
 * there are any.
 */
const explain = (document: unknown, context: z.RefinementCtx): unknown => {
  const problems: Problem[] = unavailableProblems(document);
  const named = new Set(problems.map(({ path }) => path.join(".")));
  const conditions: unknown = (document as { conditions?: unknown } | null | undefined)?.conditions;
  if (conditions !== undefined) {
    for (const { path, message } of conditionProblems(conditions)) {
      const at = ["conditions", ...path];
      if (!named.has(at.join("."))) problems.push({ path: at, message });
    }
  }
  for (const { path, message } of problems)
    context.addIssue({ code: "custom", path, message, input: document });
  return problems.length === 0 ? document : z.NEVER;
};

/** A stored rule. */
export const StoredRule = z.strictObject({
  key: fields.key,
  name: fields.name,
  description: fields.description.optional(),
  tags: fields.tags.default([]),
  priority: fields.priority.default(0),
  triggers: fields.triggers,
  conditions: fields.conditions.default({ all: [] }),
  actions: fields.actions,
  limits: fields.limits.optional(),
  schedule: fields.schedule.optional(),
  stopOnMatch: fields.stopOnMatch.default(false),
  exclusiveGroup: fields.exclusiveGroup.optional(),
});
export type RuleDocument = z.output<typeof StoredRule>;

/** A rule as designers write it. */
export const RuleDocument = z.preprocess(explain, StoredRule);

/**
 * Some fields of a rule; null takes an optional one away. `draftVersion` is the version that the edit is
 * based on.
 */
export const RulePatch = z.preprocess(
  explain,
  z.strictObject({
    draftVersion: z.int().min(1),
    key: fields.key.optional(),
    name: fields.name.optional(),
    description: fields.description.nullable().optional(),
    tags: fields.tags.optional(),
    priority: fields.priority.optional(),
    triggers: fields.triggers.optional(),
    conditions: fields.conditions.optional(),
    actions: fields.actions.optional(),
    limits: fields.limits.nullable().optional(),
    schedule: fields.schedule.nullable().optional(),
    stopOnMatch: fields.stopOnMatch.optional(),
    exclusiveGroup: fields.exclusiveGroup.nullable().optional(),
  }),
);
export type RulePatch = z.output<typeof RulePatch>;

/** An action with the id that its grants are keyed by. */
export type IdentifiedAction = Action & { id: string };

/**
 * Gives every action an id; ids that are there stay, so that editing a rule does not change what has been
 * granted.
 */
export const identifyActions = (actions: readonly Action[]): IdentifiedAction[] => {
  const taken = new Set(actions.map(({ id }) => id));
  let next = 1;
  return actions.map((action) => {
    if (action.id !== undefined) return { ...action, id: action.id };
    while (taken.has(`a${next}`)) next++;
    return { ...action, id: `a${next++}` };
  });
};
