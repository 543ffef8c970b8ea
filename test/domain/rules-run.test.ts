import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import type { Board } from "../../src/domain/evaluation/boards/board.ts";
import { grantKeyOf } from "../../src/domain/evaluation/actions/action.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { compileRules } from "../../src/domain/evaluation/running/compile.ts";
import { considerRule, runRules } from "../../src/domain/evaluation/running/run.ts";
import { createTrace, traceRules } from "../../src/domain/evaluation/trace/trace.ts";
import {
  aPlayer,
  aProject,
  aRule,
  aTurn,
  evaluate,
  grantedXp,
  type RecordedTurn,
  ruleSetOf,
  type TurnOptions,
} from "../support/rules/evaluation.ts";
import { aPlayerState } from "../support/rules/plan.ts";
import { aBoard } from "../support/rules/turn.ts";
import { cases } from "../support/properties.ts";
import { pluck } from "../support/pluck.ts";

const run = (options: TurnOptions, ...documents: Json[]): RecordedTurn => {
  const turn = aTurn(options);
  runRules(ruleSetOf(...documents), turn);
  return turn;
};
const addTag = (tag: string) => ({ type: "update_player", addTags: [tag] });
const when = (path: string, op: string, value: unknown) => ({
  all: [{ type: "event_property", path, op, value }],
});
const aSumBoard = (key: string): Board =>
  aBoard({ id: key, key, periodId: `period-${key}`, operator: "SUM" });

describe("rules at work", () => {
  it("run by priority, then age, each seeing what those before it did", () => {
    const ifTag = (tag: string) => ({
      all: [{ type: "player_property", field: "tags", op: "contains", value: tag }],
    });
    const turn = run(
      {},
      { priority: 1, conditions: ifTag("b"), actions: [addTag("c")] },
      { priority: 5, actions: [addTag("a")] },
      { priority: 5, conditions: ifTag("a"), actions: [addTag("b")] },
      { priority: 9, conditions: ifTag("a"), actions: [addTag("too-early")] },
    );
    assert.deepEqual(turn.player.tags, ["a", "b", "c"]);
  });

  it("listen to exact types, prefixes, and * for custom events only", () => {
    const listen = (...eventTypes: string[]) => ({
      triggers: [{ kind: "EVENT", eventTypes }],
      actions: [addTag(eventTypes[0]!.replace(/\W/g, "-").replace(/^-/, "any"))],
    });
    const set = ruleSetOf(
      listen("order.paid"),
      listen("order.*", "order.paid"),
      listen("*"),
      listen("or.*"),
      listen("order.paid.*"),
      listen("player.*"),
    );
    const heard = (type: string): number[] => set.listeners(type).map(({ order }) => order);
    assert.deepEqual(heard("order.paid"), [0, 1, 2]);
    assert.deepEqual(heard("order.paid.late"), [1, 2, 4]);
    assert.deepEqual(heard("order"), [2]);
    assert.deepEqual(heard("orders.x"), [2]);
    assert.deepEqual(heard("player.level_up"), [5], "an event of the service itself");
    assert.deepEqual(heard("system.schedule"), []);
  });

  it("fire the same with and without the index of equal properties", () => {
    const value = fc.constantFrom<unknown>("a", "b", 1, true, null);
    const node = fc.oneof(
      fc
        .tuple(fc.constantFrom("p", "q.r"), value)
        .map(([path, literal]) => ({ type: "event_property", path, op: "eq", value: literal })),
      fc
        .tuple(fc.constantFrom("p", "q.r"), fc.array(value, { minLength: 1, maxLength: 3 }))
        .map(([path, list]) => ({ type: "event_property", path, op: "in", value: list })),
      fc.constant({ type: "event_property", path: "p", op: "neq", value: "a" }),
      fc.constant({ type: "event_property", path: "p", op: "eq", value: { $ref: "event.properties.q.r" } }),
    );
    const document = fc
      .tuple(fc.array(node, { maxLength: 3 }), fc.constantFrom("all", "any"), fc.integer({ min: 0, max: 2 }))
      .map(([nodes, word, priority]) => ({
        priority,
        conditions: nodes.length === 0 ? { all: [] } : { [word]: nodes },
      }));
    const properties = fc.record(
      { p: fc.oneof(value, fc.constant([1])), q: fc.record({ r: value }, { requiredKeys: [] }) },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.array(document, { maxLength: 12 }), properties, (documents, props) => {
        const set = compileRules(documents.map((each) => aRule(each)));
        const event = aTurn({ properties: props }).event;
        const matching = (rules: ReturnType<typeof set.candidates>): string[] =>
          rules.filter((rule) => considerRule(rule, aTurn({ properties: props })).fired).map(({ id }) => id);
        assert.deepEqual(matching(set.candidates(event)), matching(set.listeners(event.type)));
        const turn = aTurn({ properties: props });
        runRules(set, turn);
        const traced = traceRules(set, aTurn({ properties: props })).filter(({ fired }) => fired);
        assert.equal(grantedXp(turn), traced.length);
        for (const { conditions, fired } of traced) assert.equal(conditions!.pass, fired);
      }),
      { numRuns: cases(400) },
    );
  });

  it("stop the rest of their group, or everything when they have none", () => {
    const turn = run(
      {},
      { priority: 4, actions: [addTag("a")], exclusiveGroup: "g", stopOnMatch: true },
      { priority: 3, actions: [addTag("b")], exclusiveGroup: "g" },
      { priority: 2, actions: [addTag("c")], stopOnMatch: true },
      { priority: 1, actions: [addTag("d")] },
    );
    assert.deepEqual(turn.player.tags, ["a", "c"]);
  });

  it("take the interval of their schedule half open, by the event's time", () => {
    const at = Date.parse("2026-02-01T00:00:00Z");
    const fires = (ms: number): boolean =>
      grantedXp(
        run(
          { at: ms },
          { schedule: { activeFrom: "2026-02-01T00:00:00Z", activeUntil: "2026-02-01T00:00:01Z" } },
        ),
      ) > 0;
    assert.deepEqual([at - 1, at, at + 999, at + 1_000].map(fires), [false, true, true, false]);
  });

  it("give players who are not active nothing", () => {
    for (const status of ["SUSPENDED", "BANNED", "ERASED"] as const)
      assert.equal(run({ player: aPlayer({ status }) }, {}).rows.length, 0);
  });

  it("act only while their actions run, also where one of these fails", () => {
    const failing = { actions: [{ type: "adjust_currency", currencyKey: "none", amount: 1 }] };
    for (const document of [{}, failing]) assert.equal(run({}, document).root.acting, undefined);
  });

  it("grant XP under a key of event, rule and action, and name themselves as the cause", () => {
    const rule = aRule({
      actions: [
        { type: "grant_xp", amount: 2.9 },
        { type: "grant_xp", amount: 2.1, rounding: "CEIL", id: "up" },
      ],
    });
    const turn = aTurn();
    runRules(compileRules([rule]), turn);
    const { id: ruleId, key: ruleKey } = rule;
    const keyOf = (actionId: string) =>
      grantKeyOf(turn.event.id, { ruleId, ruleKey, ruleVersion: 1, actionId }, 0);
    assert.match(keyOf("a1"), /^evt:[\w-]{22}:r:a1$/);
    assert.notEqual(keyOf("a1"), grantKeyOf(newId(), { ruleId, ruleKey, ruleVersion: 1, actionId: "a1" }, 0));
    assert.deepEqual(pluck(turn.rows, "amount", "key"), [
      [2, keyOf("a1")],
      [3, keyOf("up")],
    ]);
    const cause = {
      kind: "RULE",
      eventId: turn.event.id,
      rootEventId: turn.event.id,
      ruleId: rule.id,
      ruleKey: rule.key,
      ruleVersion: 1,
      actionId: "a1",
    };
    assert.deepEqual(turn.rows[0]!.cause, cause);
  });

  it("take XP away but never below 0, and see the XP that they have just granted", () => {
    const turn = run(
      { properties: { score: -7.5 } },
      {
        actions: [
          { type: "grant_xp", amount: { $ref: "event.properties.score" } },
          { type: "grant_xp", amount: 40 },
          { type: "grant_xp", amount: { $ref: "event.properties.score" } },
          { type: "update_player", set: { now: { $ref: "player.xp" } } },
        ],
      },
    );
    assert.deepEqual([turn.player.xp, turn.player.attributes], [32, { now: 32 }]);
    const amounts = turn.rows.map(({ amount }) => amount);
    assert.deepEqual(amounts, [40, -8], "a loss of nothing leaves no line");
  });

  it("submit scores, and leave a board that is gone alone", () => {
    const board = aSumBoard("top");
    const score = { type: "submit_score", leaderboardKey: "top", score: { $ref: "event.properties.n" } };
    const turn = run({ boards: [board], properties: { n: 12 } }, { actions: [score] });
    assert.equal(turn.player.entries.get(board.periodId)?.rankScore, -12);
    const gone = run({ properties: { n: 12 } }, { actions: [score] });
    assert.match(gone.warnings.join(), /top is not active/);
  });

  it("set, count, unset and tag; a missing reference leaves the attribute alone", () => {
    const player = aPlayer({ attributes: { runs: 4, old: 1, word: "x", deep: { n: 1 } }, tags: ["a"] });
    const turn = run(
      { player, properties: { city: "Oslo" } },
      {
        actions: [
          {
            type: "update_player",
            set: {
              city: { $ref: "event.properties.city" },
              none: { $ref: "event.properties.none" },
              list: [1, 2],
            },
            increment: { runs: 1, word: 2, "deep.n": { op: "mul", args: [2, 3] }, fresh: 1 },
            unset: ["old"],
            addTags: ["b"],
            removeTags: ["a"],
          },
        ],
      },
    );
    assert.deepEqual(player.attributes, {
      runs: 5,
      word: 2,
      deep: { n: 7 },
      city: "Oslo",
      list: [1, 2],
      fresh: 1,
    });
    assert.deepEqual(player.tags, ["b"]);
    assert.equal(turn.warnings.length, 2);
  });

  it("trace a stopped, a limited and a failing rule with the reason", () => {
    const set = ruleSetOf(
      { key: "limited", priority: 5, limits: { perPlayer: [{ max: 1, window: "LIFETIME" }] } },
      {
        key: "failing",
        priority: 4,
        actions: [{ type: "update_player", set: { big: { $ref: "event.properties.big" } } }],
      },
      { key: "stopping", priority: 3, stopOnMatch: true, conditions: when("big", "exists", undefined) },
      { key: "stopped", priority: 2 },
    );
    const player = aPlayer();
    const trace = () => traceRules(set, aTurn({ player, properties: { big: "x".repeat(9_000) } }));
    trace();
    const [limited, failing, stopping, stopped] = trace();
    assert.deepEqual(
      [limited, failing, stopping, stopped].map((each) => each!.reason),
      ["LIMIT_REACHED", "ACTION_FAILED", "MATCHED", "STOPPED"],
    );
    assert.equal(stopped!.stoppedBy, "stopping");
    assert.match(failing!.detail!, /a1: attributes larger than 8 KiB/);
    assert.deepEqual(pluck(stopping!.effects, "type"), ["player.xp_granted"]);
  });

  it("trace an action that was sent to another player, with what it brought about there", () => {
    const gift = {
      type: "grant_xp",
      amount: 150,
      target: { externalUserId: { ref: "event.properties.friend" } },
    };
    const plan = aProject({
      rules: [
        { key: "gift", actions: [gift] },
        {
          key: "risen",
          triggers: [{ kind: "EVENT", eventTypes: ["player.level_up"] }],
          actions: [addTag("risen")],
        },
      ],
    });
    const [sent] = evaluate(plan, { properties: { friend: "u2" } }).effects.spawned;
    const trace = createTrace(plan.rules, { eventId: null });
    const player = aPlayerState({ externalUserId: "u2" });
    evaluate(plan, { player, type: sent!.eventType, properties: structuredClone(sent!.properties), trace });
    const { effects, derived } = trace.result();
    assert.deepEqual(pluck(effects, "type"), ["player.xp_granted", "player.level_up"]);
    assert.deepEqual(
      derived.map(({ eventType, rules }) => [eventType, ...rules.map(({ ruleKey }) => ruleKey)]),
      [["player.level_up", "risen"]],
    );
  });
});
