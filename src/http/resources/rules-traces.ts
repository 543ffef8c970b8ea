import { z } from "zod";
import type { EventTrace, ExplainedNode } from "../../domain/evaluation/trace/trace.ts";
import { SHOWN_JSON_MAX, SHOWN_TEXT_MAX } from "../../domain/evaluation/language/groups.ts";
import { QUEST_REASONS } from "../../domain/evaluation/turn.ts";
import { JsonObject } from "./rules-bodies.ts";

/** Explanations of evaluations: by simulation, by stored traces, by samples of a backtest. */

const SHOWN =
  `What the condition saw. Of a long value, as of \`expected\`, a text of its beginning that ends in "…": ` +
  `${SHOWN_TEXT_MAX} characters of a text, ${SHOWN_JSON_MAX} of the JSON of a list or an object`;

const TraceNodeBody: z.ZodType<ExplainedNode> = z
  .object({
    path: z.string().meta({ example: "conditions.all[0]" }),
    type: z.string().meta({ example: "event_property" }),
    op: z.string().optional(),
    expected: z.unknown().optional(),
    actual: z.unknown().optional().meta({ description: SHOWN }),
    pass: z.boolean(),
    skipped: z.boolean().optional().meta({ description: "The outcome of its group was clear without it" }),
    get children() {
      return z.array(TraceNodeBody).optional();
    },
  })
  .meta({ id: "TraceNode" }) as never;

const REASONS = [
  "MATCHED",
  "CONDITIONS_NOT_MET",
  "NOT_ACTIVE_YET",
  "EXPIRED",
  "ROLLOUT_EXCLUDED",
  "HOLDOUT",
  "LIMIT_REACHED",
  "COOLDOWN",
  "BUDGET_EXHAUSTED",
  "STEPS_EXHAUSTED",
  "STOPPED",
  "ACTION_FAILED",
  "LOOP_GUARD",
  "PLAYER_INELIGIBLE",
] as const;

const EffectBody = z.object({ type: z.string(), data: z.unknown(), cause: JsonObject });

const RuleTraceBody = z
  .object({
    ruleId: z.uuid(),
    ruleKey: z.string(),
    version: z.int().meta({ description: "Version that ran: published or draft; 0 for an inline rule" }),
    shadow: z.boolean().meta({ description: "Nothing of `effects` was done" }),
    fired: z.boolean(),
    reason: z.enum(REASONS).meta({ example: "CONDITIONS_NOT_MET" }),
    detail: z.string().optional(),
    nextEligibleAt: z.iso.datetime().optional(),
    stoppedBy: z.string().optional().meta({ description: "Key of the rule whose stopOnMatch ended it" }),
    conditions: TraceNodeBody.optional(),
    effects: z.array(EffectBody),
    warnings: z.array(z.string()),
    micros: z.int().meta({ description: "Time that the rule took, in microseconds" }),
  })
  .meta({ id: "RuleTrace" });

export const eventTraceFields = {
  eventId: z.uuid().nullable().meta({ description: "Null for a simulated and for a derived event" }),
  eventType: z.string(),
  player: z.object({ playerId: z.uuid().nullable(), externalUserId: z.string() }),
  evaluatedAt: z.iso.datetime(),
  rulesIndexed: z.int().meta({ description: "Rules that listen to the event's type" }),
  rules: z.array(RuleTraceBody),
  quests: z
    .array(
      z.object({
        questKey: z.string(),
        counted: z.boolean(),
        reason: z.enum(QUEST_REASONS),
        detail: z.string().optional(),
      }),
    )
    .optional()
    .meta({ description: "Quests that count events of the type: whether this one counted, and if not, why" }),
  effects: z.array(EffectBody).meta({ description: "Effects without a rule: streaks, badges, segments" }),
  get derived() {
    return z.array(EventTraceBody).meta({ description: "The events that this one brought about, in order" });
  },
  leaderboards: z.array(z.object({ key: z.string(), before: z.number().nullable(), after: z.number() })),
  warnings: z.array(z.string()),
  truncated: z.boolean().meta({ description: "Something was left out" }),
  guarded: z.array(z.string()).optional().meta({ description: "Event types that the loop guard cut off" }),
  loop: z.array(z.string()).optional().meta({ description: "Keys of the rules that set one another off" }),
  steps: z
    .object({ rules: z.int(), written: z.int().optional() })
    .optional()
    .meta({ description: "Steps of the rules, and bytes that they wrote: see `evaluation` at GET /limits" }),
  dearest: z
    .object({
      kind: z.enum(["rule", "badge", "streak", "segment", "leaderboard", "quest", "adventure"]),
      id: z.string(),
      key: z.string(),
    })
    .optional()
    .meta({ description: "The rule that took most, where that was too much" }),
  error: z.string().optional().meta({ description: "Why the event could not be evaluated" }),
};

export const EventTraceBody: z.ZodType<EventTrace> = z
  .object(eventTraceFields)
  .meta({ id: "EventTrace" }) as never;
