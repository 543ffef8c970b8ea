import { z } from "zod";
import { type Action, ActionSchema, kindOf as actionKindOf } from "../actions/action-kinds.ts";
import { Cap, CAPS_MAX } from "../caps/cap.ts";
import { kindOf as conditionKindOf } from "../conditions/condition-kinds.ts";
import { Cron, triggerProblem } from "./patterns.ts";
import { expressionMetrics, NamedMetrics, unknownReadings } from "./expressions.ts";
import { conditionMetrics, conditionProblems, Group } from "./groups.ts";
import {
  assetMentions,
  EventPattern,
  fieldMentions,
  Key,
  type Mention,
  mentionsAt,
  patchOf,
  PLAYER,
  referencesIn,
  Zone,
} from "./syntax.ts";
import { type Problem, refuseAll, visitLeaves } from "./trees.ts";
import type { Metric } from "../metrics/compile.ts";
import { canTriggerRules } from "../../kernel/events/event-types.ts";
import type { Json } from "../../kernel/events/events.ts";
import { isEmptySpan, IsoTime } from "../../kernel/iso-time.ts";
import { isJsonObject } from "../../kernel/json.ts";
import { PATCH_MORE_BYTES, RULE_MAX_BYTES } from "../../kernel/limits.ts";
import { boundBytes } from "../../kernel/hostile-json.ts";
import { CALENDAR_UNITS } from "../../kernel/zones.ts";

/**
 * Names that the rule format reserves and this version does not implement. They are reported as such, with
 * their path, since "unknown key" would suggest a typing error. Names are removed here as they become
 * available.
 */
const TARGETS = ["lobbyMembers", "groupMembers"];
const ACTION_KEYS: ReadonlyMap<unknown, readonly string[]> = new Map([["emit_event", ["chatChannelKey"]]]);

const fieldsOf = (value: unknown): Json => (isJsonObject(value) ? value : {});

const itemsOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** Finds every use of unavailable names; `document` is unchecked input. */
const unavailableProblems = (document: unknown): Problem[] => {
  const problems: Problem[] = [];
  const refuse = (path: PropertyKey[], what: string): void =>
    void problems.push({ path, message: `${what} is not available yet` });
  const refuseKeys = (fields: Json, keys: readonly string[], path: PropertyKey[]): void => {
    for (const key of keys) if (Object.hasOwn(fields, key)) refuse([...path, key], key);
  };

  const rule = fieldsOf(document);
  itemsOf(rule["actions"]).forEach((action, i) => {
    const fields = fieldsOf(action);
    const { type } = fields;
    refuseKeys(fieldsOf(fields["target"]), TARGETS, ["actions", i, "target"]);
    refuseKeys(fields, ACTION_KEYS.get(type) ?? [], ["actions", i]);
    itemsOf(fields["channels"]).forEach((channel, c) => {
      if (channel === "chat") refuse(["actions", i, "channels", c], "the channel chat");
    });
  });
  return problems;
};

export const TRIGGERS_MAX = 5;
const EVENT_TYPES_MAX = 20;
export const ACTIONS_MAX = 20;
const LIMITS_MAX = 4;
/** Maximum firings of a rolling limit, each of which is stored with its time. */
const ROLLING_MAX = 100;
const YEAR_SECONDS = 31_536_000;

const EventTrigger = z.strictObject({
  kind: z.literal("EVENT"),
  eventTypes: z
    .array(EventPattern.refine(canTriggerRules, { error: ({ input }) => triggerProblem(String(input)) }))
    .min(1)
    .max(EVENT_TYPES_MAX),
});

/** At each time of the schedule, once for every active player, or for the members of a segment. */
const ScheduleTrigger = z.strictObject({
  kind: z.literal("SCHEDULE"),
  cron: Cron,
  timezone: Zone.default("UTC"),
  segmentKey: Key.optional(),
});
export type ScheduleTrigger = z.output<typeof ScheduleTrigger>;

const Trigger = z.discriminatedUnion("kind", [EventTrigger, ScheduleTrigger], {
  error: (issue) => (issue.code === "invalid_union" ? "must be EVENT or SCHEDULE" : undefined),
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

/** Maximum that a rule may give to all players in a window. */
const Budget = z.strictObject({
  asset: z
    .string()
    .regex(
      /^(xp|(currency|reward):[a-z0-9][a-z0-9_-]{0,63})$/,
      "must be xp, currency:<key> or reward:<key>; other assets are not available yet",
    ),
  max: z.int().min(1).max(Number.MAX_SAFE_INTEGER),
  window: LimitWindow,
});

const Limits = z.strictObject({
  perPlayer: z.array(Limit).max(LIMITS_MAX).default([]),
  global: z.array(Limit).max(LIMITS_MAX).default([]),
  cooldownSeconds: z.int().min(1).max(YEAR_SECONDS).optional(),
  budgets: z.array(Budget).max(LIMITS_MAX).default([]),
  caps: z.array(Cap).max(CAPS_MAX).optional(),
});

/** The share of players that a rule applies to, and the share of those for whom it is only recorded. */
const Rollout = z.strictObject({
  percent: z.number().min(0).max(100).default(100),
  holdoutPercent: z.number().min(0).max(50).default(0),
  salt: z.string().max(64).optional(),
});

/** By the event's time, from inclusive to exclusive. */
const Schedule = z
  .strictObject({
    activeFrom: IsoTime.optional(),
    activeUntil: IsoTime.optional(),
  })
  .refine(({ activeFrom, activeUntil }) => !isEmptySpan(activeFrom, activeUntil), {
    path: ["activeUntil"],
    message: "must be after activeFrom",
  });

const Actions = z
  .array(ActionSchema)
  .min(1)
  .max(ACTIONS_MAX)
  .superRefine((actions, context) => {
    const seen = new Set<string>();
    actions.forEach(({ id }, i) => {
      if (id !== undefined && seen.has(id)) {
        context.addIssue({ code: "custom", path: [i, "id"], message: `"${id}" is used by another action` });
      }
      if (id !== undefined) seen.add(id);
    });
  });

/**
 * Reports problems that the schemas below cannot report, or not clearly; if there are any, nothing is parsed.
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
  return refuseAll(document, problems, context);
};

/** A stored rule. */
export const StoredRule = z.strictObject({
  key: Key,
  name: z.string().min(2).max(255),
  description: z.string().max(2_000).optional(),
  tags: z.array(Key).max(20).default([]),
  priority: z.int().min(-1_000).max(1_000).default(0),
  triggers: z.array(Trigger).min(1).max(TRIGGERS_MAX),
  conditions: Group.default({ all: [] }),
  actions: Actions,
  metrics: NamedMetrics.optional(),
  limits: Limits.optional(),
  schedule: Schedule.optional(),
  rollout: Rollout.optional(),
  stopOnMatch: z.boolean().default(false),
  exclusiveGroup: Key.optional(),
  /** May fire again for events that it caused itself; otherwise once for each tracked event. */
  reentrant: z.boolean().default(false),
});
export type RuleDocument = z.output<typeof StoredRule>;

/** Expressions may read only metrics that the rule names. */
const checkReadings = (rule: RuleDocument, context: z.RefinementCtx): void => {
  for (const { path, name } of unknownReadings(rule))
    context.addIssue({ code: "custom", path, message: `the rule has no metric ${name}` });
};

/** A rule as it is kept, of whatever size. */
export const KeptRule = z.preprocess(explain, StoredRule.superRefine(checkReadings));

/** A rule as written by designers. */
export const RuleDocument = boundBytes(KeptRule, RULE_MAX_BYTES);

/**
 * Some fields of a rule; null removes an optional one. `draftVersion` is the version that the edit is based
 * on.
 */
export const RulePatch = boundBytes(
  z.preprocess(explain, z.strictObject({ draftVersion: z.int().min(1), ...patchOf(StoredRule.shape) })),
  RULE_MAX_BYTES + PATCH_MORE_BYTES,
);
export type RulePatch = z.output<typeof RulePatch>;

/** An action with the id that its grants are keyed by. */
type IdentifiedAction = Action & { id: string };

/**
 * Assigns an id to every action; existing ids are kept, so that editing a rule does not change the keys of
 * earlier grants.
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

/** Definitions that a rule reads or changes, besides the event and the player's own fields. */
type RuleNeeds = {
  metrics: readonly Metric[];
  mentions: readonly Mention[];
};

/** Returns the currencies named by the references in a condition or an action. */
const referenceMentions = (value: object): Mention[] =>
  referencesIn(value)
    .filter(({ referent }) => referent.startsWith(PLAYER))
    .flatMap(({ path, referent }) => fieldMentions(path.join("."), referent.slice(PLAYER.length)));

const under = (path: string, mentions: readonly Mention[]): Mention[] =>
  mentions.map((mention) => ({ ...mention, path: `${path}.${mention.path}` }));

/** Returns everything that a rule names, with paths, for checks before it is published. */
export const needsOf = (rule: Pick<RuleDocument, "conditions" | "actions" | "metrics">): RuleNeeds => {
  const mentions: Mention[] = [];
  const look = (own: readonly Mention[] | undefined, value: object, path: string): void => {
    mentions.push(...under(path, [...(own ?? []), ...referenceMentions(value)]));
  };
  visitLeaves(
    rule.conditions,
    (leaf, path) => look(conditionKindOf(leaf.type)?.mentions(leaf), leaf, path),
    "conditions",
  );
  rule.actions.forEach((action, i) =>
    look(actionKindOf(action.type)?.mentions(action), action, `actions.${i}`),
  );
  return { metrics: [...conditionMetrics(rule.conditions), ...expressionMetrics(rule)], mentions };
};

/** Mentions outside of conditions and actions: in budgets, caps and triggers by time. */
const otherMentions = (rule: RuleDocument): Mention[] => {
  const { limits, triggers } = rule;
  const ofLimits = (["budgets", "caps"] as const).flatMap((name) =>
    (limits?.[name] ?? []).flatMap(({ asset }, i) => assetMentions(`limits.${name}.${i}.asset`, asset)),
  );
  const ofTriggers = triggers.flatMap((trigger, i) =>
    "segmentKey" in trigger ? mentionsAt(`triggers.${i}.segmentKey`, "segment", trigger.segmentKey) : [],
  );
  return [...ofLimits, ...ofTriggers];
};

/** Returns everything that a rule names, with paths. */
export const mentionsOf = (rule: RuleDocument): Mention[] => [
  ...needsOf(rule).mentions,
  ...otherMentions(rule),
];
