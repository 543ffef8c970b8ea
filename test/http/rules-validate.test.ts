import assert from "node:assert/strict";
import { type Answer, aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { aLessonRule, RULES } from "../support/rules/rules-api.ts";

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

  it("tells all problems of a bad one at their places", async () => {
    const answer = await validate({
      key: "Bad Key",
      triggers: [{ kind: "EVENT", eventTypes: [] }],
      conditions: { all: [{ type: "event_property", path: "a", op: "gte" }, { type: "nonsense" }] },
      actions: [{ type: "grant_xp", amount: "5" }],
      limits: { perPlayer: [{ max: 0, window: "DAY" }] },
    });
    assert.deepEqual([answer.valid, answer.needs, answer.estimatedCost], [false, null, null]);
    // What the tree of conditions has wrong is told alone: the rest would be told of a document that is none.
    assert.deepEqual(
      answer.errors.map(({ field }: { field: string }) => field),
      ["conditions.all.0.value", "conditions.all.1.type"],
    );
    const rest = await validate({
      key: "Bad Key",
      triggers: [{ kind: "EVENT", eventTypes: [] }],
      actions: [{ type: "grant_xp", amount: "5" }],
      limits: { perPlayer: [{ max: 0, window: "DAY" }] },
      wrong: 1,
    });
    assert.deepEqual(rest.errors.map(({ field }: { field: string }) => field).toSorted(), [
      "actions.0.amount",
      "key",
      "limits.perPlayer.0.max",
      "name",
      "triggers.0.eventTypes",
      "wrong",
    ]);
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
    assert.deepEqual(
      answer.warnings.map(({ field, blocksPublish }: Json) => [field, blocksPublish]),
      [
        ["actions.0.currencyKey", true],
        ["triggers", true],
      ],
    );
    assert.match(answer.warnings[1].message, /lesson → player\.xp_granted → lesson: give a rule on the way/);
  });
});
