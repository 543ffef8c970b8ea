import { z } from "zod";
import { type ConditionKind, type Test } from "./condition.ts";
import { timeWindow } from "./time-window.ts";
import { eventAggregate } from "./event-aggregate.ts";
import { eventProperty } from "./event-property.ts";
import { leaderboardRank } from "./leaderboard-rank.ts";
import { playerProperty } from "./player-property.ts";
import { progressState } from "./progress-state.ts";
import { segment } from "./segment.ts";
import { streak } from "./streak.ts";

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
