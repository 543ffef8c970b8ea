import assert from "node:assert/strict";
import fc from "fast-check";
import { dateOfDay, dayOfDate, localDay } from "../../src/domain/analytics/range.ts";
import { type Cohort, type Happening, historiesAskedBy } from "../support/analytics/histories.ts";
import {
  naiveRetention,
  type NaiveQuestion,
  type NaiveVisit,
  periodOfDay,
} from "../support/analytics/naive-retention.ts";
import { cases } from "../support/properties.ts";

describe("retention of a random history", () => {
  const { given, ask } = historiesAskedBy("retention");
  it("is what plain loops count, for any question in any zone", async () => {
    const zones = [
      "UTC",
      "America/New_York",
      "Europe/London",
      "Australia/Lord_Howe",
      "Asia/Kathmandu",
      "Africa/Cairo",
    ];
    // Around changes of the clocks in New York, London and Cairo, in quarter hours: times are equal often.
    const firstMs = Date.parse("2014-10-20T00:00:00Z");
    const history: NaiveVisit[] = fc.sample(
      fc.record({
        user: fc.integer({ min: 0, max: 40 }).map((i) => `p${i}`),
        type: fc.constantFrom("a", "b", "c"),
        at: fc.integer({ min: 0, max: 25 * 96 }).map((quarter) => firstMs + quarter * 900_000),
      }),
      { numRuns: cases(400), seed: 7 },
    );
    await given(...history.map(({ user, type, at }): Happening => [user, type, at]));
    const Question = fc.record({
      zone: fc.constantFrom(...zones),
      weekStart: fc.constantFrom("monday" as const, "sunday" as const),
      unit: fc.constantFrom("day" as const, "week" as const, "month" as const),
      type: fc.constantFrom("nday" as const, "unbounded" as const, "within" as const),
      entry: fc.constantFrom("first_time" as const, "recurring" as const),
      clock: fc.constantFrom("calendar" as const, "24h" as const),
      offsets: fc
        .uniqueArray(fc.integer({ min: 0, max: 12 }), { minLength: 1, maxLength: 5 })
        .map((all) => all.toSorted((a, b) => a - b)),
      startEvent: fc.constantFrom(undefined, "a", "b"),
      returnEvent: fc.constantFrom(undefined, "a", "c"),
      from: fc.integer({ min: -2, max: 12 }),
      length: fc.integer({ min: 0, max: 14 }),
    });
    await fc.assert(
      fc.asyncProperty(Question, async ({ from, length, clock, ...asked }) => {
        const firstDay = localDay("UTC", firstMs) + from;
        const question: NaiveQuestion = {
          ...asked,
          clock: asked.unit === "day" ? clock : "calendar",
          firstDay,
          lastDay: firstDay + length,
        };
        const { zone, offsets, startEvent, returnEvent, unit, weekStart, type, entry } = question;
        const query = new URLSearchParams({
          from: dateOfDay(question.firstDay),
          to: dateOfDay(question.lastDay),
          timezone: zone,
          offsets: offsets.join(),
          clock: question.clock,
          unit,
          weekStart,
          type,
          entry,
          ...(startEvent && { startEvent }),
          ...(returnEvent && { returnEvent }),
        });
        const body = await ask(query.toString());
        const naive = naiveRetention(history, question);
        for (const { period, size, cells } of body.cohorts as Cohort[]) {
          const wanted = naive.get(periodOfDay(question, dayOfDate(period)!)) ?? [0, ...offsets.map(() => 0)];
          assert.deepEqual([size, ...cells.map(({ players }) => players)], wanted, period);
          naive.delete(periodOfDay(question, dayOfDate(period)!));
        }
        assert.equal(naive.size, 0);
      }),
      { numRuns: cases(150) },
    );
  });
});
