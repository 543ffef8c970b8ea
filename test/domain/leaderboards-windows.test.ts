import assert from "node:assert/strict";
import * as fc from "fast-check";
import {
  type PeriodKind,
  type Timed,
  type Window,
  windowAt,
  windowOf,
} from "../../src/domain/evaluation/boards/board.ts";
import { cases } from "../support/properties.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

const timed = (kind: PeriodKind, timezone = "UTC", more: object = {}): Timed => ({
  period: { kind, timezone, ...more },
  resets: 0,
});
const at = (of: Timed, iso: string): Window => windowAt(of, Date.parse(iso))!;
const show = ({ key, startsAtMs, endsAtMs }: Window) => [
  key,
  new Date(startsAtMs!).toISOString(),
  new Date(endsAtMs!).toISOString(),
];

/** Zones whose clocks change at midnight, by half an hour, over the date line, or not at all. */
const ZONES = [
  "UTC",
  "Europe/Madrid",
  "America/New_York",
  "America/Havana",
  "America/Sao_Paulo",
  "America/St_Johns",
  "Asia/Beirut",
  "Asia/Kathmandu",
  "Africa/Cairo",
  "Australia/Lord_Howe",
  "Pacific/Apia",
  "Pacific/Kwajalein",
];
const CRONS = ["0 18 * * 5", "*/15 * * * *", "30 2 * * *", "0 0 1,15 * *", "0 */6 * * *", "15 0 * * 7"];

const Timeds = fc.oneof(
  fc
    .record({
      kind: fc.constantFrom<PeriodKind>("DAILY", "WEEKLY", "MONTHLY", "QUARTERLY", "YEARLY"),
      timezone: fc.constantFrom(...ZONES),
      weekStartsOn: fc.constantFrom<1 | 7>(1, 7),
    })
    .chain((period) => fc.nat(2).map((resets): Timed => ({ period, resets }))),
  fc
    .record({ timezone: fc.constantFrom(...ZONES), cron: fc.constantFrom(...CRONS) })
    .map((period): Timed => ({ period: { kind: "CRON", ...period }, resets: 0 })),
);
const Moments = fc.integer({ min: Date.UTC(1990, 0, 1), max: Date.UTC(2035, 0, 1) });
/** Moments at which some zone of ours moves its clocks. */
const Changes = fc
  .constantFrom(
    "2026-03-29T00:00:00Z",
    "2026-10-25T00:00:00Z",
    "2011-12-30T00:00:00Z",
    "2018-11-04T02:00:00Z",
    "2018-02-18T01:00:00Z",
    "2010-11-07T02:00:00Z",
    "2026-04-04T14:00:00Z",
    "1993-08-21T06:00:00Z",
    "2026-03-08T04:00:00Z",
    "2024-04-26T00:00:00Z",
  )
  .chain((iso) => fc.integer({ min: -2 * DAY, max: 2 * DAY }).map((ms) => Date.parse(iso) + ms));
describe("leaderboards windows", () => {
  it("tile time without gap or overlap in every zone, and follow from their keys", () => {
    fc.assert(
      fc.property(Timeds, fc.oneof(Moments, Changes), (of, ms) => {
        const window = windowAt(of, ms)!;
        const { startsAtMs, endsAtMs, key } = window;
        assert(startsAtMs! <= ms && ms < endsAtMs!, "a window holds its moment");
        assert.deepEqual(windowAt(of, startsAtMs!), window);
        assert.deepEqual(windowAt(of, endsAtMs! - 1), window);
        const next = windowAt(of, endsAtMs!)!;
        assert.equal(next.startsAtMs, endsAtMs);
        assert.equal(windowAt(of, startsAtMs! - 1)!.endsAtMs, startsAtMs);
        assert.notEqual(next.key, key);
        assert.deepEqual(windowOf({ ...of, period: { ...of.period } }, key), window);
      }),
      { numRuns: cases(1_500) },
    );
  });

  it("has the same windows however time was asked for before", () => {
    fc.assert(
      fc.property(Timeds, fc.array(fc.oneof(Moments, Changes), { minLength: 12 }), (of, moments) => {
        const { period, resets } = of;
        for (const ms of moments) windowAt(of, ms);
        for (const ms of moments)
          assert.deepEqual(windowAt(of, ms), windowAt({ period: { ...period }, resets }, ms));
      }),
      { numRuns: cases(50) },
    );
  });

  it("a day has 23 or 25 hours when the clocks change", () => {
    const madrid = timed("DAILY", "Europe/Madrid");
    const hours = (iso: string) => {
      const { startsAtMs, endsAtMs } = at(madrid, iso);
      return (endsAtMs! - startsAtMs!) / HOUR;
    };
    assert.deepEqual(
      ["2026-03-29T12:00Z", "2026-10-25T12:00Z", "2026-07-01T12:00Z"].map(hours),
      [23, 25, 24],
    );
  });

  it("a day without midnight begins with its first moment, and a day that was left out is nobody's", () => {
    const saoPaulo = timed("DAILY", "America/Sao_Paulo");
    assert.deepEqual(show(at(saoPaulo, "2018-11-04T12:00Z")), [
      "2018-11-04",
      "2018-11-04T03:00:00.000Z",
      "2018-11-05T02:00:00.000Z",
    ]);
    const apia = timed("DAILY", "Pacific/Apia");
    const before = at(apia, "2011-12-30T09:00Z");
    assert.equal(before.key, "2011-12-29");
    assert.equal(windowAt(apia, before.endsAtMs!)!.key, "2011-12-31");
    assert.equal(windowOf(apia, "2011-12-30"), undefined);
  });

  it("a date that is shown twice is one day", () => {
    const stJohns = timed("DAILY", "America/St_Johns");
    // Until 2011 its clocks went back at 00:01: one minute of the 7th, and the 6th for an hour again.
    const moments = ["2010-11-07T02:29Z", "2010-11-07T02:30Z", "2010-11-07T02:31Z", "2010-11-07T03:30Z"];
    const starts = moments.map((iso) => at(stJohns, iso).startsAtMs!);
    assert.deepEqual(
      starts,
      starts.toSorted((a, b) => a - b),
    );
  });

  it("names weeks by ISO 8601, those from Sunday by their Monday", () => {
    const [monday, sunday] = [timed("WEEKLY"), timed("WEEKLY", "UTC", { weekStartsOn: 7 })];
    assert.deepEqual(show(at(monday, "2027-01-03T23:59Z")), [
      "2026-W53",
      "2026-12-28T00:00:00.000Z",
      "2027-01-04T00:00:00.000Z",
    ]);
    assert.deepEqual(show(at(sunday, "2027-01-03T00:00Z")), [
      "2027-W01",
      "2027-01-03T00:00:00.000Z",
      "2027-01-10T00:00:00.000Z",
    ]);
  });

  it("quarters and years begin at local midnight, and are named by what the calendar says", () => {
    const quarters = timed("QUARTERLY", "America/New_York");
    assert.deepEqual(show(at(quarters, "2026-04-01T03:59:59Z")), [
      "2026-Q1",
      "2026-01-01T05:00:00.000Z",
      "2026-04-01T04:00:00.000Z",
    ]);
    assert.equal(at(quarters, "2026-12-31T12:00Z").key, "2026-Q4");
    const years = timed("YEARLY", "Asia/Tokyo");
    assert.deepEqual(show(at(years, "2026-12-31T15:00:00Z")), [
      "2027",
      "2026-12-31T15:00:00.000Z",
      "2027-12-31T15:00:00.000Z",
    ]);
    assert.equal(windowAt(years, at(years, "2026-06-01T00:00Z").endsAtMs!)!.key, "2027");
    for (const name of ["2026-Q0", "2026-Q5", "2026", "2026-1", ""])
      assert.equal(windowOf(quarters, name), undefined, name);
    for (const name of ["26", "2026-01", "2026-Q1"]) assert.equal(windowOf(years, name), undefined, name);
  });

  it("a CRON window lasts from one run to the next, in the board's zone", () => {
    const fridays = timed("CRON", "Europe/Madrid", { cron: "0 18 * * 5" });
    assert.deepEqual(show(at(fridays, "2026-03-28T00:00Z")), [
      "2026-03-27T17:00Z",
      "2026-03-27T17:00:00.000Z",
      "2026-04-03T16:00:00.000Z",
    ]);
  });

  it("a FIXED period is one window with nothing around it", () => {
    const cup = timed("FIXED", "UTC", { startsAt: "2026-06-11T00:00:00Z", endsAt: "2026-07-20T00:00:00Z" });
    const inside = at(cup, "2026-06-11T00:00:00Z");
    assert.equal(inside.key, "fixed");
    assert.equal(windowAt(cup, inside.endsAtMs!), undefined);
    assert.equal(windowAt(cup, Date.parse("2026-06-10T23:59:59.999Z")), undefined);
    assert.deepEqual(windowOf(cup, "fixed"), inside);
  });

  it("keys after a reset end in its number, and those of before are of no window any more", () => {
    const daily = { ...timed("DAILY"), resets: 2 };
    assert.equal(at(daily, "2026-01-10T05:00Z").key, "2026-01-10.3");
    assert.equal(windowOf(daily, "2026-01-10"), undefined);
    assert.equal(windowOf(daily, "2026-01-10.2"), undefined);
    assert.equal(windowAt({ ...timed("ALL_TIME"), resets: 1 }, 0)!.key, "all-time.2");
  });

  it("what is no key of the board is no window", () => {
    for (const kind of ["DAILY", "WEEKLY", "MONTHLY", "QUARTERLY", "YEARLY", "FIXED", "ALL_TIME"] as const)
      for (const key of ["", "2026-13-45", "2026-W99", "9999-W99", "2026-13", "x", ".2", "2026-01-10T00:00Z"])
        assert.equal(
          windowOf(timed(kind, "UTC", { startsAt: "2026-01-01", endsAt: "2027-01-01" }), key),
          undefined,
        );
    assert.equal(windowOf(timed("CRON", "UTC", { cron: "0 18 * * 5" }), "2026-01-10T18:00Z"), undefined);
  });
});
