import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { createSharedCounters } from "../../src/domain/evaluation/shared-counters.ts";
import { aProject, evaluate, fireAt, NOW } from "../support/rules/evaluation.ts";
import { aPlayerState } from "../support/rules/plan.ts";
import { cases } from "../support/properties.ts";
import { pluck } from "../support/pluck.ts";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

describe("budgets", () => {
  const budgeted = (budget: Json, actions: readonly Json[]) =>
    aProject({
      define: {
        currency: [{ key: "coins", name: "Coins" }],
        reward: [{ key: "mug", name: "Mug", kind: "PRIZE", fulfilment: "EXTERNAL" }],
        level: [{ key: "2", name: "Two", rewards: { currencies: { coins: 50 } } }],
      },
      rules: [{ key: "r", actions, limits: { budgets: [{ window: "DAY", ...budget }] } }],
    });
  const amount = { $ref: "event.properties.n" };
  const give = { type: "grant_xp", amount };

  it("are never exceeded, whatever is asked; what fits still fires", () => {
    const gift = fc.record({ n: fc.integer({ min: 0, max: 60 }), at: fc.integer({ min: 0, max: 3 * 24 }) });
    const window = fc.constantFrom<unknown>("LIFETIME", "DAY", "WEEK", { rollingSeconds: 7_200 });
    fc.assert(
      fc.property(fc.array(gift, { maxLength: 40 }), window, (gifts, span) => {
        const plan = budgeted({ asset: "xp", max: 100, window: span }, [give]);
        let shared = createSharedCounters("FROM_ZERO");
        const given: { at: number; n: number }[] = [];
        for (const { n, at: hours } of gifts) {
          const at = NOW - hours * HOUR_MS;
          const done = evaluate(plan, { at, shared, properties: { n }, player: aPlayerState() });
          shared = done.turn.shared;
          const { fired, reason } = done.outcomes[0]!.outcome;
          assert.equal(done.player.xp, fired ? n : 0);
          if (fired) given.push({ at, n });
          else assert.equal(reason, "BUDGET_EXHAUSTED");
        }
        const windowOf = (at: number): number =>
          span === "DAY" ? Math.floor(at / DAY_MS) : span === "WEEK" ? Math.floor(at / DAY_MS + 3) / 7 : 0;
        for (const { at } of given) {
          const same = given.filter((other) =>
            typeof span === "object"
              ? other.at >= at && other.at < at + 7_200_000
              : Math.floor(windowOf(other.at)) === Math.floor(windowOf(at)),
          );
          assert.ok(same.reduce((sum, { n }) => sum + n, 0) <= 100);
        }
        assert.ok(gifts.length === 0 || given.length > 0, "the first gift fits");
      }),
      { numRuns: cases(150) },
    );
  });

  it("measure what was really given: boosts, and what levels add", () => {
    const boost = { type: "apply_boost", boostKey: "x", applies: "xp", factor: 3, durationSeconds: 60 };
    const boosted = budgeted({ asset: "xp", max: 29 }, [boost, { type: "grant_xp", amount: 10 }]);
    const refused = evaluate(boosted);
    assert.deepEqual(
      [refused.reasons, refused.player.xp, refused.player.boosts.size, refused.effects.ledger],
      [["r BUDGET_EXHAUSTED"], 0, 0, []],
    );
    const levels = budgeted({ asset: "currency:coins", max: 49 }, [{ type: "grant_xp", amount: 150 }]);
    assert.deepEqual(evaluate(levels).reasons, ["r BUDGET_EXHAUSTED"]);
    assert.deepEqual(evaluate(levels).player.balances.size, 0);
  });

  it("count rewards by piece, gains of currency alone, and what is sent to others as well", () => {
    const mug = { type: "grant_reward", rewardKey: "mug", quantity: 4 };
    const sent = { ...mug, target: { externalUserId: { $ref: "event.properties.friend" } } };
    const reasons = (plan: ReturnType<typeof budgeted>, properties: Json = { friend: "u2" }) =>
      evaluate(plan, { properties }).reasons;
    const rewards = { asset: "reward:mug", max: 7 };
    assert.deepEqual(reasons(budgeted(rewards, [mug])), ["r MATCHED"]);
    assert.deepEqual(reasons(budgeted(rewards, [mug, sent])), ["r BUDGET_EXHAUSTED"]);
    const move = (n: number) => ({ type: "adjust_currency", currencyKey: "coins", amount: n });
    const coins = { asset: "currency:coins", max: 10 };
    assert.deepEqual(reasons(budgeted(coins, [move(10), move(-5)])), ["r MATCHED"]);
    assert.deepEqual(reasons(budgeted(coins, [move(10), move(-5), move(1)])), ["r BUDGET_EXHAUSTED"]);
    assert.deepEqual(reasons(budgeted(coins, [{ ...move(11), delaySeconds: 9 }])), ["r BUDGET_EXHAUSTED"]);
  });

  it("tell once for each window that they are used up", () => {
    const plan = budgeted({ asset: "xp", max: 10 }, [give]);
    const done = fireAt(plan, [NOW, NOW, NOW, NOW - DAY_MS, NOW - DAY_MS], { n: 8 });
    const told = done.map(({ told: events }) => events.filter(({ type }) => type.startsWith("rule.")));
    assert.deepEqual(pluck(told, "length"), [0, 1, 0, 0, 1]);
    const { ruleId, ...data } = told[1]![0]!.data;
    assert.equal(typeof ruleId, "string");
    assert.deepEqual(data, { ruleKey: "r", asset: "xp", max: 10, window: "DAY" });
    assert.equal(done[1]!.effects.outbox[0]!.playerSeq, null, "it is no line of a player's stream");
    const rolling = budgeted({ asset: "xp", max: 10, window: { rollingSeconds: 3_600 } }, [give]);
    const times = fireAt(rolling, [NOW, NOW, NOW + 1, NOW + 2 * HOUR_MS, NOW + 2 * HOUR_MS], { n: 8 });
    assert.deepEqual(
      times.map(({ types }) => types.filter((type) => type.startsWith("rule.")).length),
      [0, 1, 0, 0, 1],
    );
  });
});
