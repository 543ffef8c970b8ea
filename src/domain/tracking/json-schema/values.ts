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

/** A number as it is written: digits and the power of ten that they are multiplied by. */
const decimalOf = (value: number): { digits: bigint; power: number } => {
  const [digits, power = "0"] = Math.abs(value).toExponential().split("e") as [string, string?];
  const [whole, part = ""] = digits.split(".") as [string, string?];
  return { digits: BigInt(whole + part), power: Number(power) - part.length };
};

/** Returns whether a number is a whole multiple, as both are written: 19.99 is a multiple of 0.01. */
export const isMultiple = (value: number, of: number): boolean => {
  const [a, b] = [decimalOf(value), decimalOf(of)];
  const apart = a.power - b.power;
  const scale = 10n ** BigInt(Math.abs(apart));
  return apart >= 0 ? (a.digits * scale) % b.digits === 0n : a.digits % (b.digits * scale) === 0n;
};
