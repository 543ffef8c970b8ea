import assert from "node:assert/strict";
import { pauseByEngine } from "../../src/domain/rules/lifecycle/publishing.ts";
import { must } from "../support/http/client.ts";
import { fieldsOf, ownRules, reasonOf, RULES } from "../support/rules/rules-api.ts";
import { pluck } from "../support/pluck.ts";

const on = (...eventTypes: string[]) => [{ kind: "EVENT", eventTypes }];
const emit = (eventType: string) => ({ type: "emit_event", eventType, channels: ["rules"] });

describe("publishing a rule", () => {
  const { api, tenant, rules } = ownRules();

  it("is refused while it names what the project does not have, each place named", async () => {
    const rule = {
      conditions: {
        all: [
          { type: "segment", segmentKeys: ["vip"] },
          { any: [{ type: "streak", streakKey: "daily", op: "gte", value: 3 }] },
          { type: "player_property", field: "currencies.gems", op: "gte", value: 3 },
          { type: "leaderboard_rank", leaderboardKey: "top", measure: "score", op: "lte", value: 3 },
        ],
      },
      actions: [
        {
          type: "adjust_currency",
          currencyKey: "coins",
          amount: { op: "add", args: [1, { $ref: "player.currencies.old" }] },
        },
        { type: "update_badge", badgeKey: "gold", operation: "AWARD" },
        { type: "grant_reward", rewardKey: "chest" },
        { type: "apply_boost", boostKey: "b", applies: "currency:none", factor: 2, durationSeconds: 60 },
        { type: "update_player", addToSegments: ["club"] },
      ],
      limits: { budgets: [{ asset: "reward:chest", max: 5, window: "DAY" }] },
    };
    await rules.create(rule);
    const [status, fields] = fieldsOf(await rules.act("lesson", "publish"));
    assert.equal(status, 400);
    assert.deepEqual(fields, [
      "conditions.all.0.segmentKeys",
      "conditions.all.1.any.0.streakKey",
      "conditions.all.2.field",
      "conditions.all.3.leaderboardKey",
      "actions.0.currencyKey",
      "actions.0.amount.args.1.$ref",
      "actions.1.badgeKey",
      "actions.2.rewardKey",
      "actions.3.applies",
      "actions.4.addToSegments",
      "limits.budgets.0.asset",
    ]);
    assert.equal(must(await rules.get("/lesson"), 200).status, "DRAFT");
  });

  it("takes what is there and of the right kind, and nothing that is archived", async () => {
    await rules.define("currencies", { key: "coins" });
    await rules.define("segments", { key: "club" });
    const all = { all: [] };
    await rules.define("segments", { key: "vip", kind: "DYNAMIC", definition: all });
    const action = { type: "adjust_currency", currencyKey: "coins", amount: 1 };
    await rules.create({ actions: [action, { type: "update_player", addToSegments: ["club", "vip"] }] });
    const refused = await rules.act("lesson", "publish");
    assert.deepEqual(fieldsOf(refused), [400, ["actions.1.addToSegments.1"]]);
    assert.match(refused.body.error.message, /vip: the members of a DYNAMIC segment/);
    must(
      await api.patch(`${RULES}/lesson`, { draftVersion: 1, actions: [action] }, { key: tenant.key }),
      200,
    );
    must(await rules.act("lesson", "publish"), 200);
    must(await rules.act("lesson", "pause"), 200);
    must(await api.delete("/api/v1/currencies/coins", { key: tenant.key }), 200);
    // What has gone meanwhile keeps a rule from coming back.
    const resumed = await rules.act("lesson", "resume");
    assert.deepEqual(fieldsOf(resumed), [400, ["actions.0.currencyKey"]]);
    assert.match(resumed.body.error.message, /the currency is archived/);
  });

  it("is refused for rules that set one another off without end, and says the way round", async () => {
    await rules.publish({ key: "a", triggers: on("ping"), actions: [emit("pong")] });
    await rules.create({ key: "b", triggers: on("pong"), actions: [emit("ping")] });
    const refused = await rules.act("b", "publish");
    assert.deepEqual(reasonOf(refused), [400, "RULE_LOOP"]);
    assert.match(refused.body.error.details[0].message, /can set itself off: .*a → pong → b/);
    const limits = { cooldownSeconds: 60 };
    must(await api.patch(`${RULES}/b`, { draftVersion: 1, limits }, { key: tenant.key }), 200);
    const published = must(await rules.act("b", "publish"), 200);
    assert.equal(published.warnings.length, 1);
    const { nodes, edges, cycles } = must(await rules.get("/graph"), 200);
    assert.deepEqual(pluck(nodes, "key", "causes"), [
      ["a", ["pong"]],
      ["b", ["ping"]],
    ]);
    assert.equal(edges.length, 2);
    assert.deepEqual(pluck(cycles, "isBounded", "path"), [[true, ["a", "pong", "b", "ping", "a"]]]);
  });

  it("can be undone by the engine, which says why", async () => {
    const { id } = await rules.publish();
    const pause = () => api.app.transact((work) => pauseByEngine(work, tenant.projectId, id, "LOOP_GUARD"));
    assert.equal(await pause(), true);
    const paused = must(await rules.get("/lesson"), 200);
    assert.deepEqual([paused.status, paused.pauseReason], ["PAUSED", "LOOP_GUARD"]);
    await rules.track("u1");
    assert.equal(must(await api.get("/api/v1/players/ext:u1", { key: tenant.key }), 200).xp, 0);
    assert.equal(await pause(), false);
    assert.deepEqual(
      [(await rules.act("lesson", "resume")).status, must(await rules.get("/lesson"), 200).pauseReason],
      [200, null],
    );
  });
});
