import type { StepBudget } from "../../kernel/step-budget.ts";

/** Characters of a text that an explanation shows. */
export const SHOWN_TEXT_MAX = 64;
/** Characters of a list or an object as JSON: room for what a condition on the time has seen. */
export const SHOWN_JSON_MAX = 128;

/** Names of an object that are listed in one step; listing them cannot stop half way. */
const NAMES_PER_STEP = 4;

/**
 * A value as explanations show it: itself while it is short, else a text of its beginning and "…". Reads no
 * more of it than that; what it takes is charged to `steps`.
 */
export const showValue = (value: unknown, steps: StepBudget): unknown => {
  if (typeof value === "string") return isShort(value, SHOWN_TEXT_MAX) ? value : cut(value, SHOWN_TEXT_MAX);
  if (typeof value !== "object" || value === null) return value;
  const json = jsonBegin(value, SHOWN_JSON_MAX, steps);
  return isShort(json, SHOWN_JSON_MAX) ? value : cut(json, SHOWN_JSON_MAX);
};

const isShort = (text: string, max: number): boolean => text.length <= max;

/** Whole characters only: half a surrogate pair is not text that the database takes. */
const cut = (text: string, max: number): string => `${text.slice(0, max).toWellFormed()}…`;

/** The JSON of a value; of one that takes more than `max` characters, a text that begins as it does. */
const jsonBegin = (value: unknown, max: number, steps: StepBudget): string => {
  steps.spend(1);
  if (typeof value === "string") return JSON.stringify(value.slice(0, max));
  if (Array.isArray(value)) return `[${partsBegin(value, max, steps)}]`;
  if (typeof value === "object" && value !== null) return `{${partsBegin(value, max, steps)}}`;
  return JSON.stringify(value) ?? "null";
};

/** What stands between the brackets of a list or an object. */
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

/** The parts of a list or an object one by one, with their names in an object. */
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
