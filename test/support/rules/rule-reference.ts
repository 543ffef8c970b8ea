import type { Json } from "../../../src/domain/kernel/events/events.ts";
import type { OperatorName } from "../../../src/domain/evaluation/language/operators.ts";

/**
 * Rules' conditions in the plainest words there are, without regard to speed: no closures, no counters, no
 * indexes. Written apart from what it is held against; it shares only types.
 */

export type Value = string | number | boolean | null | Value[] | undefined;

/** What has happened to a player, in the order in which it came. */
export type PastEvent = { type: string; at: number; properties: Json };

export type World = {
  event: PastEvent;
  nowMs: number;
  /** All of the player's events, the one in hand included. */
  history: readonly PastEvent[];
  player: Json;
  attributes: Json;
  /** What the player can spend, by currency; currencies that are not here do not exist. */
  available: Readonly<Record<string, number>>;
  /** Highest tier by badge. */
  badges: Readonly<Record<string, number>>;
  segments: readonly string[];
  scores: Readonly<Record<string, number>>;
  streaks: Readonly<Record<string, Readonly<Record<string, number>>>>;
  playerZone: string | undefined;
  projectZone: string;
};

const codePoints = (text: string): number[] => [...text].map((character) => character.codePointAt(0)!);

export const isBefore = (a: Value, b: Value): boolean | undefined => {
  if (typeof a === "number" && typeof b === "number") return a < b;
  if (typeof a !== "string" || typeof b !== "string") return undefined;
  const [left, right] = [codePoints(a), codePoints(b)];
  const at = left.findIndex((point, i) => point !== right[i]);
  return at === -1 ? left.length < right.length : at < right.length && left[at]! < right[at]!;
};

const escaped = (c: string): string => `\\u{${c.codePointAt(0)!.toString(16)}}`;
const globAsRegExp = (glob: string): RegExp => {
  const parts = [...glob].map((c) => ({ "*": ".*", "?": "." })[c] ?? escaped(c));
  return new RegExp(`^${parts.join("")}$`, "su");
};

const has = (list: Value, item: Value): boolean => Array.isArray(list) && list.some((each) => each === item);
const isText = (value: Value): value is string => typeof value === "string";
const isScalar = (value: Value): boolean => value !== undefined && !Array.isArray(value);

const TIME = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/;
const msOf = (value: Value): number => (isText(value) && TIME.test(value) ? Date.parse(value) : Number.NaN);

const DAY = 86_400_000;
const DURATIONS: Record<string, number> = { P7D: 7 * DAY, PT24H: DAY, PT0S: 0, P30D: 30 * DAY };
DURATIONS["P1WT1M"] = 7 * DAY + 60_000;
const spanOf = (value: Value): number => DURATIONS[String(value)] ?? Number.NaN;

/** The operators; `at` is the event's time. A missing value is undefined. */
export const says: Record<OperatorName, (actual: Value, operand: Value, at: number) => boolean> = {
  eq: (a, b) => a !== undefined && isScalar(b) && a === b,
  neq: (a, b, at) => !says.eq(a, b, at),
  gt: (a, b) => isBefore(b, a) === true,
  gte: (a, b) => isBefore(a, b) === false,
  lt: (a, b) => isBefore(a, b) === true,
  lte: (a, b) => isBefore(b, a) === false,
  between: (a, b, at) => says.gte(a, (b as Value[])[0], at) && says.lte(a, (b as Value[])[1], at),
  in: (a, b) => a !== undefined && has(b, a),
  not_in: (a, b, at) => !says.in(a, b, at),
  contains: (a, b) => (isText(a) && isText(b) ? a.includes(b) : isScalar(b) && has(a, b)),
  not_contains: (a, b, at) => !says.contains(a, b, at),
  contains_any: (a, b) => (b as Value[]).some((item) => has(a, item)),
  contains_all: (a, b) => (b as Value[]).every((item) => has(a, item)),
  starts_with: (a, b) => isText(a) && isText(b) && a.indexOf(b) === 0,
  ends_with: (a, b) => isText(a) && isText(b) && a.slice(Math.max(0, a.length - b.length)) === b,
  glob: (a, b) => isText(a) && isText(b) && globAsRegExp(b).test(a),
  exists: (a) => a !== undefined,
  not_exists: (a) => a === undefined,
  before: (a, b) => msOf(a) < msOf(b),
  after: (a, b) => msOf(a) > msOf(b),
  within_last: (a, b, at) => msOf(a) <= at && at - msOf(a) <= spanOf(b),
  older_than: (a, b, at) => at - msOf(a) > spanOf(b),
};

/** A value in JSON by its path: only what the JSON text would show. */
const lookUp = (json: unknown, path: string): Value => {
  let value: unknown = json;
  for (const name of path.split(".")) {
    if (value === null || typeof value !== "object" || !Object.keys(value).includes(name)) return undefined;
    value = (value as Json)[name];
  }
  return value as Value;
};

const fieldOf = (world: World, field: string): Value => {
  if (field.startsWith("attributes.")) return lookUp(world.attributes, field.slice(11));
  if (field.startsWith("currencies.")) return lookUp(world.available, field.slice(11));
  return world.player[field] as Value;
};

/** With the name that is shown, or the older one. */
type Reference = { ref?: string; $ref?: string; default?: Value };

const referenceOf = (world: World, { ref, $ref, default: fallback }: Reference): Value => {
  const { event } = world;
  const referent = ref ?? $ref!;
  let found: Value;
  if (referent === "event.type") found = event.type;
  else if (referent === "event.timestamp") found = new Date(event.at).toISOString();
  else if (referent.startsWith("event.properties.")) found = lookUp(event.properties, referent.slice(17));
  else found = fieldOf(world, referent.slice(7));
  return fallback !== undefined && (found === undefined || found === null) ? fallback : found;
};

const operandOf = (world: World, value: unknown): Value =>
  typeof value === "object" && value !== null && ("ref" in value || "$ref" in value)
    ? referenceOf(world, value as Reference)
    : (value as Value);

const clockIn = (zone: string, at: number) => {
  const parts = new Intl.DateTimeFormat("en-CA", {
    timeZone: zone,
    hourCycle: "h23",
    weekday: "short",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
  }).formatToParts(at);
  const part = (name: string) => parts.find(({ type }) => type === name)!.value;
  return {
    date: `${part("year")}-${part("month")}-${part("day")}`,
    time: `${part("hour")}:${part("minute")}`,
    weekday: ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].indexOf(part("weekday")) + 1,
  };
};

/** The name of the local day, week or month that holds a moment. */
export const windowName = (unit: string, zone: string, at: number): string => {
  const { date, weekday } = clockIn(zone, at);
  if (unit === "DAY") return date;
  if (unit === "MONTH") return date.slice(0, 7);
  return new Date(Date.parse(date) - (weekday - 1) * 86_400_000).toISOString().slice(0, 10);
};

const hears = (pattern: string, type: string): boolean => {
  if (pattern === "*") return !type.startsWith("player.") && !type.startsWith("system.");
  return pattern.endsWith(".*") ? type.startsWith(pattern.slice(0, -1)) : pattern === type;
};

type Leaf = Json & { op: OperatorName };
type Tree = { all: Tree[] } | { any: Tree[] } | { none: Tree[] } | Leaf;

const holdsTree = (node: Tree, leaf: (node: Leaf) => boolean): boolean => {
  if ("all" in node) return (node.all as Tree[]).every((one) => holdsTree(one, leaf));
  if ("any" in node) return (node.any as Tree[]).some((one) => holdsTree(one, leaf));
  if ("none" in node) return !(node.none as Tree[]).some((one) => holdsTree(one, leaf));
  return leaf(node);
};

const passesFilter = (filter: Tree, { properties, at }: PastEvent): boolean =>
  holdsTree(filter, ({ path, op, value }) =>
    says[op](lookUp(properties, path as string), value as Value, at),
  );

export type PlainMetric = {
  eventTypes: string[];
  filter?: unknown;
  aggregate: string;
  property?: string | undefined;
  window: Json;
};

const isInWindow = (world: World, window: Json, at: number): boolean => {
  const now = world.event.at;
  if (window["type"] === "SINCE") {
    const since = Date.parse(window["at"] as string);
    return since <= now && at >= since;
  }
  if (window["type"] === "CALENDAR") {
    const isPlayers = window["timezone"] !== "PROJECT";
    const zone = (isPlayers ? world.playerZone : undefined) ?? world.projectZone;
    const unit = window["unit"] as string;
    return windowName(unit, zone, at) === windowName(unit, zone, now);
  }
  if (window["type"] !== "ROLLING") return true;
  const part = ((window["seconds"] as number) * 1_000) / 60;
  const parts = Math.floor(now / part) - Math.floor(at / part);
  return parts >= 0 && parts <= 60;
};

const micro = (value: number): number => Math.round(value * 1e6) / 1e6;
const total = (values: readonly number[]): number =>
  Number(values.reduce((sum, value) => sum + BigInt(Math.round(value * 1e6)), 0n)) / 1e6;

const valuesOf = (metric: PlainMetric, counted: readonly PastEvent[]) => {
  const isOfKind = (value: Value) =>
    metric.aggregate === "distinct"
      ? ["string", "number", "boolean"].includes(typeof value)
      : typeof value === "number";
  return counted
    .map(({ at, properties }) => ({ at, value: lookUp(properties, metric.property ?? "") }))
    .filter(({ value }) => isOfKind(value)) as { at: number; value: number }[];
};

/** A metric by a loop over everything that ever happened. */
export const measure = (world: World, metric: PlainMetric): number | undefined => {
  const counted = world.history.filter(
    (event) =>
      metric.eventTypes.some((pattern) => hears(pattern, event.type)) &&
      (metric.filter === undefined || passesFilter(metric.filter as Tree, event)) &&
      isInWindow(world, metric.window, event.at),
  );
  if (metric.aggregate === "count") return counted.length;
  const samples = valuesOf(metric, counted);
  const values = samples.map(({ value }) => value);
  if (metric.aggregate === "sum") return total(values);
  if (metric.aggregate === "distinct") return new Set(values).size;
  if (values.length === 0) return undefined;
  if (metric.aggregate === "min") return Math.min(...values);
  if (metric.aggregate === "max") return Math.max(...values);
  if (metric.aggregate === "avg") return micro(total(values) / values.length);
  const latest = Math.max(...samples.map(({ at }) => at));
  return samples.findLast(({ at }) => at === latest)!.value;
};

type TimeWindow = {
  timezone: string;
  clock: string;
  daysOfWeek?: number[];
  daysOfMonth?: number[];
  between?: { from: string; to: string };
  dates?: { from: string; until: string };
  hours?: number[];
  after?: string;
  before?: string;
};

/** Whether a moment has come, at a time when no clocks change. */
const hasCome = (zone: string, text: string, at: number): boolean => {
  if (/(Z|[+-]\d\d:\d\d)$/.test(text)) return Date.parse(text) <= at;
  const { date, time } = clockIn(zone, at);
  return `${date}T${time}` >= (text.length === 10 ? `${text}T00:00` : text);
};

const zoneNamed = (world: World, name: string): string => {
  if (name === "PLAYER") return world.playerZone ?? world.projectZone;
  return name === "PROJECT" ? world.projectZone : name;
};

const isInTimeWindow = (world: World, condition: Json): boolean => {
  const { timezone, clock, daysOfWeek, daysOfMonth, between, dates, ...more } = condition as TimeWindow;
  const at = clock === "NOW" ? world.nowMs : world.event.at;
  const zone = zoneNamed(world, timezone);
  const now = clockIn(zone, at);
  const { hours, after, before } = more;
  const isBetween = ({ from, to }: { from: string; to: string }) =>
    from < to ? now.time >= from && now.time < to : now.time >= from || now.time < to;
  const parts = [
    !daysOfWeek || daysOfWeek.includes(now.weekday),
    !daysOfMonth || daysOfMonth.includes(Number(now.date.slice(8))),
    !between || isBetween(between),
    !hours || hours.includes(Number(now.time.slice(0, 2))),
    after === undefined || hasCome(zone, after, at),
    before === undefined || !hasCome(zone, before, at),
    !dates || (now.date >= dates.from && now.date <= dates.until),
  ];
  return !parts.includes(false);
};

const actualOf = (world: World, leaf: Leaf): Value => {
  const { type } = leaf;
  if (type === "event_property") return lookUp(world.event.properties, leaf["path"] as string);
  if (type === "player_property") return fieldOf(world, leaf["field"] as string);
  if (type === "event_aggregate") return measure(world, leaf["metric"] as PlainMetric);
  if (type === "leaderboard_rank") return world.scores[leaf["leaderboardKey"] as string];
  return world.streaks[leaf["streakKey"] as string]?.[leaf["measure"] as string];
};

const holdsLeaf = (world: World, leaf: Leaf): boolean => {
  if (leaf["type"] === "time_window") return isInTimeWindow(world, leaf);
  if (leaf["type"] === "segment") {
    const wanted = leaf["segmentKeys"] as string[];
    const held = wanted.filter((key) => world.segments.includes(key)).length;
    if (leaf["match"] === "ALL") return held === wanted.length;
    return leaf["match"] === "NONE" ? held === 0 : held > 0;
  }
  if (leaf["type"] === "progress_state") {
    const isHeld =
      (world.badges[leaf["key"] as string] ?? 0) >= ((leaf["minTier"] as number | undefined) ?? 1);
    return (leaf["states"] as string[]).includes(isHeld ? "HELD" : "NOT_HELD");
  }
  return says[leaf.op](actualOf(world, leaf), operandOf(world, leaf["value"]), world.event.at);
};

/** Whether a tree of conditions holds. */
export const holds = (world: World, node: unknown): boolean =>
  holdsTree(node as Tree, (leaf) => holdsLeaf(world, leaf));
