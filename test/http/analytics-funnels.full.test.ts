import assert from "node:assert/strict";
import { type Answer, aTenant } from "../support/app/app.ts";
import { historiesAskedBy, playersAt, stepsOf } from "../support/analytics/histories.ts";
import { assertError } from "../support/http/assert-error.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";

const DAY = "2024-03-04T";
const YEAR = "from=2024-01-01&to=2024-12-31";
const range = { from: "2024-01-01", to: "2024-12-31" };

describe("funnels", () => {
  const { api, tenant, given, get, post } = historiesAskedBy("funnels");
  const ask = async (body: object): Promise<Answer["body"]> => must(await post({ ...range, ...body }), 200);

  it("count how many players come to each step, with rates, losses and the median time", async () => {
    await given(
      ["ada", "joined", `${DAY}10:00:00Z`],
      ["ada", "asked", `${DAY}10:00:10Z`],
      ["ada", "seen", `${DAY}10:00:11Z`],
      ["ada", "answered", `${DAY}10:01:10Z`],
      ["bob", "joined", `${DAY}11:00:00Z`],
      ["bob", "asked", `${DAY}11:00:20.500Z`],
      ["cleo", "joined", `${DAY}12:00:00Z`],
      ["dora", "asked", `${DAY}12:00:00Z`],
    );
    const { body } = await get(`steps=joined,asked,answered&window=7d&${YEAR}`);
    const { range: shown, timezone, asOf, generatedAt, cache, players, ...funnel } = body;
    assert.deepEqual([shown.from, shown.to, timezone, cache.hit], ["2024-01-01", "2024-12-31", "UTC", false]);
    assert.ok(asOf && generatedAt);
    assert.deepEqual([players.path, players.of], ["/analytics/players", "funnels"]);
    const step = { label: null };
    assert.deepEqual(funnel, {
      order: "ordered",
      window: "P7D",
      steps: [
        {
          ...step,
          index: 1,
          eventType: "joined",
          players: 3,
          fromStart: 1,
          fromPrevious: 1,
          dropOff: 1,
          medianSecondsFromPrevious: null,
        },
        {
          ...step,
          index: 2,
          eventType: "asked",
          players: 2,
          fromStart: 0.666667,
          fromPrevious: 0.666667,
          dropOff: 1,
          medianSecondsFromPrevious: 15.25,
        },
        {
          ...step,
          index: 3,
          eventType: "answered",
          players: 1,
          fromStart: 0.333333,
          fromPrevious: 0.5,
          dropOff: 0,
          medianSecondsFromPrevious: 60,
        },
      ],
      entered: 3,
      converted: 1,
      rate: 0.333333,
      openEntries: 0,
    });
    assert.deepEqual((await ask({ steps: stepsOf("joined", "asked"), window: "P1W" })).window, "P7D");
  });

  it("say how many entries may still come further", async () => {
    await given(
      ["ada", "joined", "2024-03-01T00:00:00Z"],
      ["bob", "joined", "2024-03-08T00:00:00Z"],
      ["cleo", "joined", "2024-03-09T00:00:00Z"],
      ["cleo", "asked", "2024-03-09T00:00:01Z"],
      ["dora", "joined", "2024-03-15T00:00:00Z"],
    );
    const { body } = await get(
      `steps=joined,asked&window=7d&from=2024-03-01&to=2024-03-31&asOf=2024-03-15T00:00:00Z`,
    );
    assert.deepEqual([body.entered, body.openEntries], [3, 2]);
  });

  it("follow merges, and leave out what was rejected or reverted; late events count", async () => {
    const [, asked] = await given(
      ["ada", "joined", `${DAY}10:00:00Z`],
      ["ada", "asked", `${DAY}10:00:01Z`],
      ["bob", "joined", `${DAY}10:00:00Z`],
      ["bob2", "asked", `${DAY}10:00:01Z`],
    );
    const players = async (): Promise<number[]> => playersAt((await get(`steps=joined,asked&${YEAR}`)).body);
    assert.deepEqual(await players(), [2, 1]);
    const merge = { sourcePlayerId: "ext:bob2" };
    must(await api.post("/api/v1/players/ext:bob/merge", merge, { key: tenant.key }), 200);
    assert.deepEqual(await players(), [2, 2]);
    must(await api.post(`/api/v1/events/${asked}/revert`, { reason: "a mistake" }, { key: tenant.key }), 200);
    await eventuallyHolds(async () => assert.deepEqual(await players(), [2, 1]));
    await given(["ada", "asked", `${DAY}10:00:05Z`]);
    assert.deepEqual(await players(), [2, 2]);
  });

  it("are zeros in an empty project", async () => {
    const { body } = await get(`steps=joined,asked&breakdown=team`);
    assert.deepEqual(
      [playersAt(body), body.entered, body.rate, body.openEntries, body.breakdown],
      [[0, 0], 0, 0, 0, []],
    );
  });

  it("refuse what is out of bounds, and name it", async () => {
    const bad: readonly [query: string, field: string][] = [
      ["steps=joined", "steps"],
      [`steps=${Array.from({ length: 11 }, (_, i) => `s${i}`).join()}`, "steps"],
      ["steps=a,b&window=59s", "window"],
      ["steps=a,b&window=0m", "window"],
      ["steps=a,b&window=367d", "window"],
      ["steps=a,b&order=loose", "order"],
      ["steps=a,b&breakdown=a..b", "breakdown"],
      ["steps=a,b&limit=101", "limit"],
      ["steps=a,b&from=2024-02-01&to=2024-01-01", "to"],
      ["steps=a,b&timezone=Mars/Base", "timezone"],
      ["steps=a,b&asOf=2999-01-01T00:00:00Z", "asOf"],
    ];
    for (const [query, field] of bad) {
      const answer = await get(query);
      assertError(answer, 400);
      assert.equal(answer.body.error.details[0].field.split(".")[0], field, query);
    }
    const free = await aTenant(api);
    const answer = await api.get(`/api/v1/analytics/funnels?steps=a,b&${YEAR}`, { key: free.key });
    assertError(answer, 402, "PLAN_LIMIT_EXCEEDED");
  });
});
