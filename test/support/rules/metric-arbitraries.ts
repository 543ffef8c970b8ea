import * as fc from "fast-check";
import { Metric } from "../../../src/domain/evaluation/metrics/compile.ts";
import type { PastEvent } from "./rule-reference.ts";

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
export const start = fc.constantFrom(
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
const value = fc.oneof(
  fc.integer({ min: -50, max: 50 }),
  fc.integer({ min: -5_000_000, max: 5_000_000 }).map((n) => n / 1e6),
  fc.constantFrom("1", "a", true, false, null, undefined, [1], { n: 1 }),
);
const properties = fc.record({ v: value, kind: fc.constantFrom("x", "y", undefined) }, { requiredKeys: [] });

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
export const paceOf = ({ window: { type, ...rest } }: Metric): { stepMs: number; lateMs: number } => {
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
