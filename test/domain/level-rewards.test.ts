import assert from "node:assert/strict";
import fc from "fast-check";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { grantXp } from "../../src/domain/evaluation/xp/xp.ts";
import type { RewardBundle } from "../../src/domain/evaluation/rewards/bundle.ts";
import { assertLedger } from "../support/economy/economy.ts";
import { aPass, aPlan, aPlayerState } from "../support/rules/plan.ts";
import { cases } from "../support/properties.ts";

const cause = { kind: "API" } as const;
const chest = (bundle: RewardBundle): Json => ({ key: "chest", name: "Chest", kind: "BUNDLE", bundle });
type Pass = ReturnType<typeof aPass>;

describe("rewards of levels", () => {
  // 100 XP a level from level 1.
  const curve = { type: "LINEAR", params: { base: 100, maxLevel: 50 } } as never;
  const thresholds = Array.from({ length: 50 }, (_, i) => i * 100);
  const planOf = (levels: Json[], allowLevelDown = true) =>
    aPlan({
      define: { level: levels, currency: [{ key: "coins", name: "Coins" }], reward: [chest({ xp: 100 })] },
      settings: { allowLevelDown },
      curve: { ...(curve as object), thresholds } as never,
    });
  const level = (n: number, rewards: RewardBundle = { currencies: { coins: n } }) => ({
    key: String(n),
    name: `Level ${n}`,
    rewards,
  });
  const paid = ({ effects }: Pass) =>
    effects.ledger.filter(({ asset }) => asset === "CURRENCY").map(({ key }) => key);

  it("are given for each level of a jump", () => {
    const pass = aPass({ plan: planOf([level(2), level(3), level(5)]) });
    grantXp(pass.turn, { amount: 450, cause, key: "x", reason: "r" });
    assert.equal(pass.player.level, 5);
    assert.deepEqual(paid(pass), ["lvl:2:cur:coins", "lvl:3:cur:coins", "lvl:5:cur:coins"]);
  });

  it("are given once, for a level that is reached, lost and reached again", () => {
    const pass = aPass({ plan: planOf([level(2), level(3), level(4)]) });
    const move = (amount: number, key: string) => grantXp(pass.turn, { amount, cause, key, reason: "r" });
    move(250, "a");
    move(-250, "b");
    assert.equal(pass.player.level, 1);
    move(350, "c");
    assert.deepEqual(paid(pass), ["lvl:2:cur:coins", "lvl:3:cur:coins", "lvl:4:cur:coins"]);
    assert.equal(pass.player.doc.v, 4);
    assert.ok(pass.player.dirty.doc);
  });

  it("leave no trace in projects without levels", () => {
    const pass = aPass({ plan: planOf([]) });
    grantXp(pass.turn, { amount: 450, cause, key: "x", reason: "r" });
    assert.deepEqual([pass.player.doc, pass.player.dirty.doc], [{}, false]);
  });

  it("that reach the next level by themselves end", () => {
    // Refused when it is saved; here is what happens if it comes about.
    const levels = Array.from({ length: 49 }, (_, i) => level(i + 2, { rewards: [{ rewardKey: "chest" }] }));
    const pass = aPass({ plan: planOf(levels) });
    grantXp(pass.turn, { amount: 100, cause, key: "x", reason: "r" });
    assertLedger(pass.effects.ledger, pass.player);
    assert.ok(pass.player.level > 2 && pass.player.level < 50);
    assert.match(pass.warnings.at(-1)!, /too many rewards inside one another/);
  });

  it("are given once for ever, whatever a player's XP does", () => {
    const plan = planOf(Array.from({ length: 49 }, (_, i) => level(i + 2)));
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -2_000, max: 2_000 }), { maxLength: 30 }), (changes) => {
        const pass = aPass({ plan, player: aPlayerState() });
        let highest = 1;
        changes.forEach((amount, i) => {
          grantXp(pass.turn, { amount, cause, key: `x${i}`, reason: "r" });
          highest = Math.max(highest, pass.player.level);
        });
        assertLedger(pass.effects.ledger, pass.player);
        assert.equal(paid(pass).length, highest - 1);
      }),
      { numRuns: cases(200) },
    );
  });
});
