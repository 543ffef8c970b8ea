import assert from "node:assert/strict";
import type { Answer } from "../support/app/app.ts";
import { type Happening, historiesAskedBy } from "../support/analytics/histories.ts";
import { assertError } from "../support/http/assert-error.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { pluck } from "../support/pluck.ts";

type Row = { period: string | null; label: string; size: number; values: number[]; complete: boolean[] };

describe("cohorts", () => {
  const { api, tenant, given, get, ask } = historiesAskedBy("cohorts");
  const rowsOf = (body: Answer["body"]) =>
    body.cohorts.map(({ label, size, values }: Row) => [label, size, values]);

  /** Ada comes in the first week of September 2014, bob in the second one; both are seen again. */
  const weeks: Happening[] = [
    ["ada", "joined", "2014-09-01T00:00:00Z", { team: "red" }],
    ["ada", "scored", "2014-09-07T23:59:59Z", { points: 1.5, at: { all: 2 } }],
    ["ada", "scored", "2014-09-08T00:00:00Z", { points: 2 }],
    ["ada", "scored", "2014-09-22T00:00:00Z", { points: 4, at: { all: "x" } }],
    ["bob", "joined", "2014-09-14T23:59:59.999Z", { team: "blue" }],
    ["bob", "scored", "2014-09-15T00:00:00.000Z", { points: 8 }],
    ["bob", "scored", "2014-09-15T00:00:00.000Z", { points: 0.1 }],
  ];
  const september = "from=2014-09-01&to=2014-09-21&asOf=2014-10-01T00:00:00Z&periods=3";

  it("count by calendar weeks who was active so many weeks after the first event", async () => {
    await given(...weeks);
    const { range, timezone, asOf, generatedAt, cache, players: link, ...body } = await ask(september);
    assert.ok(range && timezone && asOf && generatedAt && cache);
    assert.deepEqual(link.and, ["cohort", "segment", "k"]);
    assert.deepEqual(body, {
      unit: "week",
      metric: "players",
      cumulative: false,
      segmentBy: "acquisition",
      cohorts: [
        {
          period: "2014-09-01",
          label: "Sep 1 - 7",
          size: 1,
          values: [1, 1, 0, 1],
          complete: [true, true, true, true],
        },
        {
          period: "2014-09-08",
          label: "Sep 8 - 14",
          size: 1,
          values: [1, 1, 0, 0],
          complete: [true, true, true, false],
        },
        {
          period: "2014-09-15",
          label: "Sep 15 - 21",
          size: 0,
          values: [0, 0, 0, 0],
          complete: [true, true, false, false],
        },
      ],
      overall: [
        { k: 0, eligible: 2, players: 2, value: 2 },
        { k: 1, eligible: 2, players: 2, value: 2 },
        { k: 2, eligible: 2, players: 0, value: 0 },
        { k: 3, eligible: 1, players: 1, value: 1 },
      ],
    });
  });

  it("measure shares, events, events of a player, and sums of properties", async () => {
    await given(...weeks);
    const values = async (metric: string): Promise<number[][]> =>
      (await ask(`${september}&metric=${metric}`)).cohorts.slice(0, 2).map((row: Row) => row.values);
    assert.deepEqual(await values("rate"), [
      [1, 1, 0, 1],
      [1, 1, 0, 0],
    ]);
    assert.deepEqual(await values("events"), [
      [2, 1, 0, 1],
      [1, 2, 0, 0],
    ]);
    assert.deepEqual(await values("eventsPerPlayer"), [
      [2, 1, 0, 1],
      [1, 2, 0, 0],
    ]);
    assert.deepEqual(await values("sum:scored.points"), [
      [1.5, 2, 0, 4],
      [0, 8.1, 0, 0],
    ]);
    assert.deepEqual(await values("sum:scored.at.all"), [
      [2, 0, 0, 0],
      [0, 0, 0, 0],
    ]);
    const { overall, metric } = await ask(`${september}&metric=sum:scored.points`);
    assert.equal(metric, "sum:scored.points");
    assert.deepEqual(pluck(overall, "value"), [1.5, 10.1, 0, 4]);
    await given(["ada", "order.paid", "2014-09-09T00:00:00Z", { sum: 3 }]);
    assert.deepEqual((await values("sum:order.paid:sum"))[0], [0, 3, 0, 0]);
  });

  it("add up experience points at the time of what they were granted for", async () => {
    const rule = {
      key: "points",
      name: "Points",
      triggers: [{ kind: "EVENT", eventTypes: ["scored"] }],
      actions: [{ type: "grant_xp", amount: 10 }],
    };
    const { id } = must(await api.post("/api/v1/rules", rule, { key: tenant.key }), 201);
    must(await api.post(`/api/v1/rules/${id}/publish`, {}, { key: tenant.key }), 200);
    const ids = await given(...weeks);
    const values = async (): Promise<number[][]> =>
      (await ask(`${september}&metric=xp`)).cohorts.slice(0, 2).map((row: Row) => row.values);
    assert.deepEqual(await values(), [
      [10, 10, 0, 10],
      [0, 20, 0, 0],
    ]);
    must(
      await api.post(`/api/v1/events/${ids[1]}/revert`, { reason: "a mistake" }, { key: tenant.key }),
      200,
    );
    await eventuallyHolds(async () =>
      assert.deepEqual(await values(), [
        [0, 10, 0, 10],
        [0, 20, 0, 0],
      ]),
    );
  });

  it("follow merges: the earlier first event counts, and experience points do not twice", async () => {
    await given(...weeks);
    must(
      await api.post("/api/v1/players/ext:bob/merge", { sourcePlayerId: "ext:ada" }, { key: tenant.key }),
      200,
    );
    assert.deepEqual(rowsOf(await ask(september)), [
      ["Sep 1 - 7", 1, [1, 1, 1, 1]],
      ["Sep 8 - 14", 0, [0, 0, 0, 0]],
      ["Sep 15 - 21", 0, [0, 0, 0, 0]],
    ]);
  });

  it("are zeros in an empty project", async () => {
    const body = await ask("from=2014-09-01&to=2014-09-07&periods=1");
    assert.deepEqual(rowsOf(body), [["Sep 1 - 7", 0, [0, 0]]]);
    assert.deepEqual(body.overall[0], { k: 0, eligible: 0, players: 0, value: 0 });
    const segments = await ask("from=2014-09-01&to=2014-09-07&segmentBy=property&property=team");
    assert.deepEqual(segments.cohorts, []);
  });

  it("refuse what is out of bounds, and name it", async () => {
    const bad: readonly [query: string, field: string][] = [
      ["unit=year", "unit"],
      ["periods=101", "periods"],
      ["metric=sum:scored", "metric"],
      ["metric=sum:scored.a..b", "metric"],
      ["metric=profit", "metric"],
      ["segmentBy=property", "property"],
      ["property=team", "property"],
      ["unit=day&from=2013-01-01&to=2014-12-31", "from"],
      ["unit=day&from=2014-01-01&to=2014-12-31&periods=100", "from"],
      ["unit=month&from=1001-01-01&to=9990-12-31", "from"],
    ];
    for (const [query, field] of bad) {
      const answer = await get(query);
      assertError(answer, 400);
      assert.equal(answer.body.error.details[0].field, field, query);
    }
    assert.match((await get(bad[8]![0])).body.error.message, /10000 cells/);
  });
});
