import type { Turn } from "../turn.ts";
import { compileReference } from "./lookups.ts";
import { type Comparison, compileCheck } from "./operators.ts";
import { isReferenceObject } from "./references.ts";

/** Steps of looking an operand up, and characters of it that are prepared in one, such as a glob's. */
const REFERENCE_STEPS = 2;
const PREPARED_PER_STEP = 8;

/** Decides about an actual value in a turn. A missing value is undefined. */
type Decide = (actual: unknown, turn: Turn) => boolean;

/** Turns a comparison into a closure over the actual value. A literal is prepared once. */
export const compileComparison = ({ op, value }: Comparison): Decide => {
  if (!isReferenceObject(value)) return compileCheck(op, value);
  const resolve = compileReference(value);
  return (actual, turn) => {
    const operand = resolve(turn);
    turn.root.steps.spend(
      typeof operand === "string" ? REFERENCE_STEPS + operand.length / PREPARED_PER_STEP : REFERENCE_STEPS,
    );
    return compileCheck(op, operand)(actual, turn);
  };
};

/** What the actual value is held against, as a trace shows it. */
export const expectedOf = ({ value }: Comparison, turn: Turn): unknown =>
  isReferenceObject(value) ? compileReference(value)(turn) : value;
