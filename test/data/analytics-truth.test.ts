import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { startApp } from "../support/app/app.ts";
import { anAsker, type Asker, rollUpAll } from "../support/analytics/histories.ts";
import { hasTravelData, storePastEvents, travelLines } from "../support/data/data.ts";
import { pluck } from "../support/pluck.ts";

const TRUTH = new URL("../../../shared/data/travel-se-2011-2014.truth.json", import.meta.url);
const AS_OF = "2015-01-01T00:00:00.000Z";
const ALL = { from: "2011-06-21", to: "2014-12-31", asOf: AS_OF };

/** Names of the overview in the file, and in the answer. */
const NAMES = { wau7: "wau", mau30: "mau" } as Record<string, string>;
const nameOf = (name: string): string => NAMES[name] ?? name;

type Numbers = Record<string, number | null>;
type Truth = {
  overview: {
    from: string;
    to: string;
    previousFrom: string;
    timezone: string;
    current: Numbers;
    previous: Numbers;
    changePct: Numbers;
  }[];
  dauUtc: Numbers;
  dauNewYork: Numbers;
  segments: {
    asOfIso: string;
    timezone: string;
    lastDay: string;
    lifecycle: Numbers;
    engagement28d: Numbers;
    total: number;
  }[];
  trends: { eventsByMonthUtc: Numbers; questionsByWeekUtc: Numbers; answersByDayNewYorkLast60: Numbers };
};
type Point = { date: string; value: number | null };
type Named = { key: string; players: number };

/** Without zeros, which the file leaves out. */
const nonZero = (points: readonly Point[] | Numbers): Numbers => {
  const all = Array.isArray(points)
    ? (points as Point[]).map(({ date, value }): [string, number | null] => [date, value])
    : Object.entries(points as Numbers);
  return Object.fromEntries(all.filter(([, value]) => value !== 0));
};

describe("analytics of four years of a real site are the truth that comes with them:", function () {
  let asker: Asker;
  let truth: Truth;

  before(async function () {
    if (!hasTravelData) this.skip();
    truth = JSON.parse(readFileSync(TRUTH, "utf8")) as Truth;
    const api = await startApp();
    asker = await anAsker(api);
    await storePastEvents(api, asker.tenant.projectId, await travelLines("2016"));
    await rollUpAll(api, asker.tenant.projectId);
  });

  it("overviews, with the range before", async () => {
    for (const { from, to, previousFrom, timezone, ...numbers } of truth.overview) {
      const { metrics, comparison } = await asker.ask("overview", { from, to, timezone, asOf: AS_OF });
      assert.equal(comparison.from, previousFrom);
      for (const [name, expected] of Object.entries(numbers.current))
        assert.equal(metrics[nameOf(name)].value, expected, name);
      for (const [name, expected] of Object.entries(numbers.previous))
        assert.equal(metrics[nameOf(name)].previous, expected, name);
      for (const [name, expected] of Object.entries(numbers.changePct)) {
        const { value, previous, changePct } = metrics[nameOf(name)];
        // The file has no change from nothing to nothing; here it is 0.
        assert.equal(changePct, value === 0 && previous === 0 ? 0 : expected, name);
      }
    }
  });

  it("daily active players in two zones", async () => {
    const zones = { UTC: truth.dauUtc, "America/New_York": truth.dauNewYork };
    for (const [timezone, expected] of Object.entries(zones)) {
      const query = { ...ALL, timezone, metric: "activePlayers" };
      const { series } = await asker.ask("trends", query);
      assert.deepEqual(nonZero(series[0].points), nonZero(expected));
    }
  });

  it("segments", async () => {
    for (const { asOfIso, timezone, lastDay, lifecycle, engagement28d, total } of truth.segments) {
      const answer = await asker.ask("segments", { asOf: asOfIso, timezone });
      const of = (group: string): Numbers => {
        const { segments } = answer.groups.find(({ key }: { key: string }) => key === group);
        return Object.fromEntries(segments.map(({ key, players }: Named) => [key, players]));
      };
      assert.deepEqual([answer.lastDay, answer.total], [lastDay, total]);
      assert.deepEqual(of("lifecycle"), lifecycle);
      assert.deepEqual(of("engagement"), engagement28d);
    }
  });

  it("trends by month, week and day", async () => {
    const { eventsByMonthUtc, questionsByWeekUtc, answersByDayNewYorkLast60 } = truth.trends;
    const cases: [Record<string, string>, Numbers][] = [
      [{ metric: "events", interval: "month" }, eventsByMonthUtc],
      [{ metric: "event:question_asked", interval: "week" }, questionsByWeekUtc],
      [
        { metric: "event:answer_posted", from: "2014-11-02", timezone: "America/New_York" },
        answersByDayNewYorkLast60,
      ],
    ];
    for (const [query, expected] of cases) {
      const { series } = await asker.ask("trends", { ...ALL, timezone: "UTC", ...query });
      assert.deepEqual(nonZero(series[0].points), nonZero(expected), String(query["metric"]));
    }
  });

  it("and totals of trends are the numbers of the overview, their days its series", async () => {
    const query = { from: "2014-11-03", to: "2014-12-09", timezone: "America/New_York", asOf: AS_OF };
    const { metrics } = await asker.ask("overview", query);
    const names = Object.keys(metrics).filter((name) => name !== "currencyGranted");
    for (const interval of ["day", "week"]) {
      for (let i = 0; i < names.length; i += 10) {
        const metric = names.slice(i, i + 10).join(",");
        const asked = { ...query, interval, metric, compare: "previous_period" };
        for (const one of (await asker.ask("trends", asked)).series) {
          const { value, previous, series } = metrics[one.metric];
          assert.deepEqual([one.total, one.previous.total], [value, previous], one.metric);
          if (interval === "day" && series) assert.deepEqual(pluck(one.points, "value"), series, one.metric);
        }
      }
    }
  });
});
