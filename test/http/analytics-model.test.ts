import assert from "node:assert/strict";
import fc from "fast-check";
import { dateOfDay, localDay, monthOf, weekOf } from "../../src/domain/analytics/range.ts";
import { startApp } from "../support/app/app.ts";
import { anAsker, type Past } from "../support/analytics/questions.ts";
import { cases } from "../support/properties.ts";
import { madeOnce } from "../support/made.ts";

const ZONES = [
  "UTC",
  "Europe/Berlin",
  "America/New_York",
  "Asia/Kolkata",
  "Australia/Lord_Howe",
  "America/Sao_Paulo",
  "Africa/Cairo",
  "Pacific/Apia",
];
const TYPES = ["seen", "won", "lost"];
/** Around changes of daylight saving, and the day that Apia skipped. */
const STARTS = ["2018-11-03", "2025-03-28", "2025-10-24", "2011-12-28", "2024-04-24"];
const DAY_MS = 86_400_000;

const aHistory = fc.record({
  start: fc.constantFrom(...STARTS),
  zone: fc.constantFrom(...ZONES),
  days: fc.integer({ min: 1, max: 12 }),
  events: fc.array(
    fc.record({
      user: fc.constantFrom("a", "b", "c", "d", "e"),
      type: fc.constantFrom(...TYPES),
      hour: fc.double({ min: -35 * 24, max: 14 * 24, noNaN: true }),
    }),
    { maxLength: 60 },
  ),
});

describe("the numbers of analytics", () => {
  const api = madeOnce(startApp);

  it("are those of plain loops over random histories in any zone", () =>
    fc.assert(
      fc.asyncProperty(aHistory, async ({ start, zone, days, events }) => {
        const asker = await anAsker(api);
        const startMs = Date.parse(start);
        const past = events.map(({ user, type, hour }) => ({
          user,
          type,
          at: Math.floor(startMs + hour * 3_600_000),
        }));
        await asker.store(past.map(({ user, type, at }): Past => [user, type, new Date(at).toISOString()]));
        const first = startMs / DAY_MS;
        const last = first + days - 1;
        const query = {
          from: dateOfDay(first),
          to: dateOfDay(last),
          timezone: zone,
          asOf: new Date(startMs + 60 * DAY_MS).toISOString(),
        };
        const { metrics } = await asker.ask("overview", { ...query, compare: "none" });

        const local = past.map((event) => ({ ...event, day: localDay(zone, event.at) }));
        const players = (from: number, to: number): Set<string> =>
          new Set(local.filter(({ day }) => day >= from && day <= to).map(({ user }) => user));
        const firstDays = new Map<string, number>();
        for (const { user, day } of local.toSorted((a, b) => a.at - b.at))
          if (!firstDays.has(user)) firstDays.set(user, day);
        const span = Array.from({ length: days }, (_, i) => first + i);
        const isNew = (day: number) => [...firstDays.values()].filter((one) => one === day).length;
        assert.deepEqual(
          metrics.activePlayers.series,
          span.map((day) => players(day, day).size),
        );
        assert.deepEqual(metrics.newPlayers.series, span.map(isNew));
        assert.equal(metrics.activePlayers.value, players(first, last).size);
        assert.equal(metrics.wau.value, players(last - 6, last).size);
        assert.equal(metrics.mau.value, players(last - 29, last).size);
        assert.equal(metrics.totalPlayers.value, [...firstDays.values()].filter((day) => day <= last).length);
        assert.equal(metrics.events.value, local.filter(({ day }) => day >= first && day <= last).length);

        for (const [interval, begin] of [
          ["week", (day: number) => weekOf(day, "monday")],
          ["month", (day: number) => monthOf(day)],
        ] as const) {
          const { series } = await asker.ask("trends", {
            ...query,
            interval,
            metric: "activePlayers,event:won",
          });
          const starts = [...new Set(span.map(begin))];
          const inside = (at: number) =>
            local.filter(({ day }) => day >= first && day <= last && begin(day) === at);
          assert.deepEqual(
            series.map(({ points }: { points: { date: string; value: number }[] }) =>
              points.map(({ date, value }) => [date, value]),
            ),
            [
              starts.map((at) => [dateOfDay(at), new Set(inside(at).map(({ user }) => user)).size]),
              starts.map((at) => [dateOfDay(at), inside(at).filter(({ type }) => type === "won").length]),
            ],
          );
        }
      }),
      { numRuns: cases(25) },
    ));
});
