import assert from "node:assert/strict";
import { type Answer, aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { aLessonRule, RULES } from "../support/rules/rules-api.ts";
import { pluck } from "../support/pluck.ts";

type Json = Record<string, unknown>;

describe("checking a rule", () => {
  let api: TestApp;
  let tenant: Tenant;
  let key: string;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
    key = tenant.key;
  });
  const validate = async (rule: unknown): Promise<Answer["body"]> =>
    must(await api.post(`${RULES}/validate`, rule, { key }), 200);

  it("tells needs and cost of a good one, and saves nothing", async () => {
    const metric = { eventTypes: ["lesson.completed"], aggregate: "sum", property: "score" };
    const answer = await validate(
      aLessonRule({
        conditions: {
          all: [
            { type: "event_property", path: "kind", op: "eq", value: "quiz" },
            { type: "event_aggregate", metric, op: "gte", value: 100 },
          ],
        },
        limits: { global: [{ max: 5, window: "DAY" }] },
      }),
    );
    assert.deepEqual([answer.valid, answer.errors, answer.warnings], [true, [], []]);
    assert.equal(answer.needs.metrics[0].property, "score");
    assert.deepEqual(answer.estimatedCost, {
      conditions: 2,
      actions: 1,
      counters: 1,
      sharedCounters: 1,
      isIndexed: true,
      level: "MEDIUM",
    });
    assert.equal(must(await api.get(RULES, { key }), 200).pagination.total, 0);
  });

  it("tells what a bad one names that the project does not have, beside its other problems", async () => {
    const answer = await validate(
      aLessonRule({
        priority: 5_000,
        conditions: {
          all: [
            { type: "streak", streakKey: "daily", op: "gte", value: "three" },
            { any: [{ type: "nonsense" }, { type: "segment", segmentKeys: ["vip"] }] },
          ],
        },
        actions: [
          { type: "grant_xp" },
          { type: "adjust_currency", currencyKey: "coins", amount: 1, delaySecond: 5 },
          { type: "update_badge", badgeKey: "first", operation: "AWARD", tier: 0 },
        ],
        limits: { budgets: [{ asset: "reward:box", max: 1, window: "DAY" }], cooldownSeconds: -1 },
      }),
    );
    const fieldsOf = (list: Json[]) => list.map(({ field }) => field);
    assert.deepEqual([answer.valid, answer.needs], [false, null]);
    assert.deepEqual(fieldsOf(answer.errors).toSorted(), [
      "actions.0.amount",
      "actions.1.delaySecond",
      "actions.2.tier",
      "conditions.all.0.value",
      "conditions.all.1.any.0.type",
      "limits.cooldownSeconds",
      "priority",
    ]);
    assert.deepEqual(fieldsOf(answer.warnings).toSorted(), [
      "actions.1.currencyKey",
      "actions.2.badgeKey",
      "conditions.all.0.streakKey",
      "conditions.all.1.any.1.segmentKeys",
      "limits.budgets.0.asset",
    ]);
    assert.ok(answer.warnings.every(({ blocksPublish }: Json) => blocksPublish));
  });

  it("warns of what would keep it from being published", async () => {
    const answer = await validate(
      aLessonRule({
        triggers: [{ kind: "EVENT", eventTypes: ["player.xp_granted"] }],
        actions: [
          { type: "adjust_currency", currencyKey: "coins", amount: 1 },
          { type: "grant_xp", amount: 1 },
        ],
      }),
    );
    assert.equal(answer.valid, true);
    assert.deepEqual(pluck(answer.warnings, "field", "blocksPublish"), [
      ["actions.0.currencyKey", true],
      ["triggers", true],
    ]);
    assert.match(answer.warnings[1].message, /lesson → player\.xp_granted → lesson: give a rule on the way/);
  });
});
