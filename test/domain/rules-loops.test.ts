import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { DEPTH_MAX, DERIVED_MAX, PUBLISHED_MAX } from "../../src/domain/evaluation/turn.ts";
import { SENT_MAX } from "../../src/domain/evaluation/actions/action.ts";
import { createRuleWatch, LOOPS_MAX, LOOPS_SPAN_MS } from "../../src/domain/rules/lifecycle/publishing.ts";
import { REENTRANT_MAX } from "../../src/domain/evaluation/running/run.ts";
import { aProject, evaluate } from "../support/rules/evaluation.ts";
import { cases } from "../support/properties.ts";
import { pluck } from "../support/pluck.ts";

const on = (...eventTypes: string[]) => [{ kind: "EVENT", eventTypes }];
const emits = (eventType: string, more: Json = {}) => ({
  type: "emit_event",
  eventType,
  channels: ["rules"],
  ...more,
});
const loopsOf = ({ told }: ReturnType<typeof evaluate>) =>
  told.filter(({ type }) => type === "rule.loop_detected").map(({ data }) => data);

describe("rules that set one another off", () => {
  it("hear what happens to the player, in order and one step deeper each time", () => {
    const plan = aProject({
      rules: [
        { key: "first", actions: [{ type: "grant_xp", amount: 150 }] },
        { key: "xp", triggers: on("player.xp_granted"), actions: [emits("mine")] },
        {
          key: "level",
          triggers: on("player.level_up"),
          actions: [{ type: "update_player", addTags: ["up"] }],
        },
        { key: "custom", triggers: on("mine"), actions: [{ type: "update_player", addTags: ["mine"] }] },
        { key: "tags", triggers: on("player.updated"), conditions: { all: [] } },
      ],
    });
    const { reasons, player, effects } = evaluate(plan);
    assert.deepEqual(reasons.slice(0, 5), [
      "first MATCHED",
      "xp MATCHED",
      "level MATCHED",
      "custom MATCHED",
      "tags MATCHED",
    ]);
    assert.deepEqual(player.tags, ["up", "mine"]);
    assert.deepEqual(pluck(effects.executions, "depth"), [0, 1, 1, 2, 2]);
    const roots = new Set(effects.ledger.map(({ cause }) => cause.rootEventId));
    assert.equal(roots.size, 1);
  });

  it("fire once for an event; hearing the same twice is no loop", () => {
    const grant = { type: "grant_xp", amount: 1 };
    const plan = aProject({
      rules: [
        { key: "a", actions: [grant, grant] },
        {
          key: "heard",
          triggers: on("player.xp_granted"),
          actions: [{ type: "update_player", addTags: ["x"] }],
        },
      ],
    });
    const done = evaluate(plan);
    assert.deepEqual(done.reasons, ["a MATCHED", "heard MATCHED", "heard LOOP_GUARD"]);
    assert.deepEqual(loopsOf(done), []);
  });

  it("are cut where a rule hears what it has brought about, and that is told once", () => {
    const plan = aProject({
      rules: [
        { key: "a", triggers: on("tried", "b.done"), actions: [emits("a.done"), emits("a.done")] },
        { key: "b", triggers: on("a.done"), actions: [emits("b.done")] },
      ],
    });
    const done = evaluate(plan);
    assert.deepEqual(done.reasons, ["a MATCHED", "b MATCHED", "b LOOP_GUARD", "a LOOP_GUARD"]);
    const [loop, ...others] = loopsOf(done);
    assert.deepEqual(others, []);
    assert.deepEqual(
      [loop!["ruleKey"], loop!["chain"], loop!["paused"], loop!["rootEventId"]],
      ["a", ["a", "b", "a"], false, done.turn.root.id],
    );
    assert.equal(done.turn.root.loop!.chain.at(-1)!.ruleKey, "a");
  });

  it("may fire again when they are reentrant, each time under another key, but not for ever", () => {
    const plan = aProject({
      rules: [
        {
          key: "r",
          reentrant: true,
          triggers: on("tried", "again"),
          actions: [{ type: "grant_xp", amount: 1 }, emits("again"), emits("again")],
        },
      ],
    });
    const { player, effects, told, turn } = evaluate(plan);
    assert.equal(player.xp, REENTRANT_MAX);
    const keys = effects.ledger.map(({ key }) => key);
    assert.equal(new Set(keys).size, REENTRANT_MAX);
    assert.match(keys[0]!, /:a1$/);
    assert.match(keys[3]!, /:a1:3$/);
    assert.equal(told.filter(({ type }) => type === "rule.loop_detected").length, 1);
    assert.ok(turn.root.taken <= DERIVED_MAX);
  });

  it("reach a bounded depth, and the rule whose event was cut is named", () => {
    const chain = Array.from({ length: 9 }, (_, i) => ({
      key: `r${i}`,
      triggers: on(i === 0 ? "tried" : `step${i}`),
      actions: [{ type: "grant_xp", amount: 1 }, emits(`step${i + 1}`)],
    }));
    const done = evaluate(aProject({ rules: chain }));
    assert.equal(done.player.xp, DEPTH_MAX + 1);
    assert.deepEqual(done.turn.root.guarded, ["step6"]);
    assert.deepEqual(loopsOf(done)[0]!["ruleKey"], "r5");
  });

  it("end, however they are tied together", () => {
    const types = ["tried", "a", "b", "c", "player.xp_granted", "player.updated"];
    const action = fc.oneof(
      fc.constantFrom("a", "b", "c", "tried").map((type) => emits(type)),
      fc.constant({ type: "grant_xp", amount: 1 }),
      fc.constant({ type: "update_player", increment: { n: 1 } }),
      fc.constant({ ...emits("a"), delaySeconds: 60 }),
      fc.constant({ ...emits("a"), target: { externalUserId: { $ref: "player.externalUserId" } } }),
    );
    const rule = fc.record({
      triggers: fc.subarray(types, { minLength: 1 }).map((heard) => on(...heard)),
      actions: fc.array(action, { minLength: 1, maxLength: 8 }),
      reentrant: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(rule, { minLength: 1, maxLength: 8 }), (rules) => {
        const { turn, effects } = evaluate(aProject({ rules }));
        const { root } = turn;
        assert.ok(root.taken <= DERIVED_MAX);
        assert.ok(effects.executions.every(({ depth }) => depth <= DEPTH_MAX));
        assert.ok([...root.firings.values()].every((n) => n <= REENTRANT_MAX));
        assert.ok(effects.spawned.length <= SENT_MAX[0]!);
        const keys = effects.ledger.map(({ key }) => key);
        assert.equal(new Set(keys).size, keys.length, "no ledger key twice");
        const told = effects.outbox.filter(({ type }) => type === "rule.loop_detected");
        assert.equal(told.length, root.loop ? 1 : 0);
      }),
      { numRuns: cases(200) },
    );
  });

  it("send fewer actions at each hop, and none after the last", () => {
    const send = {
      type: "grant_xp",
      amount: 1,
      target: { externalUserId: { $ref: "player.externalUserId" } },
    };
    const rule = {
      key: "pays",
      triggers: on("tried", "player.xp_granted"),
      actions: Array.from({ length: 20 }, () => send),
    };
    const plan = aProject({ rules: Array.from({ length: 8 }, (_, i) => ({ ...rule, key: `pays${i}` })) });
    let event: Parameters<typeof evaluate>[1] = {};
    const sent: number[] = [];
    while (sent.length < 20) {
      const { effects } = evaluate(plan, event);
      sent.push(effects.spawned.length);
      const [first] = effects.spawned;
      if (!first) break;
      event = { type: first.eventType, properties: first.properties };
    }
    assert.deepEqual(sent, [...SENT_MAX, 0]);
  });

  it("are cut where one event brings about too much, however many of them there are", () => {
    const mug = { key: "mug", name: "Mug", kind: "PRIZE", fulfilment: "CODE" };
    const actions = Array.from({ length: 20 }, () => ({
      type: "grant_reward",
      rewardKey: "mug",
      quantity: 100,
    }));
    const rules = Array.from({ length: 50 }, (_, i) => ({ key: `mugs${i}`, actions }));
    const done = evaluate(aProject({ define: { reward: [mug] }, rules }));
    // What is told takes steps, which are spent before there are TOLD_MAX lines.
    assert.ok(done.told.length < PUBLISHED_MAX, `${done.told.length} told`);
    assert.equal(done.outcomes.at(-1)!.outcome.reason, "STEPS_EXHAUSTED");
  });
});

describe("a watch over loops", () => {
  it("asks for a pause at the hundredth loop within ten minutes, and then counts anew", () => {
    const watch = createRuleWatch(LOOPS_MAX);
    const asked = Array.from({ length: LOOPS_MAX * 2 }, (_, i) => watch.hit("a", i));
    assert.deepEqual(
      asked.flatMap((isAsked, i) => (isAsked ? [i + 1] : [])),
      [LOOPS_MAX, LOOPS_MAX * 2],
    );
  });

  it("forgets loops that are longer ago, and counts each rule by itself", () => {
    const watch = createRuleWatch(LOOPS_MAX);
    for (let i = 0; i < LOOPS_MAX - 1; i++) assert.equal(watch.hit("a", i), false);
    assert.equal(watch.hit("b", LOOPS_MAX), false);
    assert.equal(watch.hit("a", LOOPS_SPAN_MS), false, "the first one has gone");
    assert.equal(watch.hit("a", LOOPS_SPAN_MS), true);
  });
});
