import { createHash, type Hash } from "node:crypto";
import { PacedBudget, paced, type Pieces } from "../domain/kernel/pace.ts";
import { TEXT_PER_STEP } from "../domain/kernel/step-budget.ts";
import { JSON_MAX_DEPTH } from "../domain/kernel/hostile-json.ts";

/** Operations that validate items themselves receive any depth, and refuse deeper items one by one. */
const DEPTH_MAX = JSON_MAX_DEPTH + 8;
/** Objects with more names are hashed in the order received: sorting them would take too long. */
const NAMES_SORTED_MAX = 5_000;
/** Steps for writing a value into a hash, in addition to its text. */
const WRITE_STEPS = 4;

const isNested = (value: unknown): value is object => typeof value === "object" && value !== null;

/** Writes a value without parts, or one that is too deep. */
const writePlain = (hash: Hash, value: unknown): void =>
  void hash.update(isNested(value) ? "…" : (JSON.stringify(value) ?? "null"));

const stepsOfText = (value: unknown): number =>
  typeof value === "string" ? value.length / TEXT_PER_STEP : 0;

function* writeItem(hash: Hash, value: unknown, depth: number): Pieces<void> {
  yield WRITE_STEPS + stepsOfText(value);
  if (isNested(value) && depth <= DEPTH_MAX) yield* writeNested(hash, value, depth);
  else writePlain(hash, value);
  hash.update(",");
}

function* writeNested(hash: Hash, value: object, depth: number): Pieces<void> {
  hash.update(Array.isArray(value) ? "[" : "{");
  if (Array.isArray(value)) for (const item of value) yield* writeItem(hash, item, depth + 1);
  else yield* writeFields(hash, value as Record<string, unknown>, depth);
  hash.update(Array.isArray(value) ? "]" : "}");
}

function* writeFields(hash: Hash, fields: Record<string, unknown>, depth: number): Pieces<void> {
  const names = Object.keys(fields);
  yield WRITE_STEPS * names.length;
  for (const name of names.length > NAMES_SORTED_MAX ? names : names.toSorted()) {
    hash.update(`${JSON.stringify(name)}:`);
    yield* writeItem(hash, fields[name], depth + 1);
  }
}

/**
 * Computes SHA-256 of JSON, in hex: equal for the same JSON with its names in another order. Yields to other
 * work in between, since a body may have hundreds of thousands of parts.
 */
export const fingerprintOf = async (json: Record<string, unknown>): Promise<string> => {
  const hash = createHash("sha256");
  await paced(writeNested(hash, json, 0), new PacedBudget(Infinity));
  return hash.digest("hex");
};
