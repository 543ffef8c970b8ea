import assert from "node:assert/strict";
import fc from "fast-check";
import {
  deadlineAfter,
  periodAt,
  periodName,
  periodOfDate,
  periodStart,
} from "../../src/domain/evaluation/streaks/periods.ts";
import { aPlayedStreak, aStreak, DAY_MS, HOUR_MS, T } from "../support/streaks/streaks.ts";
import { cases } from "../support/properties.ts";

const ZONES = [
  "Europe/Berlin",
  "America/New_York",
  "Australia/Lord_Howe",
  "Pacific/Apia",
  "Asia/Kathmandu",
  "America/St_Johns",
];

describe("streaks and time zones", () => {
  it("never break in 400 days of daylight saving when every local day is done", () => {
    const day = { unit: "DAY", dayStartsMs: 0 } as const;
    fc.assert(
      fc.property(
        fc.constantFrom(...ZONES),
        fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), {
          minLength: 400,
          maxLength: 400,
        }),
        (zone, hours) => {
          const played = aPlayedStreak(aStreak(), zone);
          const first = periodAt(day, zone, T("2026-01-01T12:00Z"));
          hours.forEach((hour, i) => {
            const [start, end] = [periodStart(day, zone, first + i), periodStart(day, zone, first + i + 1)];
            assert.ok(played.hit(start + Math.floor(hour * (end - start))), `${zone}, day ${i}`);
          });
          assert.equal(played.state.current, 400);
        },
      ),
      { numRuns: cases(20) },
    );
  });

  it("miss no day that a zone left out", () => {
    // Apia went over the date line: after 29 December 2011 came the 31st.
    const played = aPlayedStreak(aStreak(), "Pacific/Apia");
    assert.ok(played.hit("2011-12-29T12:00-10:00"));
    assert.equal(played.state.deadlineMs, T("2012-01-01T00:00+14:00"));
    assert.ok(played.hit("2011-12-31T12:00+14:00"));
    assert.equal(played.state.current, 2);
  });

  it("are kept by who flies east over midnight", () => {
    const played = aPlayedStreak(aStreak(), "America/Los_Angeles");
    assert.ok(played.hit("2026-01-02T20:00-08:00"));
    assert.ok(!played.hit("2026-01-02T22:00-08:00"));
    played.move("Asia/Tokyo", "2026-01-03T18:00Z");
    assert.ok(played.hit("2026-01-03T20:00Z"));
    assert.deepEqual(
      [played.state.current, periodName("DAY", played.state.doc.run!.last)],
      [2, "2026-01-04"],
    );
  });

  it("do not count a day twice for who flies west", () => {
    const played = aPlayedStreak(aStreak(), "Asia/Tokyo");
    played.hit("2026-01-02T23:30+09:00");
    played.move("America/Los_Angeles", "2026-01-02T15:00Z");
    assert.ok(!played.hit("2026-01-02T16:00Z"));
    assert.ok(played.hit("2026-01-04T06:00Z"));
    assert.equal(played.state.current, 2);
  });

  it("count no period sooner than 8 hours after the last one when the zone has changed between them", () => {
    const played = aPlayedStreak(aStreak(), "America/Los_Angeles");
    played.hit("2026-01-02T23:00-08:00");
    played.move("Asia/Tokyo", "2026-01-03T07:30Z");
    // In Tokyo it is the 4th at midnight, the next period.
    assert.ok(!played.hit("2026-01-03T14:59Z"));
    assert.ok(played.hit("2026-01-03T15:00Z"));
    const quick = aPlayedStreak(aStreak(), "America/Los_Angeles");
    quick.hit("2026-01-03T06:30Z");
    quick.move("Pacific/Kiritimati", "2026-01-03T07:00Z");
    assert.ok(!quick.hit("2026-01-03T14:29Z"), "the 4th there, but 7:59 after the 2nd");
    assert.ok(quick.hit("2026-01-03T14:30Z"));
  });

  it("take over one zone in 24 hours, and a later one when these are over", () => {
    const played = aPlayedStreak(aStreak(), "UTC");
    played.hit("2026-01-01T01:00Z");
    played.move("Asia/Tokyo", "2026-01-01T02:00Z");
    played.hit("2026-01-01T12:00Z");
    assert.equal(played.state.doc.zone, "Asia/Tokyo");
    played.move("America/Los_Angeles", "2026-01-01T13:00Z");
    played.hit("2026-01-02T01:59Z");
    assert.equal(played.state.doc.zone, "Asia/Tokyo");
    played.hit("2026-01-02T16:00Z");
    assert.equal(played.state.doc.zone, "America/Los_Angeles");
    assert.equal(played.state.doc.zoneMs, T("2026-01-02T02:00Z"));
  });

  it("are not saved by moving where the day is not over yet", () => {
    const played = aPlayedStreak(aStreak(), "UTC");
    played.hit("2026-01-01T12:00Z");
    played.move("Pacific/Pago_Pago", "2026-01-03T05:00Z");
    played.hit("2026-01-03T06:00Z");
    assert.deepEqual([played.state.current, played.state.doc.lost?.length], [1, 1]);
    const sooner = aPlayedStreak(aStreak(), "UTC");
    sooner.hit("2026-01-01T12:00Z");
    sooner.move("Pacific/Pago_Pago", "2026-01-02T23:00Z");
    sooner.hit("2026-01-03T06:00Z");
    assert.equal(sooner.state.current, 2);
  });

  it("give back the freeze of a period that is done after all", () => {
    const played = aPlayedStreak(aStreak({ freeze: { initial: 1 } }), "America/Los_Angeles");
    played.hit("2026-01-01T12:00-08:00");
    played.move("Asia/Tokyo", "2026-01-01T21:00Z");
    // What was left in Los Angeles ends in the afternoon of the 3rd in Tokyo, whose evening is left.
    played.hit("2026-01-03T18:00+09:00");
    const { current, freezes, doc } = played.state;
    assert.deepEqual([current, freezes, doc.run?.frozen], [2, 1, []]);
  });

  it("leave a player no less time for having moved", () => {
    const zone = fc.constantFrom(...ZONES, "UTC", "Asia/Tokyo", "America/Los_Angeles", "Pacific/Kiritimati");
    const ms = fc.integer({ min: T("2025-06-01T00:00Z"), max: T("2026-12-31T00:00Z") });
    fc.assert(
      fc.property(zone, zone, ms, fc.integer({ min: 0, max: 30 * HOUR_MS }), (from, to, at, later) => {
        const stayed = aPlayedStreak(aStreak(), from);
        const moved = aPlayedStreak(aStreak(), from);
        for (const one of [stayed, moved]) one.hit(at);
        const change = Math.min(at + later, stayed.state.deadlineMs! - 1);
        moved.move(to, new Date(change).toISOString());
        // Whenever it would have counted for who stayed, who moved is still alive.
        const last = stayed.state.deadlineMs! - 1;
        moved.hit(last);
        assert.ok(moved.state.current >= 1);
        assert.equal(moved.state.doc.lost, undefined);
      }),
    );
  });

  it("name weeks as ISO 8601 does, and find periods of dates again", () => {
    const names = ["2020-12-31", "2021-01-03", "2021-01-04", "2024-12-30", "2026-01-01", "1969-12-29"].map(
      (date) => periodName("WEEK", periodOfDate("WEEK", date)),
    );
    assert.deepEqual(names, ["2020-W53", "2020-W53", "2021-W01", "2025-W01", "2026-W01", "1970-W01"]);
    for (const unit of ["DAY", "WEEK", "MONTH"] as const) {
      const calendar = { unit, dayStartsMs: 0 };
      for (let at = T("1999-12-30T12:00Z"); at < T("2001-02-02T00:00Z"); at += DAY_MS)
        assert.equal(
          periodOfDate(unit, new Date(at).toISOString().slice(0, 10)),
          periodAt(calendar, "UTC", at),
        );
      assert.ok(deadlineAfter(calendar, "UTC", 100) > periodStart(calendar, "UTC", 101));
    }
  });
});
