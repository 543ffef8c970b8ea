import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { compileRule } from "../../src/domain/evaluation/running/compile.ts";
import type { Outcome } from "../../src/domain/evaluation/running/outcome.ts";
import { considerRule } from "../../src/domain/evaluation/running/run.ts";
import { type CalendarUnit, plainCalendar, windowNumber } from "../../src/domain/kernel/zones.ts";
import { aPlayer, aRule, aTurn, NOW } from "../support/rules/evaluation.ts";
import { cases } from "../support/properties.ts";

const HOUR_MS = 3_600_000;

/** One player meeting one limited rule again and again. */
const fires = (limits: Json, timezone = "UTC") => {
  const rule = compileRule(aRule({ limits }));
  const player = aPlayer({ timezone });
  return {
    player,
    at: (at: number): Outcome => {
      // As it would be after a batch: state goes through JSON.
      player.doc = JSON.parse(JSON.stringify(player.doc)) as typeof player.doc;
      return considerRule(rule, aTurn({ player, at }));
    },
  };
};

const at = (iso: string): number => Date.parse(iso);
const zone = fc.constantFrom(
  "UTC",
  "Europe/Berlin",
  "America/New_York",
  "Pacific/Apia",
  "Australia/Lord_Howe",
);
/** Times over a year, so that both changes of clocks are in it, most of them crowded together. */
const times = fc.array(
  fc.oneof(
    fc.integer({ min: 0, max: 365 * 24 }).map((h) => NOW - h * HOUR_MS),
    fc.integer({ min: 0, max: 90 }).map((h) => at("2026-03-29T00:00Z") + h * HOUR_MS),
  ),
  { maxLength: 80 },
);
const unit = fc.constantFrom<CalendarUnit>("DAY", "WEEK", "MONTH");

describe("limits of rules", () => {
  it("let a rule fire in each local window up to the maximum and no more, for events in order", () => {
    fc.assert(
      fc.property(zone, times, unit, fc.integer({ min: 1, max: 3 }), (name, unsorted, window, max) => {
        const one = fires({ perPlayer: [{ max, window }] }, name);
        const counts = new Map<number, number>();
        for (const ms of unsorted.toSorted((a, b) => a - b)) {
          const number = windowNumber(window, plainCalendar(name), ms);
          const count = counts.get(number) ?? 0;
          assert.equal(one.at(ms).fired, count < max);
          if (count < max) counts.set(number, count + 1);
        }
      }),
      { numRuns: cases(150) },
    );
  });

  it("are never passed by late events, whatever the order, and late ones only past the kept windows", () => {
    fc.assert(
      fc.property(zone, times, unit, fc.integer({ min: 1, max: 3 }), (name, shuffled, window, max) => {
        const one = fires({ perPlayer: [{ max, window }] }, name);
        const counts = new Map<number, number>();
        for (const ms of shuffled) {
          const number = windowNumber(window, plainCalendar(name), ms);
          const { fired, detail } = one.at(ms);
          const count = counts.get(number) ?? 0;
          if (fired) counts.set(number, count + 1);
          else if (count < max)
            assert(detail!.startsWith("late") && [...counts.keys()].filter((n) => n > number).length >= 8);
          assert((counts.get(number) ?? 0) <= max);
        }
      }),
      { numRuns: cases(300) },
    );
  });

  it("fire in no window that is older than the eight that are kept", () => {
    const one = fires({ perPlayer: [{ max: 1, window: "DAY" }] });
    for (let day = 1; day <= 9; day++) assert(one.at(at(`2026-03-0${day}T12:00Z`)).fired);
    assert.match(one.at(at("2026-03-01T13:00Z")).detail!, /^late/);
  });

  it("hold for every span of a rolling limit, in order exactly, late never past it", () => {
    const spans = fc.record({
      max: fc.integer({ min: 1, max: 12 }),
      hours: fc.integer({ min: 1, max: 100 }),
      isSorted: fc.boolean(),
    });
    fc.assert(
      fc.property(times, spans, (unsorted, { max, hours, isSorted }) => {
        const span = hours * HOUR_MS;
        const one = fires({ perPlayer: [{ max, window: { rollingSeconds: hours * 3_600 } }] });
        const fired: number[] = [];
        for (const ms of isSorted ? unsorted.toSorted((a, b) => a - b) : unsorted) {
          const outcome = one.at(ms);
          if (isSorted) assert.equal(outcome.fired, fired.filter((time) => time > ms - span).length < max);
          if (outcome.fired) fired.push(ms);
        }
        const sorted = fired.toSorted((a, b) => a - b);
        for (let i = 0; i + max < sorted.length; i++) assert(sorted[i + max]! - sorted[i]! >= span);
      }),
      { numRuns: cases(500) },
    );
  });

  it("keep a cooldown between any two firings, also late ones", () => {
    const one = fires({ cooldownSeconds: 60 });
    assert(one.at(NOW).fired);
    assert.deepEqual(one.at(NOW + 59_999), {
      fired: false,
      reason: "COOLDOWN",
      detail: "1 in 60 s",
      nextEligibleMs: NOW + 60_000,
    });
    assert(one.at(NOW + 60_000).fired);
    assert.equal(one.at(NOW - 30_000).reason, "COOLDOWN");
    assert(one.at(NOW - 60_000).fired);
  });

  it("count a lifetime without windows", () => {
    const one = fires({ perPlayer: [{ max: 2, window: "LIFETIME" }] });
    assert(one.at(NOW).fired && one.at(NOW - 9e11).fired);
    assert.equal(one.at(NOW).reason, "LIMIT_REACHED");
  });

  it("tell when the next window begins, in the player's zone", () => {
    const one = fires({ perPlayer: [{ max: 1, window: "DAY" }] }, "Europe/Berlin");
    assert(one.at(at("2026-03-28T23:30:00Z")).fired, "00:30 of the short day");
    const { nextEligibleMs } = one.at(at("2026-03-29T12:00:00Z"));
    assert.equal(nextEligibleMs, at("2026-03-29T22:00:00Z"));
    assert(one.at(nextEligibleMs).fired);
  });

  it("all hold at once", () => {
    const one = fires({
      perPlayer: [
        { max: 2, window: "DAY" },
        { max: 3, window: "WEEK" },
      ],
      cooldownSeconds: 10,
    });
    const monday = at("2026-06-15T08:00:00Z");
    const day = 24 * HOUR_MS;
    const reasons = [0, 5_000, 20_000, 40_000, day, day + 60_000, 7 * day].map(
      (offset) => one.at(monday + offset).reason,
    );
    const [ok, limit] = ["MATCHED", "LIMIT_REACHED"];
    assert.deepEqual(reasons, [ok, "COOLDOWN", ok, limit, ok, limit, ok]);
  });

  it("count only firings", () => {
    const player = aPlayer();
    const rule = compileRule(
      aRule({
        limits: { perPlayer: [{ max: 1, window: "LIFETIME" }] },
        conditions: { all: [{ type: "event_property", path: "ok", op: "eq", value: true }] },
        actions: [{ type: "update_player", addTags: ["x"] }],
      }),
    );
    assert.equal(considerRule(rule, aTurn({ player })).reason, "CONDITIONS_NOT_MET");
    const full = aPlayer({ tags: Array.from({ length: 50 }, (_, i) => `t${i}`), doc: player.doc });
    assert.equal(
      considerRule(rule, aTurn({ player: full, properties: { ok: true } })).reason,
      "ACTION_FAILED",
    );
    assert.deepEqual(full.doc, {});
    assert(!full.dirty.doc);
    assert(considerRule(rule, aTurn({ player, properties: { ok: true } })).fired);
    assert(player.dirty.doc);
  });
});
