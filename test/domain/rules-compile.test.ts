import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import {
  compileRules,
  type PublishedRule,
  type RuleSet,
} from "../../src/domain/evaluation/running/compile.ts";
import { needsOf } from "../../src/domain/evaluation/language/document.ts";
import { aDocument, aRule, aTurn, ruleSetOf } from "../support/rules/evaluation.ts";
import { cases } from "../support/properties.ts";
import { pluck } from "../support/pluck.ts";

const count = (...eventTypes: string[]): Json => ({
  type: "event_aggregate",
  metric: { eventTypes, aggregate: "count" },
  op: "gte",
  value: 1,
});
const on = (...eventTypes: string[]): Json => ({ triggers: [{ kind: "EVENT", eventTypes }] });
const keysOf = (rules: readonly { key: string }[]): string[] => rules.map(({ key }) => key);
const candidates = (set: RuleSet, type: string, properties: Json = {}): string[] =>
  keysOf(set.candidates(aTurn({ type, properties }).event));

describe("compiled rules", () => {
  const scalar = fc.constantFrom<(string | number | boolean | null)[]>(1, 2, "1", "a", true, null, 0, -0);
  const equal = fc.oneof(
    scalar.map((value) => ({ type: "event_property", path: "p", op: "eq", value })),
    fc
      .array(scalar, { minLength: 1, maxLength: 3 })
      .map((value) => ({ type: "event_property", path: "q.r", op: "in", value })),
    fc.constantFrom(
      { type: "event_property", path: "p", op: "exists" },
      { type: "event_property", path: "p", op: "neq", value: 1 },
      { type: "event_property", path: "p", op: "eq", value: { $ref: "player.level" } },
      { any: [{ type: "event_property", path: "p", op: "eq", value: 1 }] },
    ),
  );
  const rules = fc.array(
    fc.record({
      conditions: fc.oneof(
        fc.array(equal, { maxLength: 3 }).map((all) => ({ all })),
        fc.array(equal, { minLength: 1, maxLength: 2 }).map((any) => ({ any })),
      ),
      priority: fc.integer({ min: -2, max: 2 }),
      types: fc.constantFrom(["tried"], ["other"], ["*"], ["tried", "*"], ["tried.*"]),
    }),
    { maxLength: 12 },
  );
  const value = fc.oneof(scalar, fc.constantFrom(undefined, [1], { r: 1 }));

  it("that an event's properties rule out are never among its candidates, and no other is missing", () => {
    fc.assert(
      fc.property(rules, value, value, (documents, p, r) => {
        const set = ruleSetOf(...documents.map(({ types, ...rest }) => ({ ...rest, ...on(...types) })));
        const properties = JSON.parse(JSON.stringify({ p, q: { r } })) as Json;
        const turn = aTurn({ type: "tried", properties });
        const found = set.candidates(turn.event);
        const matching = set.listeners("tried").filter((rule) => rule.test(turn));
        assert.deepEqual(
          keysOf(found.filter((rule) => rule.test(turn))),
          keysOf(matching),
          "the index loses no match and keeps the order",
        );
        const orders = found.map(({ order }) => order);
        assert.deepEqual(
          orders,
          orders.toSorted((a, b) => a - b),
        );
        assert.equal(new Set(orders).size, orders.length);
      }),
      { numRuns: cases(500) },
    );
  });

  it("are looked up by the property they want, so that the others cost nothing", () => {
    const shops = Array.from({ length: 300 }, (_, i) => ({
      conditions: { all: [{ type: "event_property", path: "shop", op: "eq", value: `s${i}` }] },
    }));
    const lists = Array.from({ length: 300 }, (_, i) => ({
      conditions: { all: [{ type: "event_property", path: "shop", op: "in", value: [`s${i}`, "all"] }] },
    }));
    const set = ruleSetOf(...shops, ...lists);
    assert.equal(candidates(set, "tried", { shop: "s7" }).length, 2);
    assert.equal(candidates(set, "tried", { shop: "all" }).length, 300);
    assert.equal(candidates(set, "tried", {}).length, 0);
  });

  it("are found for a schedule by id, and only the one", () => {
    const [a, b] = [aRule({ key: "a" }), aRule({ key: "b" })];
    const set = compileRules([a, b]);
    const due = (ruleId: string) => ({ ...aTurn({ type: "system.schedule" }).event, ruleId });
    assert.deepEqual(keysOf(set.candidates(due(b.id))), ["b"]);
    assert.deepEqual(set.candidates(due("gone")), []);
  });

  it("say which are in shadow", () => {
    const shadow: PublishedRule = { ...aRule({ key: "shadow" }), isShadow: true };
    const set = compileRules([shadow, aRule({ key: "live" })]);
    assert.deepEqual(set.all.map(({ key, isShadow }) => [key, isShadow]).toSorted(), [
      ["live", false],
      ["shadow", true],
    ]);
  });

  it("give the metrics of all their conditions, however deep, for what has to be counted", () => {
    const set = ruleSetOf(
      { conditions: { any: [{ none: [count("a")] }, { all: [count("b"), count("a")] }] } },
      { conditions: { all: [count("c")] } },
    );
    assert.deepEqual(
      set.metrics.map(({ eventTypes }) => eventTypes[0]),
      ["a", "b", "a", "c"],
    );
  });

  it("name every other definition that they need, each with its place", () => {
    const rule = aDocument({
      conditions: {
        all: [
          {
            type: "player_property",
            field: "currencies.gold",
            op: "gte",
            value: { ref: "player.currencies.gems" },
          },
          {
            any: [
              { type: "streak", streakKey: "daily", op: "gte", value: 7 },
              { type: "progress_state", entity: "badge", key: "hero", states: ["HELD"] },
              { type: "leaderboard_rank", leaderboardKey: "top", measure: "score", op: "gt", value: 0 },
              { type: "segment", segmentKeys: ["vip", "new"] },
              count("bought"),
            ],
          },
        ],
      },
      actions: [
        { type: "grant_xp", amount: { op: "add", args: [1, { $ref: "player.currencies.gold" }] } },
        { type: "submit_score", leaderboardKey: "weekly", score: 1 },
        { type: "update_player", set: { badgeKey: "not a name", streak: { ref: "player.currencies.x" } } },
        { type: "update_player", set: { ref: "player.currencies.text" } },
      ],
    });
    const { metrics, mentions } = needsOf(rule);
    assert.deepEqual(pluck(metrics, "eventTypes"), [["bought"]]);
    assert.deepEqual(
      mentions.map(({ kind, key, path }) => `${kind} ${key} ${path}`),
      [
        "currency gold conditions.all.0.field",
        "currency gems conditions.all.0.value.ref",
        "streak daily conditions.all.1.any.0.streakKey",
        "badge hero conditions.all.1.any.1.key",
        "leaderboard top conditions.all.1.any.2.leaderboardKey",
        "segment vip conditions.all.1.any.3.segmentKeys",
        "segment new conditions.all.1.any.3.segmentKeys",
        "currency gold actions.0.amount.args.1.$ref",
        "leaderboard weekly actions.1.leaderboardKey",
        "currency x actions.2.set.streak.ref",
      ],
    );
  });
});
