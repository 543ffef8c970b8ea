import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { RULE_STEPS_MAX, WRITTEN_STEPS_MAX } from "../../src/domain/evaluation/event-accounts.ts";
import { evaluate, aProject } from "../support/rules/evaluation.ts";

const COINS = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`coins${i}`, 1]));
const INNER = { rewardKey: "inner" };

const times = <T>(n: number, make: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => make(i));
const dearest = ({ told }: ReturnType<typeof evaluate>): Json[] =>
  told.filter(({ type }) => type === "event.steps_exhausted").map(({ data }) => data);

describe("the steps of what an event writes", () => {
  const lines = (n: number, size: number): Json[] =>
    times(n, (i) => ({
      type: "emit_event",
      eventType: `line${i}`,
      channels: ["webhook"],
      properties: { text: "x".repeat(size) },
    }));
  const rowsOf = ({ turn }: ReturnType<typeof evaluate>): unknown[] => Object.values(turn.effects).flat();

  it("bound what rules write: to a few hundred rows and some 100 kB", () => {
    for (const size of [1, 1_000]) {
      const rules = times(132, (i) => ({ key: `r${i}`, actions: lines(20, size) }));
      const done = evaluate(aProject({ rules }), {});
      const written = rowsOf(done);
      assert(written.length > 100 && written.length < 600, `${written.length} rows`);
      assert(JSON.stringify(written).length < 600_000);
      const { rules: account } = done.turn.root.accounts;
      assert(account.written.spent < 1.2 * WRITTEN_STEPS_MAX, "one rule may begin with the last step");
      assert(account.spent < RULE_STEPS_MAX, "evaluation has steps of its own");
      assert.equal(done.outcomes[0]!.outcome.reason, "MATCHED");
      assert.equal(done.outcomes.at(-1)!.outcome.reason, "STEPS_EXHAUSTED");
      assert.deepEqual([dearest(done).length, dearest(done)[0]!["kind"]], [1, "rule"]);
    }
  });

  it("bound the rewards inside rewards that rules give", () => {
    const reward = [
      { key: "chest", name: "A chest", kind: "BUNDLE", bundle: { rewards: times(20, () => INNER) } },
      { key: "inner", name: "A purse", kind: "BUNDLE", bundle: { currencies: COINS } },
    ];
    const currency = Object.keys(COINS).map((key) => ({ key, name: key }));
    const rules = times(5, (i) => ({
      key: `r${i}`,
      actions: times(5, () => ({ type: "grant_reward", rewardKey: "chest" })),
    }));
    const plan = aProject({ rules, define: { currency, reward } });
    const done = evaluate(plan, {});
    assert(rowsOf(done).length < 1_000, `${rowsOf(done).length} rows`);
    assert.match(done.warnings[0]!, /too many rewards inside one another/);
    assert.equal(done.outcomes.at(-1)!.outcome.reason, "STEPS_EXHAUSTED");
  });

  it("are not noticed where an event has dozens of effects", () => {
    const actions = [...lines(9, 200), { type: "grant_xp", amount: 5 }];
    const done = evaluate(aProject({ rules: times(6, (i) => ({ key: `r${i}`, actions })) }), {});
    assert.deepEqual(new Set(done.outcomes.map(({ outcome }) => outcome.reason)), new Set(["MATCHED"]));
    const { written } = done.turn.root.accounts.rules;
    assert(written.spent < WRITTEN_STEPS_MAX / 3, `${written.spent} steps`);
  });
});
