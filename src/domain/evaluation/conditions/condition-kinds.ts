import { z } from "zod";
import { type ConditionKind, conditionKind, reads, readsTimed, type Test } from "./condition.ts";
import { timeWindow } from "./time-window.ts";
import { progressState } from "./progress-state.ts";
import { entryAt, fromRankScore } from "../boards/lists.ts";
import type { Turn } from "../turn.ts";
import { compileComparison, compilePlayerValue, expectedOf } from "../language/expressions.ts";
import { checkOperand, type Comparison, comparisonFields, numericFields } from "../language/operators.ts";
import {
  compilePath,
  fieldMentions,
  isPlayerValue,
  Key,
  mentionsAt,
  Path,
  PLAYER_VALUES,
} from "../language/syntax.ts";
import { STREAK_MEASURES, type StreakMeasure, streakMeasure } from "../streaks/advance.ts";
import { Audience, audienceTest } from "../segments/audience.ts";
import { DISTINCT_MAX } from "../metrics/aggregates.ts";
import { compileMetric, Metric, metricId } from "../metrics/compile.ts";
import { readMetric } from "../metrics/count.ts";

/** How a kind is tested and explained that compares one value, which `readerOf` compiles. */
const comparing = <C extends Comparison>(readerOf: (condition: C) => (turn: Turn) => unknown) => ({
  compile: (condition: C): Test => {
    const read = readerOf(condition);
    const holds = compileComparison(condition);
    return (turn) => holds(read(turn), turn);
  },
  explain: (condition: C, turn: Turn) => ({
    expected: expectedOf(condition, turn),
    actual: readerOf(condition)(turn),
  }),
});

/** Compares a property of the triggering event. */
const eventProperty = conditionKind({
  type: "event_property",
  summary: "A property of the event",
  schema: z
    .strictObject({ type: z.literal("event_property"), path: Path, ...comparisonFields })
    .superRefine(checkOperand),
  inputs: () => reads(),
  ...comparing(({ path }: Comparison & { path: string }) => {
    const read = compilePath(path);
    return ({ event }) => read(event.properties);
  }),
  compile: (condition) => {
    const read = compilePath(condition.path);
    const holds = compileComparison(condition);
    return (turn) => holds(read(turn.event.properties), turn);
  },
});

const largestOf = (value: unknown): number => {
  const numbers = (Array.isArray(value) ? value : [value]).filter((one) => typeof one === "number");
  return Math.max(-Infinity, ...numbers);
};

/** Compares a metric of the player's events at the event's time, this event included. */
const eventAggregate = conditionKind({
  type: "event_aggregate",
  summary: "An aggregate of the player's events, including this one",
  isExpensive: true,
  schema: z
    .strictObject({ type: z.literal("event_aggregate"), metric: Metric, ...numericFields })
    .superRefine(checkOperand)
    .refine(({ metric, value }) => metric.aggregate !== "distinct" || largestOf(value) <= DISTINCT_MAX, {
      path: ["value"],
      message: `distinct counts to ${DISTINCT_MAX}`,
    }),
  metrics: ({ metric }) => [metric],
  inputs: ({ metric }) => {
    const name = `metric:${metricId(metric)}`;
    const type = metric.window?.type;
    return type === "CALENDAR" || type === "ROLLING" ? readsTimed(name, "field:timezone") : reads(name);
  },
  ...comparing((condition: Comparison & { metric: Metric }) => {
    const metric = compileMetric(condition.metric);
    return (turn) => readMetric(turn, metric);
  }),
});

/** Compares a value of the player at the moment the rule runs, after the rules before it. */
const playerProperty = conditionKind({
  type: "player_property",
  summary: "The current value of a field of the player",
  schema: z
    .strictObject({
      type: z.literal("player_property"),
      field: z.string().max(400).refine(isPlayerValue, `must be ${PLAYER_VALUES}`),
      ...comparisonFields,
    })
    .superRefine(checkOperand),
  mentions: ({ field }) => fieldMentions("field", field),
  inputs: ({ field, op }) =>
    field === "lives" || op === "within_last" || op === "older_than"
      ? readsTimed(`field:${field}`)
      : reads(`field:${field}`),
  ...comparing(({ field }: Comparison & { field: string }) => compilePlayerValue(field)),
});

/** Tests whether the player is in any, all or none of some segments. */
const segment = conditionKind({
  type: "segment",
  summary: "The segments that the player is in",
  schema: z.strictObject({ type: z.literal("segment"), ...Audience.shape }),
  mentions: ({ segmentKeys }) => mentionsAt("segmentKeys", "segment", segmentKeys),
  inputs: ({ segmentKeys }) => ({ ...reads(), segmentKeys }),
  compile: audienceTest,
  explain: ({ segmentKeys, match }, { player }) => ({
    expected: { segmentKeys, match },
    actual: segmentKeys.filter((key) => player.segments.has(key)),
  }),
});

/** Compares a streak of the player at the event's time, after the event has counted for it. */
const streak = conditionKind({
  type: "streak",
  summary: "The length of a streak, or the freezes held",
  isExpensive: true,
  schema: z
    .strictObject({
      type: z.literal("streak"),
      streakKey: Key,
      measure: z.enum(STREAK_MEASURES).default("current"),
      ...numericFields,
    })
    .superRefine(checkOperand),
  mentions: ({ streakKey }) => mentionsAt("streakKey", "streak", streakKey),
  // A streak that breaks is settled by the sweep of streaks, which changes the player's holdings.
  inputs: ({ streakKey }) => reads(`streak:${streakKey}`),
  ...comparing(
    ({ streakKey, measure }: Comparison & { streakKey: string; measure: StreakMeasure }) =>
      (turn) =>
        streakMeasure(turn, streakKey, measure),
  ),
});

/**
 * Ranks need the rank index, which evaluation cannot access: it does no I/O, and counting the rows before a
 * player in the database costs more the longer the board is. The score is part of the player.
 */
const NOT_YET: readonly unknown[] = ["rank", "percentile", "league_tier", "PREVIOUS"];

const notYet =
  (fallback: string) =>
  ({ input }: { input?: unknown }): string => {
    // The default measure of the format is the rank.
    const given = input ?? "rank";
    return NOT_YET.includes(given) ? `${given as string} is not available yet` : fallback;
  };

const scoreOf = ({ project, player, event }: Turn, leaderboardKey: string): number | undefined => {
  const board = project.boardsByKey.get(leaderboardKey);
  const entry = board && entryAt(board, player, event);
  return board && entry ? fromRankScore(board, entry.rankScore) : undefined;
};

/** Compares the score in the period of the event's time, before this event counts; none without an entry. */
const leaderboardRank = conditionKind({
  type: "leaderboard_rank",
  summary: "The player's standing on a leaderboard",
  schema: z
    .strictObject({
      type: z.literal("leaderboard_rank"),
      leaderboardKey: Key,
      period: z.literal("CURRENT", { error: notYet("must be CURRENT") }).default("CURRENT"),
      measure: z.literal("score", { error: notYet("must be score") }),
      ...numericFields,
    })
    .superRefine(checkOperand),
  mentions: ({ leaderboardKey }) => mentionsAt("leaderboardKey", "leaderboard", leaderboardKey),
  inputs: () => readsTimed("entries"),
  ...comparing(
    ({ leaderboardKey }: Comparison & { leaderboardKey: string }) =>
      (turn) =>
        scoreOf(turn, leaderboardKey),
  ),
});

/** All kinds of conditions. */
const KINDS = [
  eventProperty,
  playerProperty,
  eventAggregate,
  streak,
  progressState,
  leaderboardRank,
  segment,
  timeWindow,
] as const;

export type Condition = z.output<(typeof KINDS)[number]["schema"]>;

export const CONDITION_TYPES: readonly string[] = KINDS.map(({ type }) => type);

export const ConditionSchema = z.discriminatedUnion(
  "type",
  KINDS.map(({ schema }) => schema) as unknown as [(typeof KINDS)[number]["schema"]],
) as unknown as z.ZodType<Condition>;

const BY_TYPE = new Map<string, ConditionKind<z.ZodObject>>(
  KINDS.map((kind) => [kind.type, kind as unknown as ConditionKind<z.ZodObject>]),
);

export const kindOf = (type: string): ConditionKind<z.ZodObject> | undefined => BY_TYPE.get(type);

export const compileCondition = (condition: Condition): Test =>
  BY_TYPE.get(condition.type)!.compile(condition);

/** Returns whether a condition of this type is tested after the others of its group. */
export const isExpensive = (type: string): boolean => BY_TYPE.get(type)?.isExpensive === true;

/** Summaries of all kinds, in order. */
export const CONDITION_SUMMARIES: readonly (readonly [type: string, summary: string])[] = KINDS.map(
  ({ type, summary }) => [type, summary],
);
