import type { Cause, Json } from "../events.ts";
import type { Turn } from "./turn.ts";

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

/**
 * Changes attributes (by dotted path) and tags, and emits one `player.updated` with what differs.
 * @returns a sentence when the result would break a limit; then nothing has changed
 */
export const updatePlayer = (turn: Turn, change: ProfileChange, cause: Cause): string | undefined => {
  const { player } = turn;
  const attributes = changedAttributes(player.attributes, change);
  const removed = new Set(change.removeTags ?? []);
  const tags = [...new Set([...player.tags, ...(change.addTags ?? [])])].filter((tag) => !removed.has(tag));
  const problem =
    attributesProblem(attributes) ?? (tags.length > TAGS_MAX ? `more than ${TAGS_MAX} tags` : undefined);
  if (problem !== undefined) return problem;

  const before: Json = {};
  const after: Json = {};
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
  const { id: playerId, externalUserId } = player;
  turn.emit("player.updated", { playerId, externalUserId, changed, before, after, cause });
  return undefined;
};

/** A sentence when attributes break a limit, else undefined. */
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

const isObject = (value: unknown): value is Json =>
  value !== null && typeof value === "object" && !Array.isArray(value);

const changedAttributes = (attributes: Json, { set = {}, unset = [] }: ProfileChange): Json => {
  const result = structuredClone(attributes);
  for (const [path, value] of Object.entries(set)) {
    const keys = path.split(".");
    const last = keys.pop()!;
    let at = result;
    for (const key of keys) {
      const next = Object.hasOwn(at, key) ? at[key] : undefined;
      at = isObject(next) ? next : ((at[key] = {}) as Json);
    }
    at[last] = value;
  }
  for (const path of unset) {
    const keys = path.split(".");
    const last = keys.pop()!;
    let at: unknown = result;
    for (const key of keys) at = isObject(at) && Object.hasOwn(at, key) ? at[key] : undefined;
    if (isObject(at)) delete at[last];
  }
  return result;
};
