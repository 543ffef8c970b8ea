import { invalidField } from "./errors.ts";
import type { Json } from "./events/events.ts";

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
