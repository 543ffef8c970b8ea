import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { atOnce } from "../../src/domain/kernel/slices.ts";
import { evaluateEvent, noEffects } from "../../src/domain/evaluation/evaluate.ts";
import type { Turn } from "../../src/domain/evaluation/turn.ts";
import { newReversal } from "../../src/domain/revert/record.ts";
import { reversePlayer } from "../../src/domain/revert/reverse.ts";
import { aPass, aPlayerState } from "../support/rules/plan.ts";
import {
  apply,
  copyOf,
  holdings,
  NOW,
  plan,
  recordOf,
  revert,
  togetherOf,
} from "../support/rules/reverts.ts";
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

  it("takes what is there when some was spent, and tells the rest", () => {
    const player = aPlayerState({ seq: 1 });
    const applied = apply(player, { type: "won", at: NOW, properties: { score: 30 } });
    const record = recordOf(applied, aPlayerState());
    player.xp = 10;
    player.balances.set("coins", { balance: 2, held: 1, earned: 12, spent: 10 });
    const { reversal } = revert(applied.turn, record);
    assert.equal(player.xp, 0);
    assert.deepEqual(player.balances.get("coins"), { balance: 1, held: 1, earned: 8, spent: 7 });
    assert.equal(reversal.shortfall["xp"], 30 + 11 - 10);
    assert.equal(reversal.shortfall["currency:coins"], 7 - 3 - 1);
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

  it("leaves a badge that something else has awarded too", () => {
    const player = aPlayerState({ seq: 1 });
    const applied = apply(player, { type: "won", at: NOW, properties: { score: 30 } });
    const record = recordOf(applied, aPlayerState());
    const another = {
      eventId: null,
      badgeKey: "hero",
      tier: 1,
      action: "AWARDED",
      serialNo: null,
      key: "api:1:2:1",
      isOfEvent: false,
      isByCounter: false,
      isReversal: false,
      others: 1,
    } as const;
    const awards = [...record.awards, another];
    const { reversal } = revert(applied.turn, {
      ...record,
      awards,
      together: togetherOf(awards, record.followed),
    });
    assert.equal(player.badges.get("hero")!.tier, 1);
    assert.deepEqual([...reversal.badges], []);
    // The other award has given its own.
    assert.equal(player.balances.get("gems")!.balance, 0);
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

  it("takes a streak's period away when the event was needed for it, with the milestone it gave", () => {
    const player = aPlayerState({ seq: 1 });
    const day = 86_400_000;
    const win = (at: number) => apply(player, { type: "won", at, properties: { score: 1 } });
    for (const at of [NOW - day - 1, NOW - day, NOW - 1]) win(at);
    assert.equal(player.streaks.get("daily")!.current, 1);
    const known = copyOf(player);
    const second = win(NOW);
    const gems = player.balances.get("gems")!.balance;
    assert.equal(player.streaks.get("daily")!.current, 2);
    const { reversal } = revert(second.turn, recordOf(second, known));
    const { current, deadlineMs, longest } = player.streaks.get("daily")!;
    assert.deepEqual([current, longest], [1, 1]);
    assert.equal(deadlineMs, known.streaks.get("daily")!.deadlineMs);
    assert.deepEqual([...reversal.streaks], ["daily"]);
    assert.equal(player.balances.get("gems")!.balance, gems - 4 - 1);
    // Reached again, the milestone gives again, by a line of its own.
    const third = win(NOW);
    assert.equal(player.streaks.get("daily")!.current, 2);
    assert.equal(player.balances.get("gems")!.balance, gems);
    const keyOf = ({ effects }: typeof third) =>
      effects.ledger.find(({ key }) => key.startsWith("stk:"))!.key;
    assert.notEqual(keyOf(third), keyOf(second));
  });
});
