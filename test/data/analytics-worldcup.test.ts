import assert from "node:assert/strict";
import { startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { aTenantOfAllTime } from "../support/analytics/histories.ts";
import { agreeOnFunnel } from "../support/analytics/truth-funnels.ts";
import { hasRealData, type WorldcupEvent, worldcupLines } from "../support/data/worldcup.ts";
import { must } from "../support/http/client.ts";
import { hasTruth, readTruth } from "../support/data/truth.ts";
import { trackAll } from "../support/data/data.ts";

const truth = hasTruth("worldcup") ? readTruth("worldcup") : undefined;

describe("funnels of the football World Cups since 1930", function () {
  let api: TestApp;
  let tenant: Tenant;

  before(async function () {
    if (!hasRealData || !truth) this.skip();
    api = await startApp();
    tenant = await aTenantOfAllTime(api);
    const events: WorldcupEvent[] = [];
    for await (const event of worldcupLines()) events.push(event);
    await trackAll(api, tenant, events, 500_000);
  });

  /** A range has at most 10,000 days. */
  const TIMES = [1930, 1950, 1970, 1990, 2010].map((year) => ({
    from: `${year}-01-01`,
    to: `${Math.min(year + 19, 2022)}-12-31`,
    asOf: "2026-01-01T00:00:00Z",
  }));
  type Series = { breakdown: string | null; total: number; points: { date: string; value: number }[] };
  const trends = async (query: Record<string, string>): Promise<Series[]> => {
    const search = new URLSearchParams({ interval: "month", ...query }).toString();
    const { key } = tenant;
    return must(await api.get(`/api/v1/analytics/trends?${search}`, { key }), 200).series;
  };
  /** Of all times, by value of the breakdown. */
  const totals = async (query: Record<string, string>): Promise<Record<string, number>> => {
    const sums: Record<string, number> = {};
    for (const time of TIMES)
      for (const { breakdown, total } of await trends({ ...time, limit: "100", ...query }))
        sums[breakdown ?? ""] = (sums[breakdown ?? ""] ?? 0) + total;
    return sums;
  };

  it("are of the very events: by type, by tournament and by quarter of an hour of the match", async () => {
    const { eventTypes, goalsByTournament, goalsByMinuteBand } = truth!;
    assert.deepEqual(await totals({ metric: "events", breakdown: "eventType" }), eventTypes);
    const goals = { metric: "event:goal_scored" };
    const all = { metric: "events", "filter[eventType]": "goal_scored,own_goal" };
    assert.deepEqual(await totals({ ...all, breakdown: "property:tournament" }), goalsByTournament);
    for (const [band, expected] of Object.entries(goalsByMinuteBand!)) {
      const minutes = Array.from({ length: 15 }, (_, i) => Number(band) * 15 + i + 1).join();
      const found = await totals({ ...goals, "filter[properties.minute]": minutes });
      assert.deepEqual(found, { "": expected }, `minutes ${minutes}`);
    }
  });

  it("have the players of each day of the last tournaments", async () => {
    const days = Object.keys(truth!.dauUtc!);
    const query = { metric: "activePlayers", interval: "day", from: days[0]!, to: days.at(-1)! };
    const [players] = await trends({ ...query, timezone: "UTC" });
    const active = players!.points.filter(({ value }) => value > 0);
    assert.deepEqual(Object.fromEntries(active.map(({ date, value }) => [date, value])), truth!.dauUtc);
  });

  for (const [name, funnel] of Object.entries(truth?.funnels ?? {}))
    it(`have the very numbers of ${name}`, () => agreeOnFunnel(api, tenant, funnel));
});
