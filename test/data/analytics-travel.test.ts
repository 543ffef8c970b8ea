import assert from "node:assert/strict";
import { type Answer, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { aTenantOfAllTime, rollUpAll } from "../support/analytics/histories.ts";
import { agreeOnFunnel } from "../support/analytics/truth-funnels.ts";
import { hasTravelData, storePastEvents, travelLines } from "../support/data/data.ts";
import { hasTruth, readTruth, type Truth, type TruthRetention } from "../support/data/truth.ts";
import { must } from "../support/http/client.ts";
import { pluck } from "../support/pluck.ts";

const FILE = "travel-se-2011-2014";

/** Types of retention, and what the truth calls them. */
const TYPES = { nday: "onDay", unbounded: "onOrAfter", within: "within" } as const;

const truth: Truth | undefined = hasTruth(FILE) ? readTruth(FILE) : undefined;
const retentions = Object.entries(truth?.retention ?? {});
const cohortTables = Object.entries(truth?.cohorts ?? {});
const funnels = Object.entries(truth?.funnels ?? {});

describe("retention, cohorts and funnels of travel.stackexchange.com, all of it", function () {
  this.timeout(900_000);
  let api: TestApp;
  let tenant: Tenant;

  before(async function () {
    if (!hasTravelData || !truth) this.skip();
    api = await startApp();
    tenant = await aTenantOfAllTime(api);
    // By the API it takes a minute more; test/data/analytics-worldcup.test.ts goes that way.
    await storePastEvents(api, tenant.projectId, await travelLines("9999"));
    await rollUpAll(api, tenant.projectId);
  });

  const get = async (path: string, query: Record<string, string>): Promise<Answer["body"]> =>
    must(
      await api.get(`/api/v1/analytics/${path}?${new URLSearchParams(query).toString()}`, {
        key: tenant.key,
      }),
      200,
    );

  const framed = ({ from, to, asOfIso, timezone, unit }: TruthRetention["params"]) => ({
    from,
    to,
    asOf: asOfIso,
    timezone,
    unit,
  });

  const named = (events: string | string[]): string | undefined =>
    typeof events === "string" && events.startsWith("(") ? undefined : [events].flat().join();

  for (const [name, { params, overallWeighted, cohorts }] of retentions)
    for (const [type, as] of Object.entries(TYPES) as [keyof typeof TYPES, "onDay"][])
      it(`has the very retention ${name}, ${type}`, async () => {
        const [startEvent, returnEvent] = [named(params.start), named(params.return)];
        const body = await get("retention", {
          ...framed(params),
          type,
          clock: params.clock,
          offsets: overallWeighted.map(({ offset }) => offset).join(),
          ...(startEvent === undefined ? {} : { startEvent }),
          ...(returnEvent === undefined ? {} : { returnEvent }),
        });
        assert.deepEqual(
          pluck(body.overall, "offset", "eligible", "players"),
          overallWeighted.map((one) => [one.offset, one.eligible, one[as]]),
        );
        if (type === "nday")
          assert.deepEqual(pluck(body.overall, "rate"), pluck(overallWeighted, "rateOnDay"));
        type Cell = { offset: number; players: number; complete: boolean };
        assert.deepEqual(
          body.cohorts.map((one: { period: string; size: number; cells: Cell[] }) => [
            one.period,
            one.size,
            ...one.cells.map(({ offset, players, complete }) => [offset, players, complete]),
          ]),
          cohorts.map((one) => [
            one.cohort,
            one.size,
            ...one.cells.map((cell) => [cell.offset, cell[as], cell.complete]),
          ]),
        );
      });

  for (const [name, { params, overallWeighted, cohorts }] of cohortTables)
    for (const cumulative of ["false", "true"])
      it(`has the very cohorts ${name}, ${cumulative === "true" ? "then or later" : "then"}`, async () => {
        const as = cumulative === "true" ? "onOrAfter" : "onDay";
        const body = await get("cohorts", {
          ...framed(params),
          cumulative,
          periods: String(overallWeighted.length - 1),
        });
        assert.deepEqual(
          pluck(body.cohorts, "period", "size", "values", "complete"),
          cohorts.map(({ cohort, size, cells }) => [
            cohort,
            size,
            cells.map((cell) => cell[as]),
            cells.map((cell) => cell.complete),
          ]),
        );
        assert.deepEqual(
          pluck(body.overall, "k", "eligible", "players"),
          overallWeighted.map((one) => [one.offset, one.eligible, one[as]]),
        );
      });

  for (const [name, funnel] of funnels)
    it(`has the very funnel ${name}`, () => agreeOnFunnel(api, tenant, funnel));
});
