import { ArraySchema, MapSchema, Schema } from "@colyseus/schema";
import { ROOM_STATE_MAX_BYTES, type RoomState } from "../domain/kernel/live-rooms.ts";

/** Placeholder for hidden values. */
const REDACTED = "[redacted]";
/** Names of credentials and personal data; at any depth, including data written by games. */
const PRIVATE =
  /^(code|joincode|pass(code|word|phrase)?|pin|.*secret|.*token|.*apikey|displayname|externaluserid|email)$/;
/** Fields of room states that hold JSON as text. */
const JSON_TEXTS = new Set(["settings", "metadata", "data", "results"]);

type Entry = readonly [name: string, value: unknown];
type Field = { name: string; tag?: number; deprecated?: boolean };

const isPrivate = (name: string): boolean => PRIVATE.test(name.replaceAll(/[_-]/g, "").toLowerCase());

/** Fields that only some views see are private to these. */
const fieldsOf = (state: Schema): Entry[] => {
  const fields = (state.constructor as typeof Schema)[Symbol.metadata] as unknown as Record<string, Field>;
  return Object.keys(fields)
    .map((index) => fields[index]!)
    .filter(({ deprecated }) => deprecated !== true)
    .map(({ name, tag }) => [name, tag === undefined ? state[name as keyof Schema] : REDACTED]);
};

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
};

/** Returns the entries of a container, read lazily; undefined for a plain value. */
const partsOf = (value: unknown): { isList: boolean; entries: Iterable<Entry> } | undefined => {
  if (typeof value !== "object" || value === null) return undefined;
  if (value instanceof Schema) return { isList: false, entries: fieldsOf(value) };
  if (value instanceof MapSchema) return { isList: false, entries: value.entries() as Iterable<Entry> };
  if (value instanceof ArraySchema || Array.isArray(value))
    return { isList: true, entries: Array.from(value as Iterable<unknown>, (item, i) => [String(i), item]) };
  return { isList: false, entries: Object.entries(value) };
};

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value) ?? "null");

/** Reads a state until its JSON reaches the size limit. */
class StateReader {
  #left = ROOM_STATE_MAX_BYTES;
  isCut = false;

  /** Returns the visible form of a value; undefined when there is no space left. */
  read(name: string, value: unknown): unknown {
    const isText = JSON_TEXTS.has(name) && typeof value === "string";
    const shown = isPrivate(name) ? REDACTED : isText ? parsed(value) : value;
    const parts = partsOf(shown);
    if (!parts) return this.#take(bytesOf(shown) + 1) ? (shown ?? null) : undefined;
    if (!this.#take(3)) return undefined;
    const entries = this.#readAll(parts);
    return parts.isList ? entries.map(([, item]) => item) : Object.fromEntries(entries);
  }

  #readAll({ isList, entries }: NonNullable<ReturnType<typeof partsOf>>): [string, unknown][] {
    const read: [string, unknown][] = [];
    for (const [name, value] of entries) {
      if (!isList && !this.#take(bytesOf(name) + 1)) break;
      const shown = this.read(isList ? "" : name, value);
      if (shown === undefined) break;
      read.push([name, shown]);
    }
    return read;
  }

  #take(bytes: number): boolean {
    const fits = bytes <= this.#left;
    if (fits) this.#left -= bytes;
    else this.isCut = true;
    return fits;
  }
}

/**
 * Returns the state of a room for an operator: what all clients see of it, without secrets and personal
 * names.
 */
export const stateForOperator = (state: Schema): RoomState => {
  const reader = new StateReader();
  const shown = reader.read("", state) as Record<string, unknown>;
  return { state: shown, isStateTruncated: reader.isCut };
};
