import assert from "node:assert/strict";
import fc from "fast-check";
import { startBoost } from "../../src/domain/evaluation/boosts/boosts.ts";
import { adjustCurrency, balanceNow, expireLots } from "../../src/domain/evaluation/currencies/adjust.ts";
import { freeHeld, reserve, spendHeld } from "../../src/domain/economy/currencies/holds.ts";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { adjustLives } from "../../src/domain/evaluation/lives/lives.ts";
import { saveTurn } from "../../src/domain/evaluation/snapshot.ts";
import type { Turn } from "../../src/domain/evaluation/turn.ts";
import { grantXp } from "../../src/domain/evaluation/xp/xp.ts";
import { DEFAULT_SETTINGS } from "../../src/domain/evaluation/project-settings.ts";
import { assertLedger, lotsOf } from "../support/economy/ledger.ts";
import { aPass, aPlan, aPlayerState } from "../support/rules/plan.ts";
import { cases } from "../support/properties.ts";

const DAY_MS = 86_400_000;
const cause = { kind: "RULE" } as const;

/** `waitDays` passes first; `isUndone`: the rule fails, and the turn is put back. */
const amount = fc.integer({ min: 1, max: 60 });
const currency = fc.constantFrom("coins", "gems", "points");
const step = fc.record({
  kind: fc.constantFrom(
    "gain",
    "spend",
    "clamp",
    "hold",
    "capture",
    "release",
    "expire",
    "boost",
    "xp",
    "lives",
  ),
  currency,
  amount,
  waitDays: fc.constantFrom(0, 0, 0, 0.4, 1, 3),
  isUndone: fc.constantFrom(false, false, false, true),
  isBoostable: fc.boolean(),
});
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

const plan = aPlan({
  define: {
    currency: [
      { key: "coins", name: "Expire", expiryDays: 2, initialBalance: 7 },
      { key: "gems", name: "Limited", maxBalance: 100, overflow: "REJECT", minBalance: 5 },
      { key: "points", name: "Cut", maxBalance: 80, initialBalance: 90, expiryDays: 1 },
    ],
  },
  settings: {
    lives: { ...DEFAULT_SETTINGS.lives, enabled: true },
    xpDailySoftCap: { xp: 50, factorAbove: 0.3 },
  },
});

type Hold = { id: string; currencyKey: string; amount: number; reference: null };

const settle = (turn: Turn, holds: Hold[], { kind, amount: n }: Step): void => {
  const hold = holds.shift();
  if (!hold) return;
  if (kind === "release") freeHeld(turn, hold.currencyKey, hold.amount);
  else spendHeld(turn, hold, { captured: Math.min(n, hold.amount), cause });
};

type Run = (turn: Turn, given: { holds: Hold[]; one: Step; key: string }) => void;
const reason = "t";

const change =
  (sign: 1 | -1, more: object = {}): Run =>
  (turn, { one: { currency: currencyKey, amount: n, isBoostable: boostable }, key }) =>
    void adjustCurrency(turn, { currencyKey, amount: sign * n, boostable, cause, key, reason, ...more });

const RUNS: Record<Step["kind"], Run> = {
  gain: change(1),
  spend: change(-1),
  clamp: change(-1, { onInsufficient: "CLAMP" }),
  xp: (turn, { one: { amount: n, isBoostable: boostable }, key }) =>
    void grantXp(turn, { amount: n % 3 === 0 ? -n : n, boostable, cause, key, reason }),
  lives: (turn, { one, key }) => void adjustLives(turn, { cause, key, reason, amount: (one.amount % 7) - 3 }),
  expire: (turn, { one }) => expireLots(turn, one.currency),
  boost: (turn, { one: { amount: n, currency: key } }) => {
    const applies = n % 2 === 0 ? "xp" : `currency:${key}`;
    const boost = { boostKey: "b", applies, factor: 1.7, durationSeconds: 100_000, uses: 3, cause };
    startBoost(turn, { ...boost, stacking: n % 3 === 0 ? "MULTIPLY" : "EXTEND" });
  },
  hold: (turn, { holds, one: { currency: currencyKey, amount: n }, key: id }) => {
    reserve(turn, currencyKey, n);
    holds.push({ id, currencyKey, amount: n, reference: null });
  },
  capture: (turn, { holds, one }) => settle(turn, holds, one),
  release: (turn, { holds, one }) => settle(turn, holds, one),
};

describe("the economy of a player, in memory", () => {
  it("keeps its books over any program of rules, holds, expiry and undoing", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (program) => {
        const player = aPlayerState();
        const { effects } = aPass();
        let nowMs = Date.parse("2026-06-15T12:00:00Z");
        let holds: Hold[] = [];
        program.forEach((one, i) => {
          nowMs += one.waitDays * DAY_MS;
          const { turn } = aPass({ plan, player, effects, nowMs });
          const undo = saveTurn(turn);
          const before = [...holds];
          try {
            RUNS[one.kind](turn, { holds, one, key: `k${i}` });
            if (!one.isUndone) return;
          } catch (error) {
            assert.ok(error instanceof DomainError);
          }
          undo();
          holds = before;
        });
        assertLedger(effects.ledger, player);
        for (const key of ["coins", "points"]) {
          const state = player.balances.get(key);
          if (state) assert.equal(lotsOf(player, key), state.balance, `lots of ${key}`);
        }
        for (const key of plan.currencies.keys()) {
          const held = holds.filter(({ currencyKey }) => currencyKey === key);
          const sum = held.reduce((total, hold) => total + hold.amount, 0);
          assert.equal(player.balances.get(key)?.held ?? 0, sum, `held of ${key}`);
          const { turn } = aPass({ plan, player, effects, nowMs });
          const read = balanceNow(turn, key)!;
          expireLots(turn, key);
          assert.equal(player.balances.get(key)?.balance ?? read.balance, read.balance, "as it was read");
        }
        assertLedger(effects.ledger, player);
      }),
      { numRuns: cases(1_000) },
    );
  });
});
