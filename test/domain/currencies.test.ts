import assert from "node:assert/strict";
import fc from "fast-check";
import {
  addToLots,
  adjustCurrency,
  balanceNow,
  type CurrencyChange,
  expireLots,
} from "../../src/domain/evaluation/currencies/adjust.ts";
import { freeHeld, reserve, spendHeld } from "../../src/domain/economy/currencies/holds.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { startBoost } from "../../src/domain/evaluation/boosts/boosts.ts";
import { assertLedger, lotsOf } from "../support/economy/economy.ts";
import { aPass, aPlan, aPlayerState } from "../support/rules/plan.ts";
import { pluck } from "../support/pluck.ts";

const DAY_MS = 86_400_000;
const NOON = Date.parse("2026-06-15T12:00:00Z");
const cause = { kind: "API" } as const;

/** A player of a project with the currency `coins`. */
const aPurse = (coins: Json = {}, settings = {}) => {
  const plan = aPlan({ define: { currency: [{ key: "coins", name: "Coins", ...coins }] }, settings });
  const { effects } = aPass();
  const player = aPlayerState();
  let count = 0;
  const at = (nowMs: number) => aPass({ plan, player, effects, nowMs }).turn;
  return {
    player,
    effects,
    at,
    change: (amount: number, more: Partial<CurrencyChange> = {}, nowMs = NOON) =>
      adjustCurrency(at(nowMs), {
        currencyKey: "coins",
        amount,
        cause,
        key: `k${++count}`,
        reason: "test",
        ...more,
      }),
    told: () =>
      effects.outbox.map(({ type, data }) => {
        const { amount, balance } = data as { amount: number; balance: number };
        return [type.replace("player.currency_", ""), amount, balance];
      }),
    amounts: () => effects.ledger.map(({ amount }) => amount),
    balance: () => player.balances.get("coins"),
  };
};

describe("a balance", () => {
  it("rises and falls by exactly what is asked, with an entry and a line for each change", () => {
    const { change, told, amounts, balance, effects, player } = aPurse();
    change(10);
    change(-4, { reference: "order-1" });
    assert.deepEqual(balance(), { balance: 6, held: 0, earned: 10, spent: 4 });
    assert.deepEqual(amounts(), [10, -4]);
    assert.deepEqual(told(), [
      ["granted", 10, 10],
      ["spent", 4, 6],
    ]);
    const [granted, spent] = effects.outbox.map(({ data }) => data as Json);
    const { id: playerId, externalUserId } = player;
    const [first, second] = effects.ledger;
    const what = { playerId, externalUserId, currencyKey: "coins", cause };
    const [firstEntry, secondEntry] = [{ ledgerEntryId: first!.id }, { ledgerEntryId: second!.id }];
    assert.deepEqual(granted, { ...what, ...firstEntry, amount: 10, balance: 10, expiresAt: null });
    assert.deepEqual(spent, { ...what, ...secondEntry, amount: 4, balance: 6, reference: "order-1" });
    assertLedger(effects.ledger, player);
  });

  it("is never spent beyond what is there: the change is refused, or cut where told", () => {
    const { change, balance, amounts } = aPurse();
    change(5);
    assert.deepEqual(change(-6), { problem: "INSUFFICIENT_FUNDS" });
    assert.equal(change(-6, { onInsufficient: "CLAMP" }).entry!.amount, -5);
    assert.deepEqual(change(-1, { onInsufficient: "CLAMP" }), {}, "nothing left to take");
    assert.deepEqual(amounts(), [5, -5]);
    assert.equal(balance()!.balance, 0);
  });

  it("is not spent below the currency's minimum", () => {
    const { change, balance } = aPurse({ minBalance: 3 });
    change(10);
    assert.equal(change(-8).problem, "INSUFFICIENT_FUNDS");
    assert.equal(change(-7).entry!.amount, -7);
    assert.equal(change(-1, { onInsufficient: "CLAMP" }).entry, undefined);
    assert.equal(balance()!.balance, 3);
  });

  it("beyond the maximum is cut or refused, as the currency says", () => {
    const clamped = aPurse({ maxBalance: 10 });
    assert.equal(clamped.change(15).entry!.amount, 10);
    assert.deepEqual(clamped.change(1), {});
    const rejected = aPurse({ maxBalance: 10, overflow: "REJECT" });
    rejected.change(8);
    assert.deepEqual(rejected.change(3), { problem: "BALANCE_LIMIT" });
    assert.equal(rejected.change(2).entry!.balanceAfter, 10);
    const open = aPurse();
    open.change(Number.MAX_SAFE_INTEGER);
    assert.deepEqual(open.change(1), {}, "an integer that is exact");
    assert.equal(open.balance()!.balance, Number.MAX_SAFE_INTEGER);
  });

  it("begins with the initial one, which the first change writes into the ledger first", () => {
    const { change, at, balance, effects, player, amounts } = aPurse({ initialBalance: 50 });
    assert.equal(balanceNow(at(NOON), "coins")!.balance, 50, "read before anything was written");
    assert.equal(balanceNow(at(NOON), "gold"), undefined);
    assert.equal(change(-60).problem, "INSUFFICIENT_FUNDS");
    assert.deepEqual(amounts(), [], "a refusal writes nothing");
    change(-20);
    assert.deepEqual(amounts(), [50, -20]);
    assert.equal(effects.ledger[0]!.key, "init:coins");
    assert.equal(effects.ledger[0]!.eventId, null, "no effect of the event that came first");
    assert.deepEqual(balance(), { balance: 30, held: 0, earned: 50, spent: 20 });
    change(5);
    assert.deepEqual(amounts(), [50, -20, 5], "once");
    assertLedger(effects.ledger, player);
  });

  it("gains more under a boost only where the gain may be boosted, and uses it up", () => {
    const { change, at, player, amounts } = aPurse({ maxBalance: 100, overflow: "REJECT" });
    const boost = { boostKey: "rush", factor: 2.5, durationSeconds: 60, stacking: "MAX" as const, cause };
    startBoost(at(NOON), { ...boost, applies: "currency:coins", uses: 2 });
    startBoost(at(NOON), { ...boost, applies: "xp" });
    change(3);
    change(3, { boostable: true });
    assert.equal(change(90, { boostable: true }).problem, "BALANCE_LIMIT", "refused without a use");
    change(-4, { boostable: true });
    change(1, { boostable: true });
    change(1, { boostable: true });
    assert.deepEqual(amounts(), [3, 8, -4, 3, 1]);
    assert.deepEqual(pluck([...player.boosts.values()], "applies"), ["xp"]);
  });
});

describe("gains that expire", () => {
  const lasting = { expiryDays: 10 };

  it("are one lot for a day, which ends with the UTC day that many days ahead", () => {
    const { change, player, effects } = aPurse(lasting);
    change(5);
    change(7, {}, NOON + 3_600_000);
    change(1, {}, NOON + DAY_MS);
    const lots = player.lots
      .get("coins")!
      .map(({ remaining, expiresMs }) => [remaining, new Date(expiresMs).toISOString()]);
    assert.deepEqual(lots, [
      [12, "2026-06-26T00:00:00.000Z"],
      [1, "2026-06-27T00:00:00.000Z"],
    ]);
    assert.equal((effects.outbox[0]!.data as Json)["expiresAt"], "2026-06-26T00:00:00.000Z");
  });

  it("are spent in the order in which they expire, those that do not expire last", () => {
    const { change, player } = aPurse();
    change(10);
    change(4, { expiresMs: NOON + 2 * DAY_MS });
    change(3, { expiresMs: NOON + DAY_MS });
    change(-5);
    assert.deepEqual(pluck(player.lots.get("coins")!, "remaining"), [0, 2]);
    change(-4);
    assert.equal(lotsOf(player, "coins"), 0);
    assert.equal(player.balances.get("coins")!.balance, 8);
  });

  it("are gone when their time has come: not readable, not spendable, and told once", () => {
    const { change, player, at, effects, told, amounts } = aPurse();
    change(10);
    change(4, { expiresMs: NOON + DAY_MS });
    const later = NOON + DAY_MS;
    assert.equal(balanceNow(at(later), "coins")!.balance, 10);
    assert.equal(change(-11, {}, later).problem, "INSUFFICIENT_FUNDS");
    expireLots(at(later), "coins");
    assert.deepEqual(amounts(), [10, 4, -4]);
    assert.deepEqual(told().at(-1), ["expired", 4, 10]);
    const entry = effects.ledger.at(-1)!;
    assert.match(entry.key, /^exp:[0-9a-f-]{36}$/);
    assert.deepEqual([entry.cause.kind, entry.eventId], ["EXPIRY", null]);
    assert.deepEqual(player.balances.get("coins"), { balance: 10, held: 0, earned: 14, spent: 0 });
    assertLedger(effects.ledger, player);
  });

  it("stay while they are held, and go when they are freed", () => {
    const { change, player, at, amounts, effects } = aPurse(lasting);
    change(10);
    reserve(at(NOON), "coins", 6);
    const later = NOON + 20 * DAY_MS;
    assert.deepEqual(balanceNow(at(later), "coins"), { balance: 6, held: 6, earned: 10, spent: 0 });
    expireLots(at(later), "coins");
    assert.deepEqual(amounts(), [10, -4]);
    const hold = { id: "h", currencyKey: "coins", amount: 6, reference: null };
    spendHeld(at(later), hold, { captured: 1, cause });
    assert.deepEqual(amounts(), [10, -4, -1, -5], "what is left of the hold expires");
    assert.equal(lotsOf(player, "coins"), 0);
    assertLedger(effects.ledger, player);
  });
});

describe("lots", () => {
  it("that are used up are not taken up again, so that each expires once", () => {
    const { change, player, at, effects } = aPurse();
    const expiresMs = NOON + DAY_MS;
    change(4, { expiresMs });
    change(-4);
    change(6, { expiresMs });
    change(2, { expiresMs });
    assert.deepEqual(pluck(player.lots.get("coins")!, "remaining"), [0, 8]);
    expireLots(at(expiresMs), "coins");
    addToLots(player, "coins", [{ amount: 1, expiresMs }]);
    assert.equal(new Set(player.lots.get("coins")!.map(({ id }) => id)).size, 3);
    assertLedger(effects.ledger, player);
  });

  it("are kept in the order in which they expire", () => {
    const { player } = aPurse();
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 9 })), (days) => {
        player.lots.clear();
        for (const day of days) addToLots(player, "coins", [{ amount: 1, expiresMs: day }]);
        const lots = player.lots.get("coins") ?? [];
        const expected = [...new Set(days)].toSorted((a, b) => a - b);
        assert.deepEqual(pluck(lots, "expiresMs"), expected);
        assert.equal(lotsOf(player, "coins"), days.length);
      }),
    );
  });
});

describe("a hold", () => {
  it("takes from what is available and not from the balance", () => {
    const { change, at, balance } = aPurse({ minBalance: 1 });
    change(10);
    reserve(at(NOON), "coins", 6);
    assert.deepEqual(balance(), { balance: 10, held: 6, earned: 10, spent: 0 });
    assert.throws(() => reserve(at(NOON), "coins", 4), /does not have 4 coins/);
    assert.throws(() => reserve(at(NOON), "gold", 1), /currency not found/);
    assert.equal(change(-4).problem, "INSUFFICIENT_FUNDS");
    assert.equal(change(-9, { onInsufficient: "CLAMP" }).entry!.amount, -3);
    freeHeld(at(NOON), "coins", 6);
    assert.equal(change(-6).entry!.balanceAfter, 1);
  });

  it("can take from the initial balance", () => {
    const { at, balance, amounts } = aPurse({ initialBalance: 5 });
    reserve(at(NOON), "coins", 5);
    assert.deepEqual(balance(), { balance: 5, held: 5, earned: 5, spent: 0 });
    assert.deepEqual(amounts(), [5]);
  });
});
