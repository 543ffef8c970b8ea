import { z } from "zod";
import { canTriggerRules } from "../../kernel/events/event-types.ts";
import { CALENDAR_UNITS } from "../../kernel/zones.ts";
import { DISTINCT_MAX } from "../metrics/aggregates.ts";
import { Filter } from "../metrics/filter.ts";
import { EVENT_TYPES_MAX, WindowlessMetric } from "../metrics/metric.ts";
import { RewardBundle } from "../rewards/bundle.ts";
import { SegmentConditions } from "../segments/segment.ts";
import { EventPattern, Key } from "../language/syntax.ts";

const NAME_MAX = 100;
const TARGET_MAX = 9e9;
/** Maximum prerequisites of one step. */
export const DEPENDS_MAX = 20;

/** Consecutive local periods with at least one event. */
const StreakMetric = z.strictObject({
  eventTypes: z
    .array(EventPattern.refine(canTriggerRules, "is not an event type of players"))
    .min(1)
    .max(EVENT_TYPES_MAX),
  filter: Filter.optional(),
  aggregate: z.literal("streak"),
  period: z.enum(CALENDAR_UNITS),
  timezone: z.enum(["PLAYER", "PROJECT"]).default("PLAYER"),
});

/** Small open data of integrators. */
export const Metadata = z.record(z.string().max(64), z.unknown());

const common = {
  key: Key,
  name: z.string().min(1).max(NAME_MAX),
  description: z.string().max(2_000).optional(),
  optional: z.boolean().default(false).describe("Whether the quest completes without it"),
  dependsOn: z
    .array(Key)
    .max(DEPENDS_MAX)
    .default([])
    .describe("PARALLEL only: steps that must be done before this one is active"),
  rewards: RewardBundle.optional().describe("Granted when the step is done, once in a cycle"),
  metadata: Metadata.optional(),
};

export const COUNT_FROM = ["STEP_START", "QUEST_START", "LIFETIME"] as const;

const EventStep = z.strictObject({
  ...common,
  kind: z.literal("EVENT"),
  metric: z.discriminatedUnion("aggregate", [StreakMetric, WindowlessMetric]),
  target: z
    .number()
    .min(-TARGET_MAX)
    .max(TARGET_MAX)
    .describe("The value at which the step is done: at least this, or at most this for `min`"),
  countFrom: z
    .enum(COUNT_FROM)
    .default("STEP_START")
    .describe("Which events count: since the step or the quest began, or all of the player's"),
});

const StateStep = z.strictObject({
  ...common,
  kind: z.literal("STATE"),
  condition: SegmentConditions.describe(
    "Conditions on the player, checked when something that they read changes",
  ),
});

/** A step of a quest. */
export const QuestStep = z.discriminatedUnion("kind", [EventStep, StateStep], {
  error: "must have a kind of EVENT or STATE",
});
export type QuestStep = z.output<typeof QuestStep>;
export type EventStep = z.output<typeof EventStep>;
export type StateStep = z.output<typeof StateStep>;

type Refuse = (path: (string | number)[], message: string) => void;

const COUNTING: ReadonlySet<string> = new Set(["count", "distinct", "streak"]);

/** Reports what the schema of a single step cannot check. */
export const checkStep = (step: QuestStep, refuse: Refuse): void => {
  if (step.kind !== "EVENT") return;
  const { metric, target, countFrom } = step;
  const { aggregate } = metric;
  if (COUNTING.has(aggregate) && (target < 1 || !Number.isInteger(target)))
    refuse(["target"], `must be a whole number of at least 1 for ${aggregate}`);
  if (aggregate === "distinct" && target > DISTINCT_MAX)
    refuse(["target"], `distinct counts to ${DISTINCT_MAX}`);
  if (aggregate === "streak" && countFrom === "LIFETIME")
    refuse(["countFrom"], "a streak counts from the start of the step or the quest");
};
