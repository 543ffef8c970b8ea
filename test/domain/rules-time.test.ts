import assert from "node:assert/strict";
import * as fc from "fast-check";
import { timeWindow } from "../../src/domain/evaluation/conditions/time-window.ts";
import {
  CALENDAR_UNITS,
  WEEK_DAYS,
  firstInstant,
  firstZone,
  isIanaName,
  isZone,
  localTime,
  offsetAt,
  plainCalendar,
  windowNumber,
  windowStart,
} from "../../src/domain/kernel/zones.ts";
import { aPlayer, aTurn } from "../support/rules/evaluation.ts";
import { cases } from "../support/properties.ts";

const ZONES = [
  "UTC",
  "Europe/Berlin",
  "America/New_York",
  "America/St_Johns",
  "Australia/Lord_Howe",
  "Pacific/Apia",
  "Asia/Kathmandu",
  "Africa/Monrovia",
];
const zone = fc.constantFrom(...ZONES);
const instant = fc.integer({ min: Date.parse("1965-01-01"), max: Date.parse("2035-01-01") });
/** Around the changes of clocks in 2026, where mistakes live. */
const atChange = fc
  .tuple(
    fc.constantFrom(
      "2026-03-08T07:00Z",
      "2026-03-29T01:00Z",
      "2026-10-25T01:00Z",
      "2026-11-01T06:00Z",
      "2026-04-04T15:00Z",
      "2011-12-30T10:00Z",
    ),
    fc.integer({ min: -9e6, max: 9e6 }),
  )
  .map(([text, offset]) => Date.parse(text) + offset);
const anyTime = fc.oneof(instant, atChange);

const WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const byIntl = (timeZone: string, ms: number): unknown => {
  const parts: Record<string, string> = {};
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone,
    hourCycle: "h23",
    weekday: "short",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
  });
  for (const { type, value } of format.formatToParts(ms)) parts[type] = value;
  const minute = Number(parts["hour"]) * 60 + Number(parts["minute"]);
  return {
    weekday: WEEKDAYS.indexOf(parts["weekday"]!) + 1,
    day: Number(parts["day"]),
    month: Number(parts["month"]),
    year: Number(parts["year"]),
    minute,
  };
};

const holds = (window: object, iso: string, timezone: string | null = null): boolean => {
  const condition = timeWindow.schema.parse({ type: "time_window", ...window });
  return timeWindow.compile(condition)(
    aTurn({ at: Date.parse(iso), player: aPlayer({ timezone }), timezone: "Asia/Tokyo" }),
  );
};

describe("local time", () => {
  it("are in zones and links of IANA, not in abbreviations that mean several places", () => {
    const good = ["UTC", "Etc/GMT+5", "EST5EDT", "CET", "PRC", "US/Pacific", "Asia/Calcutta", "Asia/Kolkata"];
    assert.deepEqual(
      good.filter((name) => !isIanaName(name)),
      [],
    );
    const bad = [
      "BST",
      "SST",
      "IST",
      "CST",
      "PST",
      "US/Pacific-New",
      "SystemV/PST8",
      "+02:00",
      "Asia/Hanoi",
      "",
    ];
    assert.deepEqual(bad.filter(isIanaName), []);
    // What was stored before is still understood.
    assert.ok(isZone("BST"));
  });

  it("is what Intl says, in any zone, across every change of clocks", () => {
    fc.assert(
      fc.property(zone, anyTime, (name, ms) => {
        const { dayNumber, ...local } = localTime(name, ms);
        assert.deepEqual(local, byIntl(name, ms));
        assert.equal(new Date(dayNumber * 86_400_000).getUTCDate(), local.day);
      }),
      { numRuns: cases(1_500) },
    );
  });

  const calendars = fc.record({
    zone,
    weekStartsOn: fc.constantFrom(...WEEK_DAYS),
    dayStartsMs: fc.constantFrom(0, 4, 23.75).map((hours) => hours * 3_600_000),
  });

  it("puts every instant in a day, week and month that starts before it and ends after it", () => {
    fc.assert(
      fc.property(calendars, anyTime, fc.constantFrom(...CALENDAR_UNITS), (calendar, ms, unit) => {
        const number = windowNumber(unit, calendar, ms);
        assert(windowStart(unit, calendar, number) <= ms);
        // Where clocks go back over midnight, the day before comes twice.
        if (calendar.zone !== "America/St_Johns") assert(windowStart(unit, calendar, number + 1) > ms);
        assert.equal(windowNumber(unit, calendar, windowStart(unit, calendar, number)) >= number, true);
      }),
      { numRuns: cases(1_000) },
    );
  });

  it("begins days, weeks from Sunday and months as long after midnight as a project says", () => {
    const calendar = { zone: "Europe/Berlin", weekStartsOn: 7, dayStartsMs: 4 * 3_600_000 } as const;
    const starts = CALENDAR_UNITS.map((unit) => {
      const number = windowNumber(unit, calendar, Date.parse("2026-05-01T01:59:59Z"));
      return [windowStart(unit, calendar, number), windowStart(unit, calendar, number + 1)].map((ms) =>
        new Date(ms).toISOString().slice(0, 16),
      );
    });
    assert.deepEqual(starts, [
      ["2026-04-30T02:00", "2026-05-01T02:00"],
      ["2026-04-26T02:00", "2026-05-03T02:00"],
      ["2026-04-01T02:00", "2026-05-01T02:00"],
    ]);
  });

  it("starts weeks on Monday and days at midnight, 23 and 25 hours long at the changes", () => {
    const monday = Date.parse("2026-06-15T00:00:00Z");
    assert.equal(
      windowNumber("WEEK", plainCalendar("UTC"), monday),
      windowNumber("WEEK", plainCalendar("UTC"), monday - 1) + 1,
    );
    const berlin = plainCalendar("Europe/Berlin");
    const start = (iso: string): number =>
      windowStart("DAY", berlin, windowNumber("DAY", berlin, Date.parse(iso)));
    assert.equal(start("2026-03-30T12:00Z") - start("2026-03-29T12:00Z"), 23 * 3_600_000);
    assert.equal(start("2026-10-26T12:00Z") - start("2026-10-25T12:00Z"), 25 * 3_600_000);
  });

  it("comes to a reading at the first instant that shows it or, where it is skipped, a later one", () => {
    const HOUR_MS = 3_600_000;
    fc.assert(
      fc.property(zone, anyTime, (name, reading) => {
        const first = firstInstant(name, reading);
        const shows = (ms: number): number => ms + offsetAt(name, ms);
        assert.ok(shows(first) >= reading);
        // Clocks change by a day at most, where a date was skipped.
        for (let back = 1; back < 26 * HOUR_MS; back += HOUR_MS / 4 - 7)
          assert.ok(shows(first - back) < reading, `${back} ms before`);
      }),
      { numRuns: cases(500) },
    );
    const at = (text: string, name = "Europe/Berlin") =>
      new Date(firstInstant(name, Date.parse(`${text}Z`))).toISOString();
    assert.equal(at("2026-03-29T02:30"), "2026-03-29T01:00:00.000Z", "clocks go from 2 to 3");
    assert.equal(at("2026-10-25T02:30"), "2026-10-25T00:30:00.000Z", "it comes twice");
    assert.equal(at("2011-12-30T12:00", "Pacific/Apia"), "2011-12-30T10:00:00.000Z", "a day without a date");
  });

  it("takes the first name that is a zone", () => {
    assert(isZone("Europe/Berlin") && !isZone("Mars/Base") && !isZone(""));
    assert.equal(firstZone(null, "nonsense", "Asia/Tokyo"), "Asia/Tokyo");
    assert.equal(firstZone(undefined, "nonsense"), "UTC");
  });
});

describe("time windows", () => {
  it("include their start, exclude their end and may wrap midnight", () => {
    const night = { between: { from: "22:00", to: "06:00" }, timezone: "UTC" };
    for (const time of ["22:00:00", "23:59:59", "00:00:00", "05:59:59"])
      assert(holds(night, `2026-06-15T${time}Z`), time);
    for (const time of ["21:59:59", "06:00:00", "12:00:00"])
      assert(!holds(night, `2026-06-15T${time}Z`), time);
    const evening = { between: { from: "20:00", to: "24:00" }, timezone: "UTC" };
    assert(holds(evening, "2026-06-15T23:59:59Z") && !holds(evening, "2026-06-16T00:00:00Z"));
  });

  it("agree with a scan of the minutes, wrapping or not", () => {
    const minute = fc.integer({ min: 0, max: 1_439 });
    const text = (m: number): string =>
      `${String(Math.floor(m / 60)).padStart(2, "0")}:${String(m % 60).padStart(2, "0")}`;
    fc.assert(
      fc.property(minute, minute, minute, (from, to, now) => {
        fc.pre(from !== to);
        let inside = false;
        for (let m = from; m !== to; m = (m + 1) % 1_440) inside ||= m === now;
        const window = { between: { from: text(from), to: text(to) }, timezone: "UTC" };
        assert.equal(holds(window, `2026-06-15T${text(now)}:30Z`), inside);
      }),
    );
  });

  it("use the player's zone, else the project's, or the one they name", () => {
    const morning = { between: { from: "09:00", to: "10:00" } };
    assert(holds(morning, "2026-06-15T07:30:00Z", "Europe/Berlin"));
    assert(holds(morning, "2026-06-15T00:30:00Z", null), "the project is in Tokyo");
    assert(holds({ ...morning, timezone: "PROJECT" }, "2026-06-15T00:30:00Z", "Europe/Berlin"));
    assert(holds({ ...morning, timezone: "America/New_York" }, "2026-06-15T13:30:00Z", "Europe/Berlin"));
  });

  it("follow the wall clock through changes of clocks", () => {
    const nine = { between: { from: "09:00", to: "09:01" }, timezone: "Europe/Berlin" };
    assert(
      holds(nine, "2026-03-28T08:00:00Z") &&
        holds(nine, "2026-03-29T07:00:00Z") &&
        holds(nine, "2026-10-25T08:00:00Z"),
    );
    const skipped = { between: { from: "02:00", to: "03:00" }, timezone: "Europe/Berlin" };
    assert(!holds(skipped, "2026-03-29T00:59:59Z") && !holds(skipped, "2026-03-29T01:00:00Z"));
    assert(
      holds(skipped, "2026-10-25T00:30:00Z") && holds(skipped, "2026-10-25T01:30:00Z"),
      "the hour comes twice",
    );
  });

  it("need every given part: weekday, day of month, dates inclusive", () => {
    const window = {
      daysOfWeek: [1],
      daysOfMonth: [15],
      dates: { from: "2026-06-15", until: "2026-06-15" },
      timezone: "UTC",
    };
    assert(holds(window, "2026-06-15T00:00:00Z") && holds(window, "2026-06-15T23:59:59Z"));
    assert(!holds(window, "2026-06-14T23:59:59Z") && !holds(window, "2026-06-16T00:00:00Z"));
    assert(!holds({ ...window, daysOfWeek: [2] }, "2026-06-15T12:00:00Z"));
  });

  it("have a first and a last moment, with an offset or of their zone, through changes of clocks", () => {
    const fixed = { after: "2026-06-15T10:00:00+02:00", before: "2026-06-15T09:00:00Z" };
    assert(!holds(fixed, "2026-06-15T07:59:59.999Z") && holds(fixed, "2026-06-15T08:00:00Z"));
    assert(holds(fixed, "2026-06-15T08:59:59.999Z") && !holds(fixed, "2026-06-15T09:00:00Z"));
    const local = { after: "2026-03-29T02:30", before: "2026-03-30" };
    assert(!holds(local, "2026-03-29T00:59:59Z", "Europe/Berlin"));
    assert(holds(local, "2026-03-29T01:00:00Z", "Europe/Berlin"), "02:30 is skipped");
    assert(holds(local, "2026-03-29T21:59:59Z", "Europe/Berlin"));
    assert(!holds(local, "2026-03-29T22:00:00Z", "Europe/Berlin"), "midnight of the player");
    assert(holds(local, "2026-03-29T22:00:00Z", "America/New_York"));
    const twice = { before: "2026-10-25T02:30", timezone: "Europe/Berlin" };
    assert(holds(twice, "2026-10-25T00:29:59Z"));
    assert(!holds(twice, "2026-10-25T01:00:00Z"), "02:00 the second time, when 02:30 has been");
    const hours = { hours: [9, 17], timezone: "Europe/Berlin" };
    assert(holds(hours, "2026-06-15T07:59:59Z") && !holds(hours, "2026-06-15T08:00:00Z"));
  });

  it("refuse moments that are none, or in the wrong order, at their place", () => {
    const problems = (window: object): string[] =>
      (timeWindow.schema.safeParse({ type: "time_window", ...window }).error?.issues ?? []).map(({ path }) =>
        path.join("."),
      );
    for (const text of ["", "soon", "2026-02-30", "2026-06-15T25:00", "2026-06", "2026-06-15T10:00+2"])
      assert.deepEqual(problems({ after: text }), ["after"], text);
    assert.deepEqual(problems({ after: "2026-06-15", before: "2026-06-15" }), ["before"]);
    assert.deepEqual(problems({ after: "2026-06-15", before: "2026-06-15T00:00Z" }), [], "may be in order");
    assert.deepEqual(problems({ hours: [24] }), ["hours.0"]);
    assert.deepEqual(problems({}), [""]);
  });

  it("look at the event's time, or at the present when told so", () => {
    const condition = (clock: string) =>
      timeWindow.compile(
        timeWindow.schema.parse({
          type: "time_window",
          clock,
          timezone: "UTC",
          dates: { from: "2026-01-01", until: "2026-01-01" },
        }),
      );
    const turn = aTurn({ at: Date.parse("2026-01-01T10:00:00Z"), nowMs: Date.parse("2026-06-01T00:00:00Z") });
    assert(condition("EVENT")(turn) && !condition("NOW")(turn));
  });
});
