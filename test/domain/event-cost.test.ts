import assert from "node:assert/strict";
import {
  ACTION_STEPS,
  CHANGE_STEPS_MAX,
  ChangeCost,
  EventCost,
  RULE_STEPS_MAX,
  WRITTEN_MAX_BYTES,
} from "../../src/domain/evaluation/event-cost.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { aProject, evaluate } from "../support/rules/evaluation.ts";
import { pluck } from "../support/pluck.ts";

const times = <T>(n: number, make: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => make(i));
const exhausted = ({ told }: ReturnType<typeof evaluate>): Json[] =>
  told.filter(({ type }) => type === "event.steps_exhausted").map(({ data }) => data);

describe("the steps of an event's rules", () => {
  const condition = (n: number): Json => ({ type: "event_property", path: `p${n}`, op: "exists" });
  const rules = times(8, (i) => ({
    key: `r${i}`,
    priority: 9 - i,
    stopOnMatch: false,
    conditions: { any: times(i === 2 ? 20 : 4, condition) },
    actions: [{ type: "grant_xp", amount: 1 }],
  }));
  const properties = { p0: 1 };

  it("are one for each rule and condition, and ten for each action, whatever the values", () => {
    const { turn } = evaluate(aProject({ rules }), { properties });
    assert.equal(turn.root.cost.steps.spent, 7 * 5 + 21 + 8 * ACTION_STEPS);
    const { turn: unmet } = evaluate(aProject({ rules }), {});
    assert.equal(unmet.root.cost.steps.spent, 7 * 5 + 21);
  });

  it("end where they are spent: no later rule fires, and the dearest one is told once", () => {
    const cost = new EventCost(3 * (5 + ACTION_STEPS) + 20);
    const done = evaluate(aProject({ rules }), { properties, cost });
    assert.deepEqual(done.reasons, [
      ...times(3, (i) => `r${i} MATCHED`),
      ...times(5, (i) => `r${i + 3} STEPS_EXHAUSTED`),
    ]);
    assert.equal(done.player.xp, 3, "what had fired stands");
    assert.deepEqual(pluck(exhausted(done), "kind", "key"), [["rule", "r2"]]);
  });

  it("are shared by all players whom one transaction changes", () => {
    const costs = new ChangeCost();
    const take = (steps: number): number => {
      const cost = costs.open();
      cost.take(steps);
      costs.close(cost);
      return cost.steps.max;
    };
    for (let spent = 0; spent <= CHANGE_STEPS_MAX; spent += RULE_STEPS_MAX) take(RULE_STEPS_MAX);
    assert.deepEqual([take(0), new ChangeCost().open().steps.max], [0, RULE_STEPS_MAX]);
  });
});

describe("what the rules of an event write", () => {
  const lines = (n: number, size: number): Json[] =>
    times(n, (i) => ({
      type: "emit_event",
      eventType: `line${i}`,
      channels: ["webhook"],
      properties: { text: "x".repeat(size) },
    }));
  const rowsOf = ({ turn }: ReturnType<typeof evaluate>): unknown[] => Object.values(turn.effects).flat();

  for (const size of [1, 1_000])
    it(`ends at 1 MiB, and a thousand rows: lines of ${size} characters`, () => {
      const rules = times(132, (i) => ({ key: `r${i}`, actions: lines(20, size) }));
      const done = evaluate(aProject({ rules }), {});
      const written = rowsOf(done);
      assert(written.length > 300 && written.length < 1_100, `${written.length} rows`);
      assert(JSON.stringify(written).length < 1.1 * WRITTEN_MAX_BYTES);
      assert.equal(done.outcomes[0]!.outcome.reason, "MATCHED");
      assert.equal(done.outcomes.at(-1)!.outcome.reason, "STEPS_EXHAUSTED");
      assert.equal(exhausted(done)[0]!["kind"], "rule");
    });

  it("bounds the rewards inside rewards that rules give", () => {
    const coins = Object.fromEntries(times(10, (i) => [`coins${i}`, 1]));
    const inner = times(20, () => ({ rewardKey: "inner" }));
    const reward = [
      { key: "chest", name: "A chest", kind: "BUNDLE", bundle: { rewards: inner } },
      { key: "inner", name: "A purse", kind: "BUNDLE", bundle: { currencies: coins } },
    ];
    const currency = Object.keys(coins).map((key) => ({ key, name: key }));
    const rules = times(9, (i) => ({
      key: `r${i}`,
      actions: times(5, () => ({ type: "grant_reward", rewardKey: "chest" })),
    }));
    const done = evaluate(aProject({ rules, define: { currency, reward } }), {});
    assert(rowsOf(done).length < 1_500, `${rowsOf(done).length} rows`);
    assert.match(done.warnings[0]!, /too many rewards inside one another/);
    assert.equal(done.outcomes.at(-1)!.outcome.reason, "STEPS_EXHAUSTED");
  });

  it("is not noticed where an event has dozens of effects", () => {
    const actions = [...lines(9, 200), { type: "grant_xp", amount: 5 }];
    const done = evaluate(aProject({ rules: times(6, (i) => ({ key: `r${i}`, actions })) }), {});
    assert.deepEqual(new Set(done.outcomes.map(({ outcome }) => outcome.reason)), new Set(["MATCHED"]));
    assert(done.turn.root.cost.written.spent < WRITTEN_MAX_BYTES / 4);
  });
});
