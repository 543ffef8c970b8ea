import { isJsonObject } from "../../kernel/json.ts";

/** The type of a JSON value as JSON Schema names it; a whole number is both. */
export const typesOf = (value: unknown): readonly string[] => {
  if (value === null) return ["null"];
  if (Array.isArray(value)) return ["array"];
  if (typeof value === "number") return Number.isInteger(value) ? ["integer", "number"] : ["number"];
  return [typeof value];
};

export const TYPES: ReadonlySet<unknown> = new Set([
  "null",
  "boolean",
  "object",
  "array",
  "number",
  "string",
  "integer",
]);

/** A text that is equal for equal values: 1 and 1.0 are, 1 and true are not. */
export const textOf = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(textOf).join()}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  const names = Object.keys(value).toSorted();
  return `{${names.map((name) => `${JSON.stringify(name)}:${textOf(value[name])}`).join()}}`;
};

/** Whether a JSON value has parts. */
export const isComposite = (value: unknown): value is object => value !== null && typeof value === "object";

/** Characters as people count them: those beyond the first 65,536 are one each. */
export const lengthOf = (text: string): number => {
  let length = text.length;
  for (let i = 0; i < text.length - 1; i++) {
    if (text.codePointAt(i)! > 0xffff) {
      length--;
      i++;
    }
  }
  return length;
};

/** Rounding of the two decimals, and of their quotient, in relation to it. */
const NEARLY = 4 * Number.EPSILON;

/** Whether a number is a whole multiple, as far as floating point can tell: 19.99 is one of 0.01. */
export const isMultiple = (value: number, of: number): boolean => {
  const quotient = value / of;
  return (
    Number.isFinite(quotient) && Math.abs(quotient - Math.round(quotient)) <= NEARLY * Math.abs(quotient)
  );
};
