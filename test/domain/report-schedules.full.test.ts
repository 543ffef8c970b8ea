import assert from "node:assert/strict";
import fc from "fast-check";
import {
  CheckedSchedule,
  lastDueMs,
  nextDueMs,
  type Times,
} from "../../src/domain/analytics/reports/schedule.ts";
import { cases } from "../support/properties.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** With changes of the clocks at midnight, of half an hour, near a change of the date line, or none. */
const ZONES = [
  "UTC",
  "Europe/Berlin",
  "America/New_York",
  "America/Sao_Paulo",
  "Africa/Cairo",
  "Asia/Beirut",
  "Australia/Lord_Howe",
  "Pacific/Apia",
  "America/St_Johns",
  "Asia/Kathmandu",
  "Pacific/Auckland",
];

const formats = new Map<string, Intl.DateTimeFormat>();
/** What the clocks of a zone show, as text that sorts: `2026-03-29 03:00`. */
const clockOf = (timezone: string, ms: number): string => {
  let format = formats.get(timezone);
  if (!format) {
    format = new Intl.DateTimeFormat("sv-SE", { timeZone: timezone, dateStyle: "short", timeStyle: "short" });
    formats.set(timezone, format);
  }
  return format.format(ms);
};

const dateOf = (day: number): string => new Date(day * DAY_MS).toISOString().slice(0, 10);

/** Whether a run is due on a date, by the calendar alone. */
const isDueOn = ({ every, weekday, day }: Times, date: number): boolean => {
  const at = new Date(date * DAY_MS);
  if (every === "DAY") return true;
  if (every === "WEEK") return (at.getUTCDay() || 7) === weekday;
  const last = new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 0)).getUTCDate();
  return at.getUTCDate() === Math.min(day!, last);
};

/**
 * A plain loop over the dates from one to another: for each due one, the first minute at which the clocks
 * show its hour or later.
 */
const plainTimes = (times: Times, fromMs: number, toMs: number): number[] => {
  const found = new Set<number>();
  for (let date = Math.floor(fromMs / DAY_MS) - 2; date <= Math.floor(toMs / DAY_MS) + 2; date++) {
    if (!isDueOn(times, date)) continue;
    const wanted = `${dateOf(date)} ${String(times.hour).padStart(2, "0")}:00`;
    // No zone is further than 15 hours from UTC, and no gap is longer than a day.
    let ms = date * DAY_MS + (times.hour - 15) * 60 * MINUTE_MS;
    while (clockOf(times.timezone, ms) < wanted) ms += MINUTE_MS;
    found.add(ms);
  }
  return [...found].filter((ms) => ms > fromMs && ms <= toMs).toSorted((a, b) => a - b);
};

/** The times of a schedule after a moment, as a worker that is never down goes from one to the next. */
const walked = (times: Times, fromMs: number, toMs: number): number[] => {
  const found: number[] = [];
  for (let ms = nextDueMs(times, fromMs); ms <= toMs; ms = nextDueMs(times, ms)) found.push(ms);
  return found;
};

const timesOf = fc
  .record({
    every: fc.constantFrom("DAY" as const, "WEEK" as const, "MONTH" as const),
    hour: fc.integer({ min: 0, max: 23 }),
    weekday: fc.integer({ min: 1, max: 7 }),
    day: fc.integer({ min: 1, max: 31 }),
    timezone: fc.constantFrom(...ZONES),
  })
  .map(({ weekday, day, ...rest }): Times => ({
    ...rest,
    ...(rest.every === "WEEK" ? { weekday } : {}),
    ...(rest.every === "MONTH" ? { day } : {}),
  }));

describe("schedules of reports", () => {
  it("are due as a plain loop over local dates has it, in any zone", () => {
    const start = fc.integer({ min: Date.UTC(2010, 0), max: Date.UTC(2026, 0) });
    fc.assert(
      fc.property(timesOf, start, (times, fromMs) => {
        const toMs = fromMs + (times.every === "MONTH" ? 70 : 12) * DAY_MS;
        assert.deepEqual(walked(times, fromMs, toMs), plainTimes(times, fromMs, toMs));
      }),
      { numRuns: cases(150) },
    );
  });

  it("were last due at the latest time of which the next is not over", () => {
    const moment = fc.integer({ min: Date.UTC(2010, 0), max: Date.UTC(2030, 0) });
    fc.assert(
      fc.property(timesOf, moment, (times, atMs) => {
        const last = lastDueMs(times, atMs);
        assert.ok(last <= atMs);
        assert.ok(nextDueMs(times, last) > atMs);
        assert.equal(lastDueMs(times, last), last);
      }),
      { numRuns: cases(500) },
    );
  });

  it("name the day that their kind needs, and no other", () => {
    const fieldsOf = (given: object): string[] => {
      const parsed = CheckedSchedule.safeParse({ hour: 6, ...given });
      return parsed.success ? [] : parsed.error.issues.map(({ path }) => path.join("."));
    };
    assert.deepEqual(fieldsOf({ every: "DAY" }), []);
    assert.deepEqual(fieldsOf({ every: "WEEK", weekday: 1 }), []);
    assert.deepEqual(fieldsOf({ every: "MONTH", day: 31 }), []);
    assert.deepEqual(fieldsOf({ every: "WEEK" }), ["weekday"]);
    assert.deepEqual(fieldsOf({ every: "MONTH", weekday: 2 }), ["day", "weekday"]);
    assert.deepEqual(fieldsOf({ every: "DAY", day: 1 }), ["day"]);
    assert.deepEqual(fieldsOf({ every: "DAY", timezone: "Mars/Olympus" }), ["timezone"]);
    assert.deepEqual(fieldsOf({ every: "DAY", timezone: "+02:00" }), ["timezone"]);
  });
});
