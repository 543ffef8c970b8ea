import * as fc from "fast-check";
import { OPERATOR_NAMES, type OperatorName } from "../../../src/domain/evaluation/language/operators.ts";
import { metric } from "./metric-arbitraries.ts";
import type { Value } from "./rule-reference.ts";

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
export const scalar: fc.Arbitrary<string | number | boolean | null> = fc.oneof(
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
