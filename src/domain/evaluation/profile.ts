import { isJsonObject } from "../kernel/json.ts";
import type { Cause, Json } from "../kernel/events/events.ts";
import { playerOf, type Turn } from "./turn.ts";

export const ATTRIBUTES_MAX_KEYS = 100;
export const ATTRIBUTES_MAX_BYTES = 8 * 1024;
export const ATTRIBUTES_MAX_DEPTH = 3;
export const TAGS_MAX = 50;

export type ProfileChange = {
  set?: Json;
  unset?: readonly string[];
  addTags?: readonly string[];
  removeTags?: readonly string[];
};

/** Changed fields, with their values before and after. */
export type Difference = { before: Json; after: Json };

/**
 * Changes attributes (by dotted path) and tags, and emits one `player.updated` with the differences.
 * @param other differences of other fields, published in the same event
 * @returns a message when the result would exceed a limit; then nothing has changed
 */
export const updatePlayer = (
  turn: Turn,
  change: ProfileChange,
  cause: Cause,
  other: Difference = { before: {}, after: {} },
): string | undefined => {
  const { player } = turn;
  const attributes = changedAttributes(player.attributes, change);
  const removed = new Set(change.removeTags ?? []);
  const tags = [...new Set([...player.tags, ...(change.addTags ?? [])])].filter((tag) => !removed.has(tag));
  const problem =
    attributesProblem(attributes) ?? (tags.length > TAGS_MAX ? `more than ${TAGS_MAX} tags` : undefined);
  if (problem !== undefined) return problem;

  const before = { ...other.before };
  const after = { ...other.after };
  if (!sameJson(attributes, player.attributes)) {
    before["attributes"] = player.attributes;
    after["attributes"] = attributes;
  }
  if (!sameJson(tags, player.tags)) {
    before["tags"] = player.tags;
    after["tags"] = tags;
  }
  const changed = Object.keys(after);
  if (changed.length === 0) return undefined;
  player.attributes = attributes;
  player.tags = tags;
  player.dirty.profile = true;
  turn.emit("player.updated", { ...playerOf(turn), changed, before, after, cause });
  return undefined;
};

/** Returns a message when attributes exceed a limit, otherwise undefined. */
export const attributesProblem = (attributes: Json): string | undefined => {
  if (Object.keys(attributes).length > ATTRIBUTES_MAX_KEYS)
    return `more than ${ATTRIBUTES_MAX_KEYS} attributes`;
  if (Buffer.byteLength(JSON.stringify(attributes)) > ATTRIBUTES_MAX_BYTES)
    return "attributes larger than 8 KiB";
  if (depthOf(attributes) > ATTRIBUTES_MAX_DEPTH)
    return `attributes nested deeper than ${ATTRIBUTES_MAX_DEPTH}`;
  return undefined;
};

export const sameJson = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

const depthOf = (value: unknown): number =>
  value !== null && typeof value === "object" ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0;

const changedAttributes = (attributes: Json, { set = {}, unset = [] }: ProfileChange): Json => {
  const result = structuredClone(attributes);
  for (const [path, value] of Object.entries(set)) setAt(result, path, value);
  for (const path of unset) unsetAt(result, path);
  return result;
};

const splitPath = (path: string): { parents: string[]; last: string } => {
  const parents = path.split(".");
  return { last: parents.pop()!, parents };
};

/** Sets a value, creating the objects on the path; a non-object on the path is replaced. */
const setAt = (target: Json, path: string, value: unknown): void => {
  const { parents, last } = splitPath(path);
  let at = target;
  for (const key of parents) {
    const next = Object.hasOwn(at, key) ? at[key] : undefined;
    const inner: Json = isJsonObject(next) ? next : {};
    at[key] = inner;
    at = inner;
  }
  at[last] = value;
};

const unsetAt = (target: Json, path: string): void => {
  const { parents, last } = splitPath(path);
  let at: unknown = target;
  for (const key of parents) at = isJsonObject(at) && Object.hasOwn(at, key) ? at[key] : undefined;
  if (isJsonObject(at)) delete at[last];
};
