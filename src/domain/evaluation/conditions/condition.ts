import type { z } from "zod";
import type { Turn } from "../turn.ts";

/** Whether a condition holds: a pure function of event, player and clock. */
export type Test = (turn: Turn) => boolean;

/** What a trace shows of one condition. */
export type Finding = { expected: unknown; actual: unknown };

/** A kind of condition: add one by a file beside this one and a line in `index.ts`. */
export type ConditionKind<S extends z.ZodObject> = {
  type: string;
  schema: S;
  /** Set where the test costs much more than comparing a value in hand: it is then asked last. */
  isDear?: boolean;
  /** What a test takes at most, in steps, beside the texts and lists that it looks through; default 1. */
  steps?(condition: z.output<S>): number;
  /** Done once for a rule; the closure runs for every event. */
  compile(condition: z.output<S>): Test;
  explain(condition: z.output<S>, turn: Turn): Finding;
};

export const conditionKind = <S extends z.ZodObject>(kind: ConditionKind<S>): ConditionKind<S> => kind;
