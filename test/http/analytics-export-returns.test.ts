import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { exported, trackAll } from "../support/data/exports.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";

const MARCH = { from: "2026-03-01", to: "2026-03-31" };
const AT = "2026-03-02T10:00:00.000Z";

// oxlint-disable-next-line typescript/no-explicit-any -- rows of every report
type Shown = any;

describe("exports of retention, cohorts and funnels", () => {
  const api = madeOnce(startApp);

  const event = (more: object = {}) => ({ externalUserId: "ann", eventType: "quiz", timestamp: AT, ...more });
  const get = (query: Record<string, string>, key: string) =>
    api.get(`/api/v1/analytics/export?${new URLSearchParams(query).toString()}`, { key });

  it("say what questions of returns say", async () => {
    const tenant = await aTenant(api);
    await putOnPlan(api, tenant.tenantId, "ENTERPRISE", { analyticsHistoryDays: null });
    await trackAll(api, tenant, [
      event(),
      event({ eventType: "won", timestamp: "2026-03-03T10:00:00Z", properties: { map: "ice" } }),
      event({ externalUserId: "bob", timestamp: "2026-03-09T10:00:00Z" }),
    ]);
    const asked = { ...MARCH, asOf: "2026-11-01T00:00:00Z" };
    const ask = async (path: string, query: Record<string, string>) => {
      const text = new URLSearchParams({ ...asked, ...query }).toString();
      return must(await api.get(`/api/v1/analytics/${path}?${text}`, { key: tenant.key }), 200);
    };
    const rowsOf = async (report: string, query: Record<string, string>) =>
      JSON.parse(await exported(api, tenant, { report, ...asked, ...query })) as Shown[];
    const returns = { offsets: "0,1,7" };
    const { cohorts } = await ask("retention", returns);
    assert.deepEqual(
      await rowsOf("retention", returns),
      cohorts.flatMap(({ period, size, cells }: Shown) =>
        cells.map((cell: Shown) => ({ period, size, until: null, ...cell })),
      ),
    );
    const weekly = { periods: "2", metric: "sum:won.score" };
    const table = await ask("cohorts", weekly);
    assert.deepEqual(
      await rowsOf("cohorts", weekly),
      table.cohorts.flatMap(({ period, label, size, values, complete }: Shown) =>
        values.map((value: number, k: number) => ({ period, label, size, k, value, complete: complete[k] })),
      ),
    );
    const steps = { steps: "quiz,won", window: "2d", breakdown: "map" };
    const funnel = await ask("funnels", steps);
    const rows = await rowsOf("funnels", steps);
    assert.deepEqual(
      rows.filter(({ breakdown }) => breakdown === null).map(({ index, players }) => [index, players]),
      funnel.steps.map(({ index, players }: Shown) => [index, players]),
    );
    assert.deepEqual(
      rows.filter(({ breakdown }) => breakdown === "(none)").map(({ players }) => players),
      funnel.breakdown[0].players,
    );
    assertError(await get({ report: "funnels", steps: "quiz" }, tenant.key), 400);
    assertError(await get({ report: "retention", steps: "quiz,won" }, tenant.key), 400);
  });
});
