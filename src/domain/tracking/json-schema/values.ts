import { isJsonObject } from "../../kernel/json.ts";

/** Returns the JSON Schema types of a JSON value; a whole number has two. */
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

/** Returns a text that is equal for equal values: for 1 and 1.0, but not for 1 and true. */
export const textOf = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(textOf).join()}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  const names = Object.keys(value).toSorted();
  return `{${names.map((name) => `${JSON.stringify(name)}:${textOf(value[name])}`).join()}}`;
};

/** Returns whether a JSON value is a list or an object. */
export const isComposite = (value: unknown): value is object => value !== null && typeof value === "object";

/** Length in code points: characters beyond the first 65,536 count once. */
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

/** Tolerance for the rounding of the two decimals and their quotient, relative to it. */
const NEARLY = 4 * Number.EPSILON;

/**
 * Returns whether a number is a whole multiple, within floating-point precision: 19.99 is a multiple of 0.01.
 */
export const isMultiple = (value: number, of: number): boolean => {
  const quotient = value / of;
  return (
    Number.isFinite(quotient) && Math.abs(quotient - Math.round(quotient)) <= NEARLY * Math.abs(quotient)
  );
};
