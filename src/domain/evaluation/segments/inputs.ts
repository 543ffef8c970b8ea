import type { Json } from "../../kernel/events/events.ts";
import { metricId } from "../metrics/metric-id.ts";
import type { PlayerState } from "../player-state.ts";
import { compilePath } from "../language/paths.ts";

/**
 * What a segment's definition reads of a player. While none of it has changed, neither has membership, but
 * for what time alone changes (`isTimed`).
 */
export type SegmentInputs = {
  /** Names of inputs, each once; see `readerOf`. */
  names: readonly string[];
  /** Time alone can change it: rolling and calendar windows, ages, the time of day, ranks, lives. */
  isTimed: boolean;
  /** Segments that it reads. */
  segmentKeys: readonly string[];
};

/** Reads an input: another value, by `Object.is`, whenever what the player holds has changed. */
export type InputReader = (player: PlayerState) => unknown;

const TIMED_OPERATORS: ReadonlySet<unknown> = new Set(["within_last", "older_than"]);
const TIMED_WINDOWS: ReadonlySet<unknown> = new Set(["CALENDAR", "ROLLING"]);
const CURRENCY = "currencies.";
const ATTRIBUTE = "attributes.";

type Found = { names: Set<string>; segmentKeys: Set<string>; isTimed: boolean };

const isObject = (value: unknown): value is Json => value !== null && typeof value === "object";

/** A `$ref` to the player, wherever it stands in a condition. */
const referencesOf = (value: unknown): string[] => {
  if (!isObject(value)) return [];
  const { $ref } = value;
  const own = typeof $ref === "string" && $ref.startsWith("player.") ? [$ref.slice("player.".length)] : [];
  return [...own, ...Object.values(value).flatMap(referencesOf)];
};

const addField = (found: Found, field: string): void => {
  found.names.add(`field:${field}`);
  if (field === "lives") found.isTimed = true;
};

type Finder = (found: Found, condition: Json) => void;

/** By type of condition. */
const FINDERS: Record<string, Finder> = {
  player_property: (found, { field, op }) => {
    addField(found, String(field));
    if (TIMED_OPERATORS.has(op)) found.isTimed = true;
  },
  event_aggregate: (found, { metric }) => {
    found.names.add(`metric:${metricId(metric as never)}`);
    const { window } = metric as { window?: { type?: unknown } };
    if (!TIMED_WINDOWS.has(window?.type)) return;
    found.isTimed = true;
    found.names.add("field:timezone");
  },
  // A streak that breaks is settled by the sweep of streaks, which changes what the player holds.
  streak: (found, { streakKey }) => void found.names.add(`streak:${String(streakKey)}`),
  progress_state: (found, { entity, key }) => void found.names.add(`${String(entity)}:${String(key)}`),
  leaderboard_rank: (found) => {
    found.names.add("entries");
    found.isTimed = true;
  },
  segment: (found, { segmentKeys }) => {
    for (const key of segmentKeys as string[]) found.segmentKeys.add(key);
  },
  time_window: (found) => {
    found.names.add("field:timezone");
    found.isTimed = true;
  },
};

const visit = (found: Found, node: unknown): void => {
  const { all, any, none, ...condition } = node as Json;
  const members = all ?? any ?? none;
  if (Array.isArray(members)) return members.forEach((member) => visit(found, member));
  FINDERS[String(condition["type"])]?.(found, condition);
  for (const field of referencesOf(condition)) addField(found, field);
};

/** What a segment's conditions read. */
export const inputsOf = (definition: unknown): SegmentInputs => {
  const found: Found = { names: new Set(), segmentKeys: new Set(), isTimed: false };
  visit(found, definition);
  const segmentKeys = [...found.segmentKeys];
  return {
    names: [...found.names, ...segmentKeys.map((key) => `segment:${key}`)],
    segmentKeys,
    isTimed: found.isTimed,
  };
};

const FIELDS: Record<string, InputReader> = {
  createdAt: (player) => player.createdAt.getTime(),
  lastSeenAt: (player) => player.lastSeenAt?.getTime(),
};

const fieldReader = (field: string): InputReader => {
  if (field.startsWith(CURRENCY)) {
    const key = field.slice(CURRENCY.length);
    return (player) => player.balances.get(key);
  }
  if (field.startsWith(ATTRIBUTE)) {
    const read = compilePath(field.slice(ATTRIBUTE.length));
    return (player) => read(player.attributes);
  }
  return FIELDS[field] ?? ((player) => player[field as keyof PlayerState]);
};

const READERS: Record<string, (name: string) => InputReader> = {
  field: fieldReader,
  metric: (id) => (player) => player.doc.c?.[id],
  streak: (key) => (player) => player.streaks.get(key),
  badge: (key) => (player) => player.badges.get(key),
  segment: (key) => (player) => player.segments.has(key),
  // The number of changes in hand, and so another one with every change.
  entries: () => (player) => [...player.entries.values()].reduce((sum, { version }) => sum + version, 0),
};

/** Reads the input of a name, such as `field:xp` or `metric:{id}`. */
export const readerOf = (name: string): InputReader => {
  const colon = name.indexOf(":");
  const [kind, rest] = colon === -1 ? [name, ""] : [name.slice(0, colon), name.slice(colon + 1)];
  return READERS[kind]?.(rest) ?? (() => undefined);
};
