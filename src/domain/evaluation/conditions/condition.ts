import type { z } from "zod";
import type { Mention } from "../language/mention.ts";
import type { Metric } from "../metrics/metric.ts";
import type { Turn } from "../turn.ts";

/** Whether a condition holds: a pure function of event, player and clock. */
export type Test = (turn: Turn) => boolean;

/** What a trace shows of one condition. */
export type Finding = { expected: unknown; actual: unknown };

/**
 * What a condition reads of a player. While none of it has changed, neither has what the condition says, but
 * for what time alone changes (`isTimed`).
 */
export type ConditionInputs = {
  /** Names of inputs; see `readerOf` of segments/inputs.ts. */
  names: readonly string[];
  /** Time alone can change it: rolling and calendar windows, ages, the time of day, ranks, lives. */
  isTimed: boolean;
  /** Segments that it reads. */
  segmentKeys: readonly string[];
};

/** Inputs that change with the player alone. */
export const reads = (...names: string[]): ConditionInputs => ({ names, isTimed: false, segmentKeys: [] });

/** Inputs that change with time too. */
export const readsTimed = (...names: string[]): ConditionInputs => ({ ...reads(...names), isTimed: true });

/** A kind of condition: add one by a file beside this one and a line in `condition-kinds.ts`. */
export type ConditionKind<S extends z.ZodObject> = {
  type: string;
  /** What it is for, in the catalogue of rules. */
  summary: string;
  schema: S;
  /** Whether the test costs much more than comparing a value in hand: it is then asked last. */
  isExpensive: boolean;
  /** What a test takes at most, in steps, beside the texts and lists that it looks through. */
  steps(condition: z.output<S>): number;
  /** The definitions that it names by key; paths lead from the condition. What a `$ref` names is added. */
  mentions(condition: z.output<S>): Mention[];
  /** The metrics that it reads. */
  metrics(condition: z.output<S>): readonly Metric[];
  /** What it reads of the player; what a `$ref` reads is added. */
  inputs(condition: z.output<S>): ConditionInputs;
  /** Done once for a rule; the closure runs for every event. */
  compile(condition: z.output<S>): Test;
  explain(condition: z.output<S>, turn: Turn): Finding;
};

export const conditionKind = <S extends z.ZodObject>(kind: ConditionKind<S>): ConditionKind<S> => kind;
