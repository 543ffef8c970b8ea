import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { aPlayerState } from "../support/rules/plan.ts";
import { aProject, evaluate, NOW, type ProjectParts } from "../support/rules/evaluation.ts";
import { aBoard } from "../support/rules/turn.ts";
import { cases } from "../support/properties.ts";
import { pluck } from "../support/pluck.ts";

const define = {
  currency: [
    { key: "coins", name: "Coins" },
    { key: "gems", name: "Gems", maxBalance: 10, overflow: "REJECT" },
  ],
  badge: [
    {
      key: "fan",
      name: "Fan",
      tiers: [
        { tier: 1, name: "A", threshold: 3 },
        { tier: 2, name: "B", threshold: 5, rewards: { xp: 7 } },
      ],
    },
    { key: "rare", name: "Rare", maxAwards: 1 },
  ],
  reward: [
    { key: "mug", name: "Mug", kind: "PRIZE", fulfilment: "EXTERNAL", stock: 1 },
    { key: "pack", name: "Pack", kind: "BUNDLE", bundle: { currencies: { coins: 5 } } },
  ],
  segment: [{ key: "vip", name: "VIP", kind: "STATIC" }],
};
const lives = { enabled: true, max: 5, refillSeconds: 1_800, refillAmount: 1, start: 5, allowOverMax: false };
const project = (actions: readonly Json[], more: ProjectParts = {}) =>
  aProject({ define, settings: { lives }, rules: [{ key: "r", actions }], ...more });
const run = (actions: readonly Json[], options: Parameters<typeof evaluate>[1] = {}, more?: ProjectParts) =>
  evaluate(project(actions, more), options);
const balanceOf = (player: ReturnType<typeof aPlayerState>, key: string): number =>
  player.balances.get(key)?.balance ?? 0;

describe("actions of rules", () => {
  it("give and take currency under the key of event, rule and action, with the rule as the cause", () => {
    const { player, effects, types } = run([
      { type: "adjust_currency", currencyKey: "coins", amount: 10 },
      { type: "adjust_currency", currencyKey: "coins", amount: -3.2, rounding: "CEIL", id: "fee" },
    ]);
    assert.equal(balanceOf(player, "coins"), 7);
    assert.deepEqual(
      effects.ledger.map(({ amount, key, cause }) => [amount, key.split(":").at(-1), cause.ruleKey]),
      [
        [10, "a1", "r"],
        [-3, "fee", "r"],
      ],
    );
    assert.match(effects.ledger[0]!.key, /^evt:[\w-]{22}:r:a1$/);
    assert.deepEqual(types, ["player.currency_granted", "player.currency_spent"]);
  });

  it("fail, skip or take what there is when a balance is too small, as they say", () => {
    const pay = (onInsufficient: string) => [
      { type: "grant_xp", amount: 4 },
      { type: "adjust_currency", currencyKey: "coins", amount: -30, onInsufficient },
    ];
    const rich = () => {
      const player = aPlayerState();
      player.balances.set("coins", { balance: 20, held: 0, earned: 20, spent: 0 });
      return player;
    };
    const outcomeOf = (onInsufficient: string) => {
      const { player, reasons } = run(pay(onInsufficient), { player: rich() });
      return [player.xp, balanceOf(player, "coins"), ...reasons];
    };
    assert.deepEqual(outcomeOf("FAIL_RULE"), [0, 20, "r ACTION_FAILED"]);
    assert.deepEqual(outcomeOf("SKIP"), [4, 20, "r MATCHED"]);
    assert.deepEqual(outcomeOf("CLAMP"), [4, 0, "r MATCHED"]);
  });

  it("fail on a currency without room, or that is gone, unless they may skip it", () => {
    const gain = (currencyKey: string, more: Json = {}) => ({
      type: "adjust_currency",
      currencyKey,
      amount: 11,
      ...more,
    });
    assert.deepEqual(run([gain("gems")]).outcomes[0]!.outcome.detail, "a1: BALANCE_LIMIT of gems");
    assert.deepEqual(run([gain("gone")]).reasons, ["r ACTION_FAILED"]);
    assert.deepEqual(run([gain("gone", { onInsufficient: "SKIP" })]).reasons, ["r MATCHED"]);
  });

  it("change lives by an amount, up to full, or for a time without end", () => {
    const tired = aPlayerState({ lives: { count: 1, anchorMs: NOW, unlimitedUntilMs: null } });
    const change = (more: Json) => run([{ type: "adjust_lives", ...more }], { player: tired }).player.lives;
    assert.equal(change({ amount: 1 }).count, 2);
    assert.equal(change({ refill: "FULL" }).count, 5);
    assert.equal(change({ amount: -9 }).count, 0, "CLAMP is the default");
    assert.equal(typeof change({ unlimitedSeconds: 60 }).unlimitedUntilMs, "number");
    const short = run([{ type: "adjust_lives", amount: -9, onInsufficient: "FAIL_RULE" }]);
    assert.deepEqual(short.reasons, ["r ACTION_FAILED"]);
  });

  it("award, progress and revoke badges; what cannot be leaves the rest of the rule alone", () => {
    const progress = { type: "update_badge", badgeKey: "fan", operation: "PROGRESS", amount: 5 };
    const { player, types } = run([progress]);
    assert.deepEqual([player.badges.get("fan")?.tier, player.xp], [2, 7]);
    assert.deepEqual(types.slice(0, 2), ["player.badge_earned", "player.badge_earned"]);
    const revoked = run([{ type: "update_badge", badgeKey: "fan", operation: "REVOKE" }], { player });
    assert.deepEqual([revoked.types, player.badges.get("fan")?.tier], [["player.badge_revoked"], 0]);
    const award = { type: "update_badge", badgeKey: "gone", operation: "AWARD" };
    const gone = run([award, { type: "grant_xp", amount: 1 }]);
    assert.deepEqual([gone.reasons, gone.player.xp], [["r MATCHED"], 1]);
    assert.match(gone.warnings.join(), /gone: UNKNOWN_BADGE/);
  });

  it("give rewards of the catalogue, and nothing of the rule once the stock is gone", () => {
    const actions = [
      { type: "grant_xp", amount: 5 },
      { type: "grant_reward", rewardKey: "mug" },
    ];
    const plan = project(actions);
    const first = evaluate(plan);
    assert.equal(first.effects.rewardGrants.length, 1);
    const second = evaluate(plan, { shared: first.turn.shared });
    assert.deepEqual([second.reasons, second.player.xp], [["r ACTION_FAILED"], 0]);
    assert.deepEqual([second.effects.ledger, second.told, second.effects.rewardGrants], [[], [], []]);
    assert.equal(
      balanceOf(run([{ type: "grant_reward", rewardKey: "pack", quantity: 3 }]).player, "coins"),
      15,
    );
  });

  it("put into static segments and take out, with the profile in one action", () => {
    const actions = [{ type: "update_player", addTags: ["t"], addToSegments: ["vip", "none"] }];
    const { player, warnings, types } = run(actions);
    assert.deepEqual([[...player.segments.keys()], player.tags], [["vip"], ["t"]]);
    assert.match(warnings.join(), /segment none/);
    assert.deepEqual(types, ["player.updated", "player.segment_entered"]);
    run([{ type: "update_player", removeFromSegments: ["vip"] }], { player });
    assert.equal(player.segments.size, 0);
  });

  it("start boosts that multiply what comes later, unless it is not boostable", () => {
    const boost = { type: "apply_boost", boostKey: "double", applies: "xp", factor: 2, durationSeconds: 60 };
    const grant = { type: "grant_xp", amount: 10 };
    const { player, types } = run([boost, grant, { ...grant, boostable: false }]);
    assert.equal(player.xp, 30);
    assert.equal(types[0], "player.boost_started");
  });

  it("emit events into the channels that they name", () => {
    const emit = (channels: string[]) => ({
      type: "emit_event",
      eventType: "mine",
      properties: {
        title: "Well done",
        n: { $ref: "event.properties.n" },
        gone: { $ref: "event.properties.x" },
      },
      channels,
    });
    const heard = { key: "hears", triggers: [{ kind: "EVENT", eventTypes: ["mine"] }] };
    const plan = (channels: string[]) =>
      aProject({ rules: [{ key: "r", actions: [emit(channels)] }, heard] });
    const out = evaluate(plan(["webhook", "realtime"]), { properties: { n: 3 } });
    assert.deepEqual(out.types, ["custom.mine"]);
    assert.deepEqual(out.told[0]!.data["properties"], { title: "Well done", n: 3 });
    assert.deepEqual(out.told[0]!.data["channels"], ["webhook", "realtime"]);
    assert.deepEqual(out.reasons, ["r MATCHED"]);
    const inside = evaluate(plan(["rules"]));
    assert.deepEqual([inside.reasons, inside.types], [["r MATCHED", "hears MATCHED"], ["player.xp_granted"]]);
    const inbox = evaluate(plan(["inbox"]));
    assert.deepEqual(inbox.types, ["inbox.message"]);
    assert.deepEqual(pluck(inbox.effects.inbox, "title", "type"), [["Well done", "mine"]]);
    assert.equal(inbox.told[0]!.data["id"], inbox.effects.inbox[0]!.id);
  });

  it("pass on no more than an event may hold, so that rules cannot make events grow", () => {
    const text = { $ref: "event.properties.text" };
    const copies = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`p${i}`, text]));
    const emit = {
      type: "emit_event",
      eventType: "mine",
      properties: copies,
      channels: ["rules", "webhook"],
    };
    const grant = { type: "grant_xp", amount: 1 };
    const later = { type: "update_player", set: { a: text, b: text }, delaySeconds: 5 };
    const send = (actions: readonly Json[], length: number) =>
      run(actions, { properties: { text: "x".repeat(length) } }).reasons;
    assert.deepEqual(send([grant, emit], 200), ["r MATCHED"]);
    assert.deepEqual(send([grant, emit], 400), ["r ACTION_FAILED"]);
    assert.deepEqual(send([grant, later], 7_000), ["r MATCHED"]);
    assert.deepEqual(send([grant, later], 9_000), ["r ACTION_FAILED"]);
  });

  it("have the effects of all or of none, whatever they are", () => {
    const amount = fc.integer({ min: -40, max: 40 });
    const action = fc.oneof(
      amount.map((n) => ({ type: "grant_xp", amount: n })),
      fc
        .tuple(amount, fc.constantFrom("coins", "gems"), fc.constantFrom("FAIL_RULE", "SKIP", "CLAMP"))
        .map(([n, currencyKey, onInsufficient]) => ({
          type: "adjust_currency",
          currencyKey,
          amount: n,
          onInsufficient,
        })),
      amount.map((n) => ({ type: "adjust_lives", amount: n, onInsufficient: "FAIL_RULE" })),
      fc
        .constantFrom("fan", "rare")
        .map((badgeKey) => ({ type: "update_badge", badgeKey, operation: "AWARD" })),
      fc.constantFrom("mug", "pack").map((rewardKey) => ({ type: "grant_reward", rewardKey })),
      fc.constant({ type: "submit_score", leaderboardKey: "top", score: 3 }),
      fc.constant({ type: "update_player", addTags: ["x"], increment: { n: 1 }, addToSegments: ["vip"] }),
      fc.constant({ type: "update_player", set: { big: { $ref: "event.properties.big" } } }),
      fc.constant({ type: "apply_boost", boostKey: "b", applies: "xp", factor: 2, durationSeconds: 60 }),
      fc.constant({ type: "emit_event", eventType: "mine", channels: ["rules", "webhook", "inbox"] }),
      fc.constant({ type: "grant_xp", amount: 2, delaySeconds: 5 }),
    );
    fc.assert(
      fc.property(fc.array(action, { minLength: 1, maxLength: 6 }), fc.boolean(), (actions, isBig) => {
        const board = aBoard({ key: "top", periodId: "top" });
        const limits = { perPlayer: [{ max: 5, window: "DAY" }], global: [{ max: 5, window: "DAY" }] };
        const rules = [{ key: "r", actions, limits }];
        const plan = aProject({ define, settings: { lives }, boards: [board], rules });
        const player = aPlayerState({ tags: ["old"] });
        player.balances.set("coins", { balance: 30, held: 0, earned: 30, spent: 0 });
        const before = structuredClone(player);
        const properties = { big: isBig ? "x".repeat(9_000) : "small" };
        const { reasons, effects, turn } = evaluate(plan, { player, properties });
        if (reasons[0] === "r MATCHED") {
          assert.equal(effects.executions.length, 1);
          return;
        }
        assert.deepEqual(reasons, ["r ACTION_FAILED"]);
        // Until now it is when the player was seen before: the one thing an event changes by itself.
        assert.deepEqual({ ...player, lastSeenAt: null }, before);
        assert.deepEqual(Object.values(effects).flat(), []);
        assert.deepEqual([turn.shared.changes(), turn.root.derived], [[], []]);
      }),
      { numRuns: cases(300) },
    );
  });
});
