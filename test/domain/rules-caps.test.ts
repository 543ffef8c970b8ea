import assert from "node:assert/strict";
import * as fc from "fast-check";
import { mergeScopes } from "../../src/domain/evaluation/caps/cap.ts";
import { isGrantOfAction } from "../../src/domain/evaluation/actions/action.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { aPlayerState } from "../support/rules/plan.ts";
import { aProject, aRule, evaluate, NOW, type ProjectParts } from "../support/rules/evaluation.ts";
import { windowName } from "../support/rules/rule-reference.ts";
import { cases } from "../support/properties.ts";
import { pluck } from "../support/pluck.ts";

const HOUR_MS = 3_600_000;
const N = { ref: "event.properties.n" };
const give = { type: "grant_xp", amount: N };
const coin = { type: "adjust_currency", currencyKey: "coins", amount: N, onInsufficient: "CLAMP" };
const define = {
  currency: [
    { key: "coins", name: "Coins" },
    { key: "gems", name: "Gems", maxBalance: 10, overflow: "REJECT" },
  ],
};
const capped = (caps: readonly Json[], actions: readonly Json[] = [give], more: ProjectParts = {}) =>
  aProject({ define, rules: [{ key: "r", actions, limits: { caps } }], ...more });
const DAILY = { asset: "xp", max: 10, window: "DAY" };

type Given = { n: number; hour: number };
const gifts = fc.array(
  fc.record({ n: fc.integer({ min: -30, max: 60 }), hour: fc.integer({ min: 0, max: 7 * 24 }) }),
  { maxLength: 40 },
);

/** What a player has in the end, by a plain loop over what was given. */
const plainly = (given: readonly Given[], { max, window, counts, zone }: Record<string, unknown>): number => {
  const counted = new Map<string, number>();
  let has = 0;
  for (const { n, hour } of given) {
    const name = window === "LIFETIME" ? "" : windowName(String(window), String(zone), NOW + hour * HOUR_MS);
    const before = counted.get(name) ?? 0;
    const change = n > 0 ? Math.max(0, Math.min(n, Number(max) - before)) : -Math.min(-n, has);
    has += change;
    counted.set(name, before + (counts === "NET" ? change : Math.max(0, change)));
  }
  return has;
};

describe("caps", () => {
  it("cut what exceeds them, exactly, in any window, zone and order, of XP and of a currency", () => {
    const cap = fc.record({
      asset: fc.constantFrom("xp", "currency:coins"),
      max: fc.integer({ min: 1, max: 120 }),
      window: fc.constantFrom("LIFETIME", "DAY", "WEEK", "MONTH"),
      counts: fc.constantFrom("GAINS", "NET"),
    });
    const zones = fc.constantFrom("UTC", "America/New_York", "Pacific/Apia", "Asia/Kathmandu");
    fc.assert(
      fc.property(gifts, cap, zones, fc.boolean(), (given, one, zone, isOfProject) => {
        const actions = [one.asset === "xp" ? give : coin];
        const parts = isOfProject
          ? { rules: [{ key: "r", actions }], settings: { caps: [one as never] } }
          : { rules: [{ key: "r", actions, limits: { caps: [one] } }] };
        const plan = aProject({ define, ...parts });
        const player = aPlayerState({ timezone: zone });
        const nowMs = NOW + 8 * 24 * HOUR_MS;
        for (const { n, hour } of given)
          evaluate(plan, { player, nowMs, at: NOW + hour * HOUR_MS, properties: { n } });
        const has = one.asset === "xp" ? player.xp : (player.balances.get("coins")?.balance ?? 0);
        assert.equal(has, plainly(given, { ...one, zone }));
      }),
      { numRuns: cases(300) },
    );
  });

  it("hold for several actions of a rule, and all rules of a project, together", () => {
    const both = capped([DAILY], [{ type: "grant_xp", amount: 4 }, give]);
    assert.equal(evaluate(both, { properties: { n: 9 } }).player.xp, 10);
    const rules = [
      { key: "a", actions: [give] },
      { key: "b", actions: [give], limits: { caps: [{ ...DAILY, max: 3 }] } },
    ];
    const plan = aProject({ define, rules, settings: { caps: [{ ...DAILY, counts: "GAINS" } as never] } });
    const { player, turn, reasons, warnings } = evaluate(plan, { properties: { n: 8 } });
    assert.deepEqual([player.xp, reasons], [10, ["a MATCHED", "b MATCHED"]]);
    assert.match(warnings.join(), /a cap leaves 2 of 8 xp/);
    assert.deepEqual(pluck(turn.effects.ledger, "amount"), [8, 2]);
  });

  it("take the smallest of equal ones, and count once", () => {
    const caps = [{ ...DAILY, max: 7 }, DAILY, { ...DAILY, window: "LIFETIME", max: 9 }];
    const plan = capped(caps);
    const player = aPlayerState();
    for (const at of [NOW, NOW, NOW + 24 * HOUR_MS])
      evaluate(plan, { player, at, nowMs: NOW + 24 * HOUR_MS, properties: { n: 5 } });
    assert.equal(player.xp, 9, "5 + 2, and 2 of the next day");
  });

  it("come after boosts and the soft cap, which counts what was given", () => {
    const boost = {
      type: "apply_boost",
      boostKey: "b",
      applies: "xp",
      factor: 3,
      durationSeconds: 60,
      uses: 2,
    };
    const boosted = evaluate(capped([DAILY], [boost, give, give]), { properties: { n: 4 } });
    assert.equal(boosted.player.xp, 10);
    assert.equal([...boosted.player.boosts.values()][0]?.usesLeft, 1, "the second gave nothing to boost");
    assert.deepEqual(boosted.told.find(({ type }) => type === "player.xp_granted")?.data["boostFactor"], 2.5);
    const xpDailySoftCap = { xp: 6, factorAbove: 0.5 };
    const soft = capped([DAILY], [give], { settings: { xpDailySoftCap } });
    const { player } = evaluate(soft, { properties: { n: 1_000 } });
    assert.deepEqual([player.xp, player.doc.x?.[1]], [10, 14], "6 + 8 / 2");
  });

  it("leave room for a currency that rejects what is too much", () => {
    const gem = { type: "adjust_currency", currencyKey: "gems", amount: N };
    const plan = capped([{ asset: "currency:gems", max: 8, window: "DAY" }], [gem]);
    assert.deepEqual(evaluate(plan, { properties: { n: 99 } }).player.balances.get("gems")?.balance, 8);
  });

  it("give nothing to an event of a window that is no longer known", () => {
    const plan = capped([DAILY]);
    const player = aPlayerState();
    const send = (day: number) => {
      const at = NOW + day * 24 * HOUR_MS;
      return evaluate(plan, { player, at, nowMs: NOW + 99 * 24 * HOUR_MS, properties: { n: 1 } });
    };
    for (let day = 1; day <= 8; day++) send(day);
    assert.equal(player.xp, 8);
    send(0);
    assert.equal(player.xp, 8);
    send(1);
    assert.equal(player.xp, 9);
  });

  it("go with an action that is sent, to the player who gets it", () => {
    const sent = { ...give, target: { externalUserId: { ref: "event.properties.friend" } } };
    const plan = capped([DAILY], [sent]);
    const friend = aPlayerState({ externalUserId: "u2" });
    for (let i = 0; i < 3; i++) {
      const { effects } = evaluate(plan, { properties: { n: 6, friend: "u2" } });
      const { eventType, properties } = effects.spawned[0]!;
      evaluate(plan, { player: friend, type: eventType, properties: structuredClone(properties) });
    }
    assert.equal(friend.xp, 10);
  });

  it("are kept apart of a rule in SHADOW, and forgotten with a rule that fails", () => {
    const rule = aRule({ key: "s", actions: [give], limits: { caps: [DAILY] } });
    const shadow = aProject({ define, rules: [{ ...rule, isShadow: true }] });
    const player = aPlayerState();
    const first = evaluate(shadow, { player, properties: { n: 6 } });
    const second = evaluate(shadow, { player, properties: { n: 6 } });
    const amounts = [first, second].map(({ effects }) =>
      (effects.executions[0]!.effects as { data: Json }[]).map(({ data }) => data["amount"]),
    );
    assert.deepEqual([player.xp, amounts], [0, [[6], [4]]]);
    const fails = { type: "adjust_currency", currencyKey: "gone", amount: 1 };
    const failing = capped([DAILY], [give, fails]);
    const before = structuredClone(player.doc);
    assert.deepEqual(evaluate(failing, { player, properties: { n: 6 } }).reasons, ["r ACTION_FAILED"]);
    assert.deepEqual(player.doc, before);
  });

  it("count for two players together once they are merged", () => {
    const mine = { r: { "xp DAY": [[1, 5]], "xp LIFETIME": 4 }, "*": { "xp DAY": [[1, 1]] } } as const;
    const theirs = {
      r: {
        "xp DAY": [
          [1, 2],
          [2, 9],
        ],
        "xp LIFETIME": 3,
      },
      q: { "xp DAY": [[1, 7]] },
    } as const;
    assert.deepEqual(mergeScopes(mine, theirs), {
      r: {
        "xp DAY": [
          [1, 7],
          [2, 9],
        ],
        "xp LIFETIME": 7,
      },
      q: { "xp DAY": [[1, 7]] },
      "*": { "xp DAY": [[1, 1]] },
    });
  });

  it("know what an action has given from what its reward has", () => {
    const own = ["evt:0123456789abcdefghij_-:r:a1", "evt:x:r:a1:3", "tgt:e:r:xp", "dly:e:r:a2:1"];
    for (const key of own) assert.ok(isGrantOfAction(key), key);
    const others = ["evt:x:r:a1:xp", "evt:x:r:a1:cur:coins", "lvl:5:xp", "idem:x:1", "rev:x"];
    for (const key of others) assert.ok(!isGrantOfAction(key), key);
  });
});
