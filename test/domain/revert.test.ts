import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { atOnce } from "../../src/domain/kernel/slices.ts";
import { evaluateEvent, noEffects } from "../../src/domain/evaluation/evaluate.ts";
import type { Turn } from "../../src/domain/evaluation/turn.ts";
import { newReversal } from "../../src/domain/revert/record.ts";
import { reversePlayer } from "../../src/domain/revert/reverse.ts";
import { aPass, aPlayerState } from "../support/rules/plan.ts";
import { apply, copyOf, holdings, NOW, plan, recordOf, revert } from "../support/rules/reverts.ts";
import { cases } from "../support/properties.ts";

const anEvent = fc.record({
  type: fc.constantFrom("won", "won", "bought"),
  at: fc.integer({ min: 0, max: 3 }).map((hours) => NOW - hours * 3_600_000),
  properties: fc.record({ score: fc.integer({ min: 1, max: 60 }) }),
});

describe("the revert of an event", () => {
  it("gives back exactly what the event has changed, when nothing of it was spent", () => {
    fc.assert(
      fc.property(fc.array(anEvent, { maxLength: 8 }), anEvent, (past, last) => {
        const player = aPlayerState({ seq: 1 });
        // Whoever has had nothing to do with the currency has its initial balance without a line.
        player.balances.set("coins", { balance: 5, held: 0, earned: 5, spent: 0 });
        player.balances.set("gems", { balance: 0, held: 0, earned: 0, spent: 0 });
        let shared: Turn["shared"] | undefined;
        for (const sent of past) ({ shared } = apply(player, sent, shared).turn);
        const before = holdings(player);
        const known = copyOf(player);
        const firings = shared?.changes();
        const applied = apply(player, last, shared);
        const { reversal, effects } = revert(applied.turn, recordOf(applied, known));
        const after = holdings(player);
        // A streak's longest run stays where an earlier one may have been as long.
        assert.deepEqual(after, before);
        // What was spent and comes back expires anew, so lots may hold more of the balance than before.
        const inLots = (player.lots.get("coins") ?? []).reduce((sum, { remaining }) => sum + remaining, 0);
        assert.ok(inLots <= player.balances.get("coins")!.balance);
        assert.deepEqual(reversal.shortfall, {});
        for (const { amount, reverses, key } of effects.ledger) {
          const line = applied.effects.ledger.find(({ id }) => id === reverses)!;
          assert.equal(amount, -line.amount);
          assert.equal(key, `rev:${line.id}`);
        }
        const zero = (changes: ReturnType<Turn["shared"]["changes"]> = []) =>
          changes.filter(({ u }) => u !== 0).map(({ s, u }) => [s, u]);
        assert.deepEqual(zero(applied.turn.shared.changes()), zero(firings));
      }),
      { numRuns: cases(500) },
    );
  });

  it("takes the whole gain off boards of gains, also what was spent", () => {
    const player = aPlayerState({ seq: 1 });
    player.balances.set("coins", { balance: 5, held: 0, earned: 5, spent: 0 });
    const applied = apply(player, { type: "won", at: NOW, properties: { score: 30 } });
    const record = recordOf(applied, aPlayerState());
    assert.equal(player.entries.get("earned")?.rankScore, -7);
    player.balances.set("coins", { balance: 0, held: 0, earned: 12, spent: 12 });
    const { reversal } = revert(applied.turn, record);
    assert.equal(reversal.shortfall["currency:coins"], 4);
    assert.equal(player.entries.has("earned"), false);
  });

  it("lets a level that stays keep its reward, and gives a level that fell its reward again", () => {
    const stays = aPlayerState({ seq: 1 });
    const kept = { ...plan, settings: { ...plan.settings, allowLevelDown: false } };
    const effects = noEffects();
    const event = { id: randomUUID(), type: "won", at: NOW, properties: { score: 150 } };
    const { turn } = aPass({ plan: kept, player: stays, event, nowMs: NOW, effects });
    evaluateEvent(turn);
    const record = recordOf({ turn, effects }, aPlayerState());
    const reversal = newReversal(record.event, { reason: "test", actor: "nobody" });
    const context = { rules: new Map(), counterStarts: new Map(), boardStarts: new Map(), reversal };
    atOnce(reversePlayer(aPass({ plan: kept, player: stays, event, nowMs: NOW }).turn, record, context));
    assert.deepEqual([stays.xp, stays.level, stays.balances.get("gems")!.balance], [0, 2, 9]);
    assert.deepEqual([...reversal.left], ["level 2, with what it gave"]);

    const falls = aPlayerState({ seq: 1 });
    const first = apply(falls, { type: "won", at: NOW, properties: { score: 150 } });
    revert(first.turn, recordOf(first, aPlayerState()));
    assert.deepEqual([falls.level, falls.balances.get("gems")!.balance], [1, 0]);
    const again = apply(falls, { type: "won", at: NOW - 60_000, properties: { score: 150 } });
    assert.deepEqual([falls.level, falls.balances.get("gems")!.balance], [2, 11]);
    const keys = [...first.effects.ledger, ...again.effects.ledger].map(({ key }) => key);
    assert.equal(new Set(keys).size, keys.length, "no line of the ledger has the key of another");
  });
});
