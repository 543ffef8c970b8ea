import assert from "node:assert/strict";
import { lastRunMs, nextRunMs } from "../../src/domain/evaluation/language/patterns.ts";
import { cases } from "../support/properties.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const QUARTER_MS = 15 * MINUTE_MS;

const ZONES = [
  "America/New_York",
  "America/Los_Angeles",
  "America/Santiago",
  "America/St_Johns",
  "America/Havana",
  "Europe/London",
  "Europe/Berlin",
  "Africa/Cairo",
  "Asia/Jerusalem",
  "Australia/Sydney",
  "Australia/Lord_Howe",
  "Pacific/Auckland",
];

const minutes = ["0", "30", "15,45", "0,30", "5-5"];
const FIXED = ["1", "2", "0", "23", "1,13", "2,3", "0-3", "1,2"].flatMap((hour) =>
  minutes.map((minute) => `${minute} ${hour} * * *`),
);
const INTERVALS = ["*/15 * * * *", "0 * * * *", "*/30 1,2 * * *", "30 */2 * * *", "0,30 */3 * * *"];

/** A fifth in the gate, all in the full suite. */
const some = <T>(all: readonly T[]): T[] => all.filter((_, i) => i % 5 < cases(5));

/** Minutes that a zone's clock is ahead of UTC, by the platform's own data. */
const offsetOf = (zone: string): ((ms: number) => number) => {
  const format = new Intl.DateTimeFormat("en", { timeZone: zone, timeZoneName: "longOffset" });
  const known = new Map<number, number>();
  return (ms) => {
    const quarter = Math.floor(ms / QUARTER_MS);
    const before = known.get(quarter);
    if (before !== undefined) return before;
    const name = format
      .formatToParts(quarter * QUARTER_MS)
      .find(({ type }) => type === "timeZoneName")!.value;
    const [, sign, hours, rest] = /^GMT(?:([+-])(\d\d):(\d\d))?$/.exec(name)!;
    const offset = (sign === "-" ? -1 : 1) * (Number(hours ?? 0) * 60 + Number(rest ?? 0));
    known.set(quarter, offset);
    return offset;
  };
};

/** The moments of 2025 to 2028 at which a zone's clocks change. */
const changesOf = (offset: (ms: number) => number): number[] => {
  const changes: number[] = [];
  for (let day = Date.UTC(2025, 0); day < Date.UTC(2029, 0); day += DAY_MS) {
    if (offset(day) === offset(day + DAY_MS)) continue;
    let at = day;
    while (offset(at) === offset(day)) at += QUARTER_MS;
    changes.push(at);
  }
  return changes;
};

const valuesOf = (field: string, size: number): Set<number> => {
  const all = Array.from({ length: size }, (_, n) => n);
  const inPart = (part: string) => {
    const [range, step] = part.split("/") as [string, string?];
    const [from, to = from] = range.split("-") as [string, string?];
    const [low, high] = range === "*" ? [0, size - 1] : [Number(from), Number(to)];
    return all.filter((n) => n >= low && n <= high && (n - low) % Number(step ?? 1) === 0);
  };
  return new Set(field.split(",").flatMap(inPart));
};

/** The runs in a span, by looking at every minute of it. */
const runsIn = (cron: string, offset: (ms: number) => number, [from, until]: [number, number]): number[] => {
  const [minute, hour] = cron.split(" ") as [string, string];
  const [onMinutes, onHours] = [valuesOf(minute, 60), valuesOf(hour, 24)];
  const isDue = (local: number): boolean => {
    const inDay = (((local % 1_440) + 1_440) % 1_440) | 0;
    return onMinutes.has(inDay % 60) && onHours.has(Math.floor(inDay / 60));
  };
  const isFixed = !/[*/]/.test(`${minute}${hour}`);
  const runs = new Set<number>();
  // How far the local clock has come: what it shows again is no new time of day.
  let shown = from / MINUTE_MS + offset(from) - 1;
  for (let ms = from; ms < until; ms += MINUTE_MS) {
    const local = ms / MINUTE_MS + offset(ms);
    if (!isFixed) {
      if (isDue(local)) runs.add(ms);
      continue;
    }
    for (let passed = shown + 1; passed <= local; passed++) if (isDue(passed)) runs.add(ms);
    shown = Math.max(shown, local);
  }
  return [...runs];
};

describe("schedules when clocks change", () => {
  for (const zone of some(ZONES))
    it(`run each time of day once, and intervals as time passes: ${zone}`, () => {
      const offset = offsetOf(zone);
      const changes = changesOf(offset);
      assert.ok(changes.length >= 6, `${changes.length} changes`);
      for (const change of changes) {
        const [from, until] = [change - DAY_MS - 2 * HOUR_MS, change + DAY_MS + 2 * HOUR_MS];
        for (const cron of [...some(FIXED), ...some(INTERVALS)]) {
          const expected = runsIn(cron, offset, [from, until]);
          const [seen, back]: number[][] = [[], []];
          for (let at = nextRunMs(cron, zone, from - 1_000)!; at < until; at = nextRunMs(cron, zone, at)!)
            seen!.push(at);
          for (let at = lastRunMs(cron, zone, until - 1)!; at >= from; at = lastRunMs(cron, zone, at - 1)!)
            back!.unshift(at);
          const what = `${cron} around ${new Date(change).toISOString()}`;
          assert.deepEqual(seen, expected, what);
          assert.deepEqual(back, expected, `${what}, backwards`);
        }
      }
    });
});
