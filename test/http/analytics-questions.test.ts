import assert from "node:assert/strict";
import { anAsker } from "../support/analytics/questions.ts";
import { startApp } from "../support/app/app.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { assertError } from "../support/http/assert-error.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const WEEK = { from: "2026-03-02", to: "2026-03-08", asOf: "2026-04-01T00:00:00Z" };

describe("a question of analytics", () => {
  const api = madeOnce(startApp);
  const asker = madeForEach(() => anAsker(api));

  it("takes the range as a period, as dates or as instants", async () => {
    const asOf = "2026-05-20T10:00:00Z";
    const bounds = async (query: Record<string, string>) => {
      const { range } = await asker.ask("overview", { compare: "none", asOf, ...query });
      return [range.from, range.to];
    };
    await asker.store([["ada", "seen", "2025-11-30T23:30:00Z"]]);
    const periods: Record<string, [string, string]> = {
      today: ["2026-05-20", "2026-05-20"],
      yesterday: ["2026-05-19", "2026-05-19"],
      "7d": ["2026-05-14", "2026-05-20"],
      "30d": ["2026-04-21", "2026-05-20"],
      "90d": ["2026-02-20", "2026-05-20"],
      mtd: ["2026-05-01", "2026-05-20"],
      qtd: ["2026-04-01", "2026-05-20"],
      ytd: ["2026-01-01", "2026-05-20"],
      "12mo": ["2025-06-01", "2026-05-20"],
      all: ["2025-11-30", "2026-05-20"],
    };
    for (const [period, expected] of Object.entries(periods))
      assert.deepEqual(await bounds({ period }), expected, period);
    assert.deepEqual(await bounds({ period: "all", timezone: "Europe/Berlin" }), [
      "2025-12-01",
      "2026-05-20",
    ]);
    assert.deepEqual(await bounds({}), periods["30d"]);
    const { range } = await asker.ask("overview", {
      from: "2026-03-02T12:00:00Z",
      to: "2026-03-03T14:00:00+02:00",
    });
    assert.deepEqual(
      [range.start, range.end, range.days],
      ["2026-03-02T12:00:00.000Z", "2026-03-03T12:00:00.000Z", 2],
    );
  });

  it("refuses what is no range, zone, moment or comparison, and names the field", async () => {
    const refused: [Record<string, string>, field: string][] = [
      [{ from: "2026-03-08", to: "2026-03-02" }, "to"],
      [{ from: "1900-01-01", to: "2026-03-02" }, "from"],
      [{ from: "2026-02-30" }, "from"],
      [{ from: "0000-01-01", to: "2026-03-02" }, "from"],
      [{ from: "yesterday" }, "from"],
      [{ to: "2026-03-02T12:00:00" }, "to"],
      [{ to: "9999-12-31" }, "to"],
      [{ period: "7d", from: "2026-03-02" }, "period"],
      [{ period: "1d" }, "period"],
      [{ timezone: "Mars/Olympus" }, "timezone"],
      [{ timezone: "+02:00" }, "timezone"],
      [{ asOf: "2126-01-01T00:00:00Z" }, "asOf"],
      [{ asOf: "2026-01-01" }, "asOf"],
      [{ compare: "custom" }, "compareFrom"],
      [{ compareFrom: "2026-01-01" }, "compare"],
      [{ compare: "previous_moon" }, "compare"],
      [{ activeEvents: "" }, "activeEvents"],
      [{ weekStart: "friday" }, "weekStart"],
      [{ colour: "red" }, "colour"],
    ];
    for (const [query, field] of refused) {
      const answer = await asker.tryAsk("overview", query);
      assertError(answer, 400);
      assert.match(answer.body.error.details[0].field, new RegExp(`^${field}`), JSON.stringify(query));
    }
  });

  it("reaches as far back as the plan shows, and no further", async () => {
    const { tenantId } = asker.tenant;
    await putOnPlan(api, tenantId, "FREE");
    const { range } = await asker.ask("overview");
    assert.equal(range.days, 7);
    const first = await asker.ask("overview", { period: "all" });
    assert.equal(first.range.days, 1);
    await asker.store([["ada", "seen", "2020-01-01T00:00:00Z"]]);
    assert.equal((await asker.ask("overview", { period: "all" })).range.days, 7);
    assertError(await asker.tryAsk("overview", { period: "30d" }), 402, "PLAN_LIMIT_EXCEEDED");
    assert.equal((await asker.ask("overview", { period: "7d" })).range.days, 7);
  });

  it("comes from memory while nothing happens, and anew as soon as something does", async () => {
    const asked = async () => (await asker.tryAsk("overview", WEEK)).body;
    const [first, second] = [await asked(), await asked()];
    assert.deepEqual([first.cache.hit, second.cache.hit], [false, true]);
    assert.deepEqual({ ...second, cache: first.cache }, first);
    await asker.store([["ada", "seen", "2026-03-05T10:00:00Z"]]);
    const third = await asked();
    assert.deepEqual([third.cache.hit, third.metrics.events.value], [false, 1]);
  });

  it("says by its ETag whether it has changed", async () => {
    const asked = (etag: string) => asker.tryAsk("overview", WEEK, { "If-None-Match": etag });
    const etag = (await asker.tryAsk("overview", WEEK)).headers.get("etag")!;
    assert.equal((await asked(etag)).status, 304);
    await asker.store([["ada", "seen", "2020-03-05T10:00:00Z"]]);
    assert.equal((await asked(etag)).status, 200);
  });
});
