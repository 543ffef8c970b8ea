import * as fc from "fast-check";
import { OPERATOR_NAMES, type OperatorName } from "../../../src/domain/evaluation/language/operators.ts";
import type { PastEvent, Value } from "./rule-reference.ts";
import { Metric } from "../../../src/domain/evaluation/metrics/compile.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Zones with changes by an hour, half an hour and a whole day, and one that is never at a full hour. */
export const ZONES = [
  "Europe/Berlin",
  "America/New_York",
  "Australia/Lord_Howe",
  "Pacific/Apia",
  "Asia/Kathmandu",
];
export const zone = fc.constantFrom(undefined, ...ZONES);

/** Moments beside the changes of these zones, and beside the turn of a year. */
const start = fc.constantFrom(
  ...[
    "2026-03-27T22:00:00Z",
    "2026-10-31T03:00:00Z",
    "2026-04-03T12:00:00Z",
    "2011-12-28T09:00:00Z",
    "2025-12-29T20:00:00Z",
  ].map((text) => Date.parse(text)),
);

export const TYPES = ["tried", "quiz.done", "quiz.done.well", "player.level_up"];
const patterns = fc.constantFrom(["tried"], ["quiz.*"], ["*"], ["player.level_up", "quiz.done"], ["nothing"]);
const aValue = fc.oneof(
  fc.integer({ min: -50, max: 50 }),
  fc.integer({ min: -5_000_000, max: 5_000_000 }).map((n) => n / 1e6),
  fc.constantFrom("1", "a", true, false, null, undefined, [1], { n: 1 }),
);
const properties = fc.record({ v: aValue, kind: fc.constantFrom("x", "y", undefined) }, { requiredKeys: [] });

const filter = fc.constantFrom(
  undefined,
  { path: "kind", op: "eq", value: "x" },
  { none: [{ path: "kind", op: "eq", value: "x" }, { all: [{ path: "v", op: "lt", value: 0 }] }] },
  {
    any: [
      { path: "kind", op: "in", value: ["y"] },
      { path: "v", op: "gte", value: 10 },
    ],
  },
);

const window = fc.oneof(
  fc.constant({ type: "LIFETIME" }),
  fc.record({
    type: fc.constant("CALENDAR"),
    unit: fc.constantFrom("DAY", "WEEK", "MONTH"),
    timezone: fc.constantFrom("PLAYER", "PROJECT"),
  }),
  fc.record({ type: fc.constant("ROLLING"), seconds: fc.constantFrom(60, 86_400, 1_000_003) }),
  fc.record({ type: fc.constant("SINCE"), at: start.map((ms) => new Date(ms + 2 * DAY).toISOString()) }),
);

const aggregate = fc.constantFrom("sum", "min", "max", "avg", "latest", "distinct");

/** Any metric, as designers write it. */
export const metric = fc
  .record({ eventTypes: patterns, filter, window })
  .chain((parts) =>
    fc.oneof(
      fc.constant({ ...parts, aggregate: "count" }),
      aggregate.map((name) => ({ ...parts, aggregate: name, property: "v" })),
    ),
  )
  .map((document) => Metric.parse(document));

/** How far time goes on between two events at most, and how late one may come and still be in time. */
const paceOf = ({ window: { type, ...rest } }: Metric): { stepMs: number; lateMs: number } => {
  if (type === "ROLLING") {
    const spanMs = (rest as { seconds: number }).seconds * 1_000;
    return { stepMs: spanMs / 3, lateMs: (spanMs * 29) / 60 };
  }
  if (type !== "CALENDAR") return { stepMs: 3 * DAY, lateMs: 30 * DAY };
  const days = { DAY: 1, WEEK: 7, MONTH: 28 }[(rest as { unit: "DAY" | "WEEK" | "MONTH" }).unit];
  return { stepMs: days * 1.5 * DAY, lateMs: days * 6 * DAY };
};

/** Events in the order of their arrival, each of them in time for the metric. */
export const eventsFor = (counted: Metric, max = 25): fc.Arbitrary<PastEvent[]> => {
  const { stepMs, lateMs } = paceOf(counted);
  const one = fc.record({
    type: fc.constantFrom(...TYPES),
    properties,
    step: fc.oneof(fc.constant(0), fc.nat(Math.floor(stepMs))),
    late: fc.oneof(fc.constant(0), fc.nat(Math.floor(lateMs))),
  });
  return fc.tuple(start, fc.array(one, { minLength: 1, maxLength: max })).map(([startMs, steps]) => {
    let newest = startMs;
    return steps.map(({ type, properties: props, step, late }) => {
      newest += step;
      // JSON knows no undefined.
      const clean = JSON.parse(JSON.stringify(props)) as PastEvent["properties"];
      return { type, at: newest - late, properties: clean };
    });
  });
};

/** Any conditions, and any values for them to look at. */

export const word = fc.string({
  unit: fc.constantFrom("a", "b", "A", "*", "?", ".", "\u{1F600}", "\uFFFD"),
  maxLength: 4,
});
const time = fc.constantFrom(
  "2026-06-15",
  "2026-06-15T12:00:00Z",
  "2026-06-14T12:00:00+02:00",
  "2026-06-08T12:00:00Z",
  "2026-06-15T12:00:00.001Z",
);
const scalar: fc.Arbitrary<string | number | boolean | null> = fc.oneof(
  word,
  time,
  fc.integer({ min: -3, max: 3 }),
  fc.constantFrom(0.5, -0, true, false, null, Number.MAX_SAFE_INTEGER, 1e300),
);
const list = fc.array(scalar, { minLength: 1, maxLength: 4 });
/** What a property may hold; undefined leaves it out. */
export const actual = fc.oneof<fc.Arbitrary<Value>[]>(scalar, list, fc.constant(undefined), fc.constant([]));
const orderable = fc.oneof(word, fc.integer({ min: -3, max: 3 }));
const range = fc.oneof(
  fc.tuple(fc.integer({ min: -3, max: 0 }), fc.integer({ min: 0, max: 3 })),
  word.map((low) => [low, `${low}b`]),
);

/** Operands that fit, by operator. */
export const OPERANDS: Record<OperatorName, fc.Arbitrary<unknown>> = {
  eq: scalar,
  neq: scalar,
  gt: orderable,
  gte: orderable,
  lt: orderable,
  lte: orderable,
  between: range,
  in: list,
  not_in: list,
  contains: scalar,
  not_contains: scalar,
  contains_any: list,
  contains_all: list,
  starts_with: word,
  ends_with: word,
  glob: word,
  exists: fc.constant(undefined),
  not_exists: fc.constant(undefined),
  before: time,
  after: time,
  within_last: fc.constantFrom("P7D", "PT24H", "PT0S", "P1WT1M"),
  older_than: fc.constantFrom("P7D", "PT24H"),
};

export const comparison = fc
  .constantFrom(...OPERATOR_NAMES)
  .chain((op) => OPERANDS[op].map((value) => ({ op, ...(value === undefined ? {} : { value }) })));

const NUMERIC = ["eq", "neq", "gt", "gte", "lt", "lte"] as const;
const someNumber = fc.oneof(fc.integer({ min: -3, max: 12 }), fc.constantFrom(0.5, 2.5));
const numeric = fc.oneof(
  fc.record({ op: fc.constantFrom(...NUMERIC), value: someNumber }),
  fc.tuple(fc.integer({ min: -3, max: 3 }), fc.nat(5)).map(([low, more]) => ({
    op: "between",
    value: [low, low + more],
  })),
);

/** Names of a prototype, of arrays and of texts among those that lead somewhere. */
export const HOSTILE_PATHS = [
  "__proto__",
  "__proto__.polluted",
  "constructor.name",
  "toString",
  "deep.__proto__.x",
  "p.length",
  "p.0",
  "deep.0.x",
];
const path = fc.constantFrom("p", "deep.a.b.c", "deep.a", ...HOSTILE_PATHS);
const FIELDS = "xp level lives status timezone tags country createdAt lastSeenAt";
const PATHS_OF_PLAYERS = "attributes.q attributes.deep.x attributes.toString";
const CURRENCIES = "currencies.gold currencies.silver currencies.none currencies.constructor";
const field = fc.constantFrom(...`${FIELDS} ${PATHS_OF_PLAYERS} ${CURRENCIES}`.split(" "));
const REFERENCED = ["player.attributes.q", "player.level", "player.lives", "player.currencies.gold"];
const MORE_REFERENCED = ["player.currencies.none", "event.properties.p", "event.type", "event.timestamp"];
const referent = fc.constantFrom(...REFERENCED, ...MORE_REFERENCED);
const reference = fc.oneof(
  fc.record({ ref: referent, default: scalar }, { requiredKeys: ["ref"] }),
  fc.record({ $ref: referent, default: scalar }, { requiredKeys: ["$ref"] }),
);
const takesReference = fc.constantFrom(
  ..."eq neq gt lte contains not_contains starts_with glob before".split(" "),
);

const TIME_WINDOWS = [
  { type: "time_window", daysOfWeek: [1, 2], timezone: "UTC", clock: "EVENT" },
  { type: "time_window", between: { from: "22:00", to: "06:00" }, timezone: "PLAYER", clock: "NOW" },
  { type: "time_window", between: { from: "01:30", to: "24:00" }, timezone: "PLAYER", clock: "EVENT" },
  {
    type: "time_window",
    daysOfMonth: [1, 15, 29, 30],
    dates: { from: "2011-12-29", until: "2026-04-04" },
    timezone: "PROJECT",
    clock: "EVENT",
  },
  { type: "time_window", after: "2026-06-08T02:30", hours: [0, 1, 2, 3], timezone: "PLAYER", clock: "EVENT" },
  { type: "time_window", before: "2026-06-12", after: "2026-06-03", timezone: "PLAYER", clock: "EVENT" },
  { type: "time_window", before: "2026-06-06T12:00:00+02:00", timezone: "PROJECT", clock: "EVENT" },
];

export const BADGES = ["gold", "silver", "none"];
export const SEGMENTS = ["vip", "new", "none"];
const badge = fc.record(
  {
    type: fc.constant("progress_state"),
    entity: fc.constant("badge"),
    key: fc.constantFrom(...BADGES),
    states: fc.constantFrom(["HELD"], ["NOT_HELD"], ["HELD", "NOT_HELD"]),
    minTier: fc.integer({ min: 1, max: 4 }),
  },
  { requiredKeys: ["type", "entity", "key", "states"] },
);
const segment = fc.record({
  type: fc.constant("segment"),
  segmentKeys: fc.uniqueArray(fc.constantFrom(...SEGMENTS), { minLength: 1 }),
  match: fc.constantFrom("ANY", "ALL", "NONE"),
});

/** One condition of any kind, as it is stored. */
export const leaf = fc.oneof(
  fc.tuple(path, comparison).map(([at, part]) => ({ type: "event_property", path: at, ...part })),
  fc.tuple(field, comparison).map(([of, part]) => ({ type: "player_property", field: of, ...part })),
  fc
    .tuple(path, takesReference, reference)
    .map(([at, op, value]) => ({ type: "event_property", path: at, op, value })),
  fc.tuple(metric, numeric).map(([counted, part]) => ({ type: "event_aggregate", metric: counted, ...part })),
  fc.tuple(fc.constantFrom("board", "other"), numeric).map(([leaderboardKey, part]) => ({
    type: "leaderboard_rank",
    leaderboardKey,
    period: "CURRENT",
    measure: "score",
    ...part,
  })),
  fc
    .tuple(fc.constantFrom("daily", "other"), fc.constantFrom("current", "longest", "freezes"), numeric)
    .map(([streakKey, measure, part]) => ({ type: "streak", streakKey, measure, ...part })),
  badge,
  segment,
  fc.constantFrom(...TIME_WINDOWS),
);

/** A tree of conditions. */
export const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
  tree: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    leaf,
    fc.array(tie("tree"), { maxLength: 3 }).map((all) => ({ all })),
    fc.array(tie("tree"), { minLength: 1, maxLength: 3 }).map((any) => ({ any })),
    fc.array(tie("tree"), { minLength: 1, maxLength: 3 }).map((none) => ({ none })),
  ),
}));

/** The metrics that a tree reads. */
export const metricsIn = (node: unknown): never[] => {
  if (Array.isArray(node)) return node.flatMap(metricsIn);
  if (node === null || typeof node !== "object") return [];
  if ("metric" in node) return [node.metric as never];
  return Object.values(node).flatMap(metricsIn);
};
