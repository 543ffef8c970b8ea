import assert from "node:assert/strict";
import { aKey } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { fieldsOf, ownRules, RULES } from "../support/rules/rules-api.ts";

const DAY_MS = 86_400_000;
const LESSONS = { eventTypes: ["lesson.completed"], aggregate: "count" };

/** From the third lesson on, which takes a counter. */
const third = {
  conditions: { all: [{ type: "event_aggregate", metric: LESSONS, op: "gte", value: 3 }] },
  actions: [{ type: "grant_xp", amount: 10 }],
};

describe("rules and past events, by the API", () => {
  const { api, tenant, rules } = ownRules();
  const span = () => ({
    from: new Date(Date.now() - DAY_MS).toISOString(),
    to: new Date(Date.now() + DAY_MS).toISOString(),
  });

  it("a backtest answers a job, whose result tells what the draft would have done", async () => {
    for (let i = 0; i < 5; i++) await rules.track("u1");
    await rules.track("u2");
    await rules.create(third);
    const job = must(await rules.act("lesson", "backtest", span()), 201);
    assert.equal(job.kind, "BACKTEST");
    const result = await rules.result(job.id);
    assert.deepEqual(
      [result.events, result.evaluated, result.fired, result.players, result.playersReached, result.cost],
      [6, 6, 3, 2, 1, { xp: 30 }],
    );
    assert.deepEqual(result.topFailingConditions, [{ path: "conditions.all[0]", events: 3 }]);
    assert.equal(must(await api.get("/api/v1/players/ext:u1", { key: tenant.key }), 200).xp, 0);
    const bad = await rules.act("lesson", "backtest", { ...span(), version: 1, draft: true });
    assert.deepEqual(fieldsOf(bad), [400, ["draft"]]);
    assert.equal((await rules.act("lesson", "backtest", { ...span(), version: 1 })).status, 404);
    const reader = await aKey(api, { ...tenant, scopes: ["rules:read"] });
    assert.equal((await api.post(`${RULES}/lesson/backtest`, span(), { key: reader })).status, 403);
  });

  it("publishing with backfill lets a rule know what players did before", async () => {
    for (let i = 0; i < 4; i++) await rules.track("u1");
    await rules.publish({
      key: "without",
      ...third,
      actions: [{ type: "update_player", addTags: ["without"] }],
    });
    await rules.track("u1");
    assert.deepEqual(must(await api.get("/api/v1/players/ext:u1", { key: tenant.key }), 200).tags, []);

    const published = await rules.publish(third, { backfill: true });
    const result = await rules.result(published.backfillJobId);
    assert.deepEqual([result.players, result.changed, result.events], [1, 1, 5]);
    await rules.track("u1");
    const player = must(await api.get("/api/v1/players/ext:u1", { key: tenant.key }), 200);
    // Equal metrics are one counter, so the other rule knows it now, too.
    assert.deepEqual([player.xp, player.tags], [10, ["without"]]);
  });
});
