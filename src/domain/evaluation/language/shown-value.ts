import type { StepBudget } from "../../kernel/step-budget.ts";

/** Maximum characters of a text in an explanation. */
export const SHOWN_TEXT_MAX = 64;
/** Maximum characters of a list or object as JSON: enough for the values of a condition on the time. */
export const SHOWN_JSON_MAX = 128;

/** Names of an object listed per step; the listing cannot be interrupted. */
const NAMES_PER_STEP = 4;

/**
 * Truncates a value for explanations: short values are returned unchanged, others as a text of their
 * beginning and "…". Reads no more than that; the cost is charged to `steps`.
 */
export const showValue = (value: unknown, steps: StepBudget): unknown => {
  if (typeof value === "string") return isShort(value, SHOWN_TEXT_MAX) ? value : cut(value, SHOWN_TEXT_MAX);
  if (typeof value !== "object" || value === null) return value;
  const json = jsonBegin(value, SHOWN_JSON_MAX, steps);
  return isShort(json, SHOWN_JSON_MAX) ? value : cut(json, SHOWN_JSON_MAX);
};

const isShort = (text: string, max: number): boolean => text.length <= max;

/** Whole characters only: PostgreSQL rejects half a surrogate pair. */
const cut = (text: string, max: number): string => `${text.slice(0, max).toWellFormed()}…`;

/** Returns the JSON of a value, truncated to about `max` characters. */
const jsonBegin = (value: unknown, max: number, steps: StepBudget): string => {
  steps.spend(1);
  if (typeof value === "string") return JSON.stringify(value.slice(0, max));
  if (Array.isArray(value)) return `[${partsBegin(value, max, steps)}]`;
  if (typeof value === "object" && value !== null) return `{${partsBegin(value, max, steps)}}`;
  return JSON.stringify(value) ?? "null";
};

/** Returns the text between the brackets of a list or an object. */
const partsBegin = (value: object, max: number, steps: StepBudget): string => {
  let text = "";
  for (const [name, part] of partsOf(value, steps)) {
    if (text !== "") text += ",";
    if (name !== undefined) text += `${JSON.stringify(name.slice(0, max))}:`;
    if (text.length <= max) text += jsonBegin(part, max - text.length, steps);
    if (text.length > max) break;
  }
  return text;
};

/** Yields the parts of a list or an object one by one, with their names in an object. */
const partsOf = function* (
  value: object,
  steps: StepBudget,
): Generator<[name: string | undefined, part: unknown]> {
  if (Array.isArray(value)) {
    for (const part of value) yield [undefined, part];
    return;
  }
  const names = Object.keys(value);
  steps.spend(names.length / NAMES_PER_STEP);
  for (const name of names) {
    const part = (value as Record<string, unknown>)[name];
    if (part !== undefined) yield [name, part];
  }
};
