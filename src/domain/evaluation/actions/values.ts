import { z } from "zod";
import type { Json } from "../../kernel/events/events.ts";
import type { Turn } from "../turn.ts";
import { TEXT_PER_STEP } from "../../kernel/step-budget.ts";
import { compileReference } from "../language/lookups.ts";
import { isReferenceObject, Reference, referentOf } from "../language/references.ts";
import { Scalar, scalarList } from "../language/syntax.ts";

/**
 * Maximum bytes of JSON that an action may pass on, the same as for an event: otherwise a rule that copies
 * its input several times would multiply the size with each event.
 */
export const PASSED_ON_MAX_BYTES = 16 * 1024;

/** Returns whether an action may pass `value` on. */
export const isPassable = (value: object, { root }: Turn): boolean => {
  const text = JSON.stringify(value);
  root.steps.spend(text.length / TEXT_PER_STEP);
  return Buffer.byteLength(text) <= PASSED_ON_MAX_BYTES;
};

/** Maximum items of a list in a value. */
const ITEMS_MAX = 50;

/** A literal, a list of literals, or a reference that is resolved when the rule fires. */
export const Value = z.union([Scalar, Reference, scalarList(0, ITEMS_MAX)], {
  error: `must be a string, number, boolean, null, {"ref"} or a list of at most ${ITEMS_MAX} of these`,
});
export type Value = z.output<typeof Value>;

type Setter = (turn: Turn, values: Json) => void;

const setterOf = ([name, value]: [string, unknown]): Setter => {
  if (!isReferenceObject(value)) return (_turn, values) => void (values[name] = value);
  const read = compileReference(value);
  return (turn, values) => {
    const found = read(turn);
    if (found === undefined) turn.warn(`${referentOf(value)} is missing: ${name} is left out`);
    else values[name] = found;
  };
};

/** Compiles named values; one whose reference resolves to nothing is left out, with a warning. */
export const compileValues = (given: Readonly<Record<string, Value>>): ((turn: Turn) => Json) => {
  const setters = Object.entries(given).map(setterOf);
  return (turn) => {
    const values: Json = {};
    for (const assign of setters) assign(turn, values);
    return values;
  };
};
