import type { z } from "zod";
import type { Mention } from "../language/syntax.ts";
import type { Metric } from "../metrics/compile.ts";
import type { Turn } from "../turn.ts";

/** Returns whether a condition holds: a pure function of event, player and clock. */
export type Test = (turn: Turn) => boolean;

/** Details of one condition in a trace. */
type Finding = { expected: unknown; actual: unknown };

/**
 * The player's data that a condition reads. While none of it changes, its result does not change either,
 * except by time alone (`isTimed`).
 */
export type ConditionInputs = {
  /** Names of inputs; see `readerOf` of segments/membership.ts. */
  names: readonly string[];
  /** Whether time alone can change it: rolling and calendar windows, ages, the time of day, ranks, lives. */
  isTimed: boolean;
  /** Segments that it reads. */
  segmentKeys: readonly string[];
};

/** Inputs that change only with the player. */
export const reads = (...names: string[]): ConditionInputs => ({ names, isTimed: false, segmentKeys: [] });

/** Inputs that also change with time. */
export const readsTimed = (...names: string[]): ConditionInputs => ({ ...reads(...names), isTimed: true });

/** A kind of condition: to add one, add a file here and a line in `condition-kinds.ts`. */
type OwnKind<S extends z.ZodObject> = {
  type: string;
  /** Summary in the catalogue of rules. */
  summary: string;
  schema: S;
  /** Returns the player's data that it reads; that of references is added. */
  inputs(condition: z.output<S>): ConditionInputs;
  /** Called once for a rule; the result runs for every event. */
  compile(condition: z.output<S>): Test;
  explain(condition: z.output<S>, turn: Turn): Finding;
};

/** By default a condition is cheap, names nothing and reads no metric. */
type Needs<S extends z.ZodObject> = {
  /** Whether the test costs much more than a comparison of loaded values: it is then tested last. */
  isExpensive: boolean;
  /**
   * Returns the definitions that it names by key; paths lead from the condition. Those named by
   * references are added.
   */
  mentions(condition: z.output<S>): Mention[];
  /** Returns the metrics that it reads. */
  metrics(condition: z.output<S>): readonly Metric[];
};
export type ConditionKind<S extends z.ZodObject> = OwnKind<S> & Needs<S>;

const NO_NEEDS = { isExpensive: false, mentions: () => [], metrics: () => [] };

export const conditionKind = <S extends z.ZodObject>(
  kind: OwnKind<S> & Partial<Needs<S>>,
): ConditionKind<S> => ({ ...NO_NEEDS, ...kind });
