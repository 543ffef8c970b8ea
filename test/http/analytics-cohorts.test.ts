import assert from "node:assert/strict";
import type { Answer } from "../support/app/app.ts";
import { type Happening, historiesAskedBy } from "../support/analytics/histories.ts";
import { assertError } from "../support/http/assert-error.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";

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
    assert.deepEqual(
      overall.map(({ value }: { value: number }) => value),
      [1.5, 10.1, 0, 4],
    );
    await given(["ada", "order.paid", "2014-09-09T00:00:00Z", { sum: 3 }]);
    assert.deepEqual((await values("sum:order.paid:sum"))[0], [0, 3, 0, 0]);
  });

  it("accumulate: players of a week or a later one, events up to a week", async () => {
    await given(...weeks);
    const values = async (metric: string): Promise<number[][]> =>
      (await ask(`${september}&cumulative=true&metric=${metric}`)).cohorts.map((row: Row) => row.values);
    assert.deepEqual(await values("players"), [
      [1, 1, 1, 1],
      [1, 1, 0, 0],
      [0, 0, 0, 0],
    ]);
    assert.deepEqual(await values("events"), [
      [2, 3, 3, 4],
      [1, 3, 3, 3],
      [0, 0, 0, 0],
    ]);
    await given(["bob", "scored", "2014-09-30T00:00:00Z"]);
    const later = await ask(`${september.replace("periods=3", "periods=1")}&cumulative=true`);
    assert.deepEqual(later.cohorts[1].values, [1, 1], "later than the last column counts too");
  });

  it("begin weeks on Sunday where told so, and are months of the calendar or days", async () => {
    await given(...weeks);
    const sunday = await ask(`${september}&weekStart=sunday`);
    assert.deepEqual(rowsOf(sunday), [
      ["Aug 31 - Sep 6", 1, [1, 1, 0, 1]],
      ["Sep 7 - 13", 0, [0, 0, 0, 0]],
      ["Sep 14 - 20", 1, [1, 0, 0, 0]],
      ["Sep 21 - 27", 0, [0, 0, 0, 0]],
    ]);
    await given(
      ["cleo", "joined", "2014-01-31T12:00:00Z"],
      ["cleo", "scored", "2014-02-28T12:00:00Z"],
      ["cleo", "scored", "2014-03-31T12:00:00Z"],
    );
    const months = await ask("unit=month&from=2014-01-15&to=2014-02-01&periods=2&asOf=2014-04-01T00:00:00Z");
    assert.deepEqual(rowsOf(months), [
      ["Jan 2014", 1, [1, 1, 1]],
      ["Feb 2014", 0, [0, 0, 0]],
    ]);
    assert.deepEqual(months.cohorts[1].complete, [true, true, false]);
    const days = await ask("unit=day&from=2014-01-31&to=2014-01-31&periods=28&asOf=2014-04-01T00:00:00Z");
    assert.equal(days.cohorts[0].label, "Jan 31");
    assert.deepEqual(days.cohorts[0].values, [1, ...Array.from({ length: 27 }, () => 0), 1]);
  });

  it("leave out who came before the range, in the same week too, and clip the last week", async () => {
    await given(
      ["ada", "joined", "2014-09-02T00:00:00Z"],
      ["ada", "seen", "2014-09-03T00:00:00Z"],
      ["bob", "joined", "2014-09-03T00:00:00Z"],
      ["bob", "seen", "2014-09-07T00:00:00Z"],
      ["cleo", "joined", "2014-09-05T00:00:00Z"],
    );
    const body = await ask("from=2014-09-03&to=2014-09-04&periods=0&metric=events");
    assert.deepEqual(rowsOf(body), [["Sep 1 - 7", 1, [2]]]);
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

  it("divide players by a property of the first event instead", async () => {
    await given(
      ...weeks,
      ["cleo", "joined", "2014-09-14T00:00:00Z", { team: "red" }],
      ["dora", "joined", "2014-09-14T00:00:00Z"],
      ["dora", "seen", "2014-09-15T00:00:00Z", { team: "red" }],
      ["emil", "joined", "2014-09-01T00:00:00Z", { team: "green" }],
    );
    const body = await ask(`${september}&segmentBy=property&property=team&limit=2`);
    const seen = body.cohorts.map((row: Row) => [row.period, row.label, row.size, row.values, row.complete]);
    assert.deepEqual(seen, [
      [null, "red", 2, [2, 1, 0, 1], [true, true, true, false]],
      [null, "(none)", 1, [1, 1, 0, 0], [true, true, true, false]],
      [null, "(other)", 2, [2, 1, 0, 0], [true, true, true, false]],
    ]);
    assert.equal(body.overall[0].players, 5);
    const all = await ask(`${september}&segmentBy=property&property=team`);
    assert.deepEqual(
      all.cohorts.map(({ label }: Row) => label),
      ["red", "(none)", "blue", "green"],
    );
  });

  it("see nothing of what happened at asOf or later", async () => {
    await given(...weeks);
    const body = await ask("from=2014-09-01&to=2014-09-21&asOf=2014-09-08T00:00:00Z&periods=2");
    assert.deepEqual(rowsOf(body)[0], ["Sep 1 - 7", 1, [1, 0, 0]]);
    assert.deepEqual(body.cohorts[0].complete, [true, false, false]);
    assert.deepEqual(body.overall[0], { k: 0, eligible: 1, players: 1, value: 1 });
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
