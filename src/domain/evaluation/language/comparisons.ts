import type { Turn } from "../turn.ts";
import { compileReference } from "./lookups.ts";
import { type Comparison, compileCheck } from "./operators.ts";
import { isReferenceObject } from "./references.ts";

/** Steps of resolving an operand, and characters of it prepared per step, such as a glob's. */
const REFERENCE_STEPS = 2;
const PREPARED_PER_STEP = 8;

/** Returns whether an actual value matches in a turn. A missing value is undefined. */
type Matcher = (actual: unknown, turn: Turn) => boolean;

/** Compiles a comparison to a closure over the actual value. A literal is prepared once. */
export const compileComparison = ({ op, value }: Comparison): Matcher => {
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

/** Returns the expected value for a trace. */
export const expectedOf = ({ value }: Comparison, turn: Turn): unknown =>
  isReferenceObject(value) ? compileReference(value)(turn) : value;
