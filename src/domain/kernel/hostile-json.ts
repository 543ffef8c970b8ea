import { invalidField } from "./errors.ts";
import type { Json } from "./events/events.ts";
import type { z } from "zod";
import { isJsonObject } from "./json.ts";

/** Bounds documents in bytes. Lists and names need nothing: zod looks at lengths before it reads the items. */

/** Returns the bytes of a value as compact JSON. */
export const bytesOf = (value: object): number => Buffer.byteLength(JSON.stringify(value));

/** Maximum depth of the search: deeper values are refused for their depth. */
const LEVELS_MAX = 40;

/**
 * Returns the characters that remain of `left` after the JSON of `value`, which is read no further than that.
 */
const without = (value: unknown, left: number, levels = LEVELS_MAX): number => {
  if (left <= 0) return left;
  if (typeof value === "string") return left - value.length - 2;
  if (typeof value !== "object" || value === null) return left - 1;
  if (levels === 0) return left - 2;
  return Array.isArray(value)
    ? withoutItems(value, left - 2, levels - 1)
    : withoutFields(value as Record<string, unknown>, left - 2, levels - 1);
};

const withoutItems = (items: readonly unknown[], left: number, levels: number): number => {
  let rest = left;
  for (let i = 0; i < items.length && rest > 0; i++) rest = without(items[i], rest, levels);
  return rest;
};

const withoutFields = (fields: Record<string, unknown>, left: number, levels: number): number => {
  let rest = left;
  for (const name in fields) {
    if (rest <= 0) break;
    rest = without(fields[name], rest - name.length - 2, levels);
  }
  return rest;
};

/**
 * Returns whether a value certainly has at least so many characters of JSON: strings count unescaped,
 * punctuation not at all. The cost does not grow with the value.
 */
export const isLongJson = (value: unknown, chars: number): boolean => without(value, chars) <= 0;

/** Returns whether a value has at most `max` bytes of JSON, without serialising one that is far larger. */
export const fitsBytes = (value: object, max: number): boolean =>
  !isLongJson(value, max + 1) && bytesOf(value) <= max;

/** Returns the name of the field with the most characters of JSON, the first of those that exceed `max`. */
const largestOf = (value: Record<string, unknown>, max: number): string => {
  const sizes = Object.entries(value).map(([name, part]) => ({ name, left: without(part, max) }));
  return sizes.reduce((largest, one) => (one.left < largest.left ? one : largest)).name;
};

/** Bounds values of a schema in bytes of compact JSON. Returns the schema with that check. */
export const boundBytes = <S extends z.ZodType>(schema: S, max: number): S =>
  schema.superRefine((value, context) => {
    if (!isJsonObject(value) || fitsBytes(value, max)) return;
    const message = `is the largest part of a document that may have ${max} bytes of JSON`;
    context.addIssue({ code: "custom", path: [largestOf(value, max)], message });
  });

/** Maximum nesting depth of `properties`, `attributes` and `metadata`. */
export const JSON_MAX_DEPTH = 32;

const FORBIDDEN_KEYS: ReadonlySet<string> = new Set(["__proto__", "constructor", "prototype"]);

const refuseHostileText = (path: string, value: string): void => {
  if (value.includes("\0")) throw invalidField(path, `${path} contains a NUL character`);
  if (!value.isWellFormed()) throw invalidField(path, `${path} contains half of a surrogate pair`);
};

const isHarmlessText = (value: string): boolean => !value.includes("\0") && value.isWellFormed();

const isHarmlessKey = (key: string): boolean => !FORBIDDEN_KEYS.has(key) && isHarmlessText(key);

/** Returns whether `refuseHostile` accepts the value. Builds no paths: nearly every value is harmless. */
const isHarmless = (value: unknown, depth: number): boolean => {
  if (typeof value === "string") return isHarmlessText(value);
  if (typeof value === "number") return Number.isFinite(value);
  if (value === null || typeof value !== "object") return true;
  if (depth > JSON_MAX_DEPTH) return false;
  for (const key of Object.keys(value)) {
    if (!isHarmlessKey(key)) return false;
    if (!isHarmless((value as Json)[key], depth + 1)) return false;
  }
  return true;
};

/**
 * Rejects JSON input that databases or JavaScript cannot handle safely: NUL, lone surrogates, prototype keys,
 * non-finite numbers, nesting deeper than JSON_MAX_DEPTH.
 * @throws DomainError VALIDATION_ERROR naming the path
 */
export const refuseHostile = (path: string, value: unknown): void => {
  if (!isHarmless(value, 0)) refuseFirst(path, value, 0);
};

/** Throws for the first hostile part of `value`. */
const refuseFirst = (path: string, value: unknown, depth: number): void => {
  if (typeof value === "string") return refuseHostileText(path, value);
  if (typeof value === "number" && !Number.isFinite(value))
    throw invalidField(path, `${path} is not a finite number`);
  if (value === null || typeof value !== "object") return;
  if (depth > JSON_MAX_DEPTH)
    throw invalidField(path.slice(0, 200), `${path.slice(0, 200)} is nested deeper than ${JSON_MAX_DEPTH}`);
  for (const key of Object.keys(value)) refuseFirst(refuseKey(path, key), (value as Json)[key], depth + 1);
};

/** @returns the path of the key's value */
const refuseKey = (path: string, key: string): string => {
  const inner = path === "" ? key : `${path}.${key}`;
  if (FORBIDDEN_KEYS.has(key)) throw invalidField(inner, `${inner} is a forbidden key`);
  refuseHostileText(`a key of ${path === "" ? "the event" : path}`, key);
  return inner;
};
