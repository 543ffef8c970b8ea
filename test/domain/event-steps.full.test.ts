import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import {
  ChangeBudget,
  RULE_STEPS_MAX,
  UPKEEP_STEPS_MAX,
} from "../../src/domain/evaluation/event-accounts.ts";
import { TREE_MAX_LEAVES } from "../../src/domain/evaluation/language/trees.ts";
import { SEGMENTS_MAX } from "../../src/domain/evaluation/segments/membership.ts";
import { STREAKS_MAX } from "../../src/domain/evaluation/streaks/streak.ts";
import { aProject, evaluate } from "../support/rules/evaluation.ts";
import { aPlayerState } from "../support/rules/plan.ts";

const ACTIVE_RULES_MAX = 1_000;

const times = <T>(n: number, make: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => make(i));
/** A text and globs that nearly match it everywhere. */
const TEXT = `${"a".repeat(1_000)}b`;
const globsOf = (rule: number, path = "path", type = "event_property"): Json[] =>
  times(TREE_MAX_LEAVES, (leaf) => ({
    type,
    [path]: type === "player_property" ? "attributes.text" : "text",
    op: "glob",
    value: `*${"a".repeat(180)}${rule}-${leaf}`,
  }));
const filterOf = (n: number): Json => ({
  none: times(TREE_MAX_LEAVES, (leaf) => ({
    path: "text",
    op: "glob",
    value: `*${"a".repeat(180)}${n}-${leaf}`,
  })),
});
const dearRules = (n: number): Json[] =>
  times(n, (i) => ({ key: `dear${i}`, conditions: { all: [{ none: globsOf(i) }] } }));

const dearest = ({ told }: ReturnType<typeof evaluate>): Json[] =>
  told.filter(({ type }) => type === "event.steps_exhausted").map(({ data }) => data);

describe("the steps of an event", () => {
  it("end 60 rules of 50 globs: the rule that crosses the bound and those after it do not fire", () => {
    const plan = aProject({
      rules: [{ key: "first", priority: 9, actions: [{ type: "grant_xp", amount: 7 }] }, ...dearRules(60)],
    });
    const done = evaluate(plan, { properties: { text: TEXT } });
    assert.equal(done.problem, undefined);
    assert.equal(done.reasons[0], "first MATCHED");
    assert.deepEqual(
      new Set(done.outcomes.slice(1).map(({ outcome }) => outcome.reason)),
      new Set(["STEPS_EXHAUSTED"]),
    );
    assert.equal(done.player.xp, 7, "what had fired stands");
    assert.deepEqual([dearest(done).length, dearest(done)[0]!["kind"]], [1, "rule"]);
    assert.match(String(dearest(done)[0]!["key"]), /^dear/);
    // One rule may begin with the last step.
    assert(done.turn.root.accounts.rules.spent < 4 * RULE_STEPS_MAX);
  });

  const LISTS = times(1_500, (i) => `v${i}`);
  const dear: Record<string, { condition?: Json; actions?: Json[]; properties?: Json }> = {
    "compare each other's texts": {
      condition: { type: "event_property", path: "text", op: "gt", value: { $ref: "event.properties.more" } },
      properties: { text: "a".repeat(7_000), more: `${"a".repeat(7_000)}b` },
    },
    "make globs of what they are sent": {
      condition: {
        type: "event_property",
        path: "text",
        op: "glob",
        value: { $ref: "event.properties.more" },
      },
      properties: { text: "b", more: "*a".repeat(100) },
    },
    "look through long lists": {
      condition: { type: "event_property", path: "list", op: "contains_all", value: LISTS.slice(0, 400) },
      properties: { list: LISTS },
    },
    "pass large properties on": {
      actions: times(20, (i) => ({
        type: "emit_event",
        eventType: `e${i}`,
        channels: ["webhook"],
        properties: Object.fromEntries(times(50, (n) => [`p${n}`, { $ref: "event.properties.text" }])),
      })),
      properties: { text: "y".repeat(15_000) },
    },
    "work out expressions": {
      actions: times(20, () => ({
        type: "grant_xp",
        amount: {
          op: "mul",
          args: [
            0,
            {
              op: "add",
              args: times(8, () => ({
                op: "table",
                input: { $ref: "event.properties.n" },
                steps: times(50, (step) => [step, step]),
              })),
            },
          ],
        },
      })),
      properties: { n: 1 },
    },
  };
  for (const [what, { condition, actions, properties = {} }] of Object.entries(dear))
    it(`end a thousand rules that ${what}`, () => {
      const conditions = condition
        ? { all: [{ none: times(TREE_MAX_LEAVES, () => condition) }] }
        : { all: [] };
      const rules = times(ACTIVE_RULES_MAX, (i) => ({
        key: `r${i}`,
        conditions,
        ...(actions ? { actions } : {}),
      }));
      const plan = aProject({ rules });
      const done = evaluate(plan, { properties });
      assert.equal(done.outcomes.at(-1)!.outcome.reason, "STEPS_EXHAUSTED");
    });

  it("bound counters: those that are left do not count, and a trace could say where that began", () => {
    const rules = times(60, (i) => ({
      key: `r${i}`,
      conditions: {
        all: times(5, (n) => ({
          type: "event_aggregate",
          metric: { eventTypes: ["tried"], aggregate: "count", filter: filterOf(100 * i + n) },
          op: "gte",
          value: 1,
        })),
      },
    }));
    const plan = aProject({ rules });
    const done = evaluate(plan, { properties: { text: TEXT } });
    const counted = Object.keys(done.player.doc.c ?? {}).length;
    assert(counted > 0 && counted < 300, `${counted} of 300`);
    assert.match(done.warnings[0]!, /^out of steps: metric count/);
    assert.equal(dearest(done)[0]!["kind"], "rule", "the rule that reads the counter pays for it");
    assert(done.turn.root.accounts.rules.spent < RULE_STEPS_MAX, "rules have steps of their own");
  });

  it("bound streaks", () => {
    const streak = times(STREAKS_MAX, (i) => ({
      key: `s${i}`,
      name: "A streak",
      qualify: {
        parts: times(5, (n) => ({
          metric: { eventTypes: ["tried"], aggregate: "count", filter: filterOf(10 * i + n) },
        })),
      },
    }));
    const plan = aProject({ define: { streak } });
    const done = evaluate(plan, { properties: { text: TEXT } });
    assert(done.player.streaks.size < STREAKS_MAX);
    assert.equal(dearest(done)[0]!["kind"], "streak");
    assert(
      done.turn.root.accounts.upkeep.spent < 5 * UPKEEP_STEPS_MAX,
      "one part may begin with the last step",
    );
  });

  it("bound 200 segments, which then stay as they are, and look again with the next event", () => {
    const segment = times(SEGMENTS_MAX, (i) => ({
      key: `s${i}`,
      name: "A segment",
      kind: "DYNAMIC",
      definition: { none: globsOf(i, "field", "player_property") },
    }));
    const plan = aProject({ define: { segment } });
    const player = aPlayerState({ attributes: { text: TEXT } });
    const first = evaluate(plan, { player });
    assert(player.segments.size > 0 && player.segments.size < SEGMENTS_MAX);
    assert.equal(dearest(first)[0]!["kind"], "segment");
    const size = player.segments.size;
    const again = aPlayerState({ ...structuredClone({ attributes: player.attributes }), seq: player.seq });
    evaluate(plan, { player });
    evaluate(plan, { player: again });
    assert.equal(player.segments.size, size, "as when the player was loaded anew: nothing has changed");
    assert.equal(again.segments.size, 0);
  });

  it("are far from what a large honest game takes", () => {
    const condition = (n: number): Json => ({ type: "event_property", path: `p${n}`, op: "gte", value: n });
    const rules = times(300, (i) => ({
      key: `r${i}`,
      triggers: [{ kind: "EVENT", eventTypes: [i < 50 ? "tried" : `type${i}`] }],
      conditions: { all: times(5, condition) },
    }));
    const properties = Object.fromEntries(times(5, (n) => [`p${n}`, n]));
    const { rules: spent, upkeep } = evaluate(aProject({ rules }), { properties }).turn.root.accounts;
    assert(spent.spent < RULE_STEPS_MAX / 20, `${spent.spent} steps of rules`);
    assert(upkeep.spent < UPKEEP_STEPS_MAX / 20, `${upkeep.spent} steps of upkeep`);
  });
});

describe("what players share whom one transaction changes", () => {
  it("is bounded by time where steps say too little: after 2 s no more rules fire", async () => {
    let nowMs = 0;
    const budget = new ChangeBudget(() => nowMs);
    const stepsOfNext = async (ms: number): Promise<number> => {
      const accounts = budget.open();
      nowMs += ms;
      await budget.close(accounts);
      return accounts.rules.max;
    };
    assert.equal(await stepsOfNext(100), RULE_STEPS_MAX);
    assert.equal(await stepsOfNext(2_000), RULE_STEPS_MAX);
    assert.equal(await stepsOfNext(0), 0);
  });
});
