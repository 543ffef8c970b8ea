import assert from "node:assert/strict";
import fc from "fast-check";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import {
  adjustLives,
  currentLives,
  type Lives,
  livesAt,
  type LivesChange,
  showLives,
} from "../../src/domain/evaluation/lives/lives.ts";
import { DEFAULT_SETTINGS, type LivesSettings } from "../../src/domain/evaluation/project-settings.ts";
import { aPass, aPlan, aPlayerState } from "../support/rules/plan.ts";
import { cases } from "../support/properties.ts";

const START = Date.parse("2026-06-15T12:00:00Z");
const cause = { kind: "API" } as const;
const iso = (ms: number): string => new Date(ms).toISOString();

/** A player made at START in a project where a life comes back every 30 minutes, up to 5. */
const aPlayer = (more: Partial<LivesSettings> = {}) => {
  const lives = { ...DEFAULT_SETTINGS.lives, enabled: true, ...more };
  const plan = aPlan({ settings: { lives } });
  const player = aPlayerState({ createdAt: new Date(START) });
  const { effects } = aPass();
  const at = (minutes: number) => aPass({ plan, player, effects, nowMs: START + minutes * 60_000 }).turn;
  let count = 0;
  return {
    player,
    effects,
    at,
    lives: (minutes: number) => currentLives(at(minutes)),
    show: (minutes: number) => showLives(lives, player, START + minutes * 60_000),
    change: (minutes: number, change: Partial<LivesChange>) =>
      adjustLives(at(minutes), { cause, key: `k${++count}`, reason: "test", ...change }),
    amounts: () => effects.ledger.map(({ amount, balanceAfter }) => [amount, balanceAfter]),
  };
};

describe("lives", () => {
  it("come back one by one, from the moment that the first was lost", () => {
    const { change, lives, show, amounts } = aPlayer();
    assert.equal(lives(100), 5);
    change(100, { amount: -3 });
    assert.deepEqual(show(100), {
      current: 2,
      max: 5,
      nextLifeAt: iso(START + 130 * 60_000),
      fullAt: iso(START + 190 * 60_000),
      unlimitedUntil: null,
    });
    assert.deepEqual([129, 130, 189, 190, 9_999].map(lives), [2, 3, 4, 5, 5]);
    assert.equal(show(190)!.nextLifeAt, null);
    change(145, { amount: -1 });
    assert.deepEqual(amounts(), [
      [-3, 2],
      [-1, 2],
    ]);
    assert.deepEqual([159, 160].map(lives), [2, 3], "the refill on its way is not lost");
  });

  it("come back several at once where the project says so, and never above the maximum", () => {
    const { change, lives, show } = aPlayer({ refillAmount: 2 });
    change(0, { amount: -5 });
    assert.deepEqual([29, 30, 60, 90].map(lives), [0, 2, 4, 5]);
    assert.equal(show(0)!.fullAt, iso(START + 90 * 60_000));
  });

  it("of a new player are those of the start, which refill from then on", () => {
    const { lives, effects } = aPlayer({ start: 1 });
    assert.deepEqual([0, 30, 120].map(lives), [1, 2, 5]);
    assert.deepEqual(effects.ledger, []);
  });

  it("are not taken beyond what there is: refused, or cut", () => {
    const { change, lives } = aPlayer();
    assert.deepEqual(change(0, { amount: -6, onInsufficient: "REFUSE" }), { problem: "INSUFFICIENT_LIVES" });
    assert.equal(lives(0), 5);
    assert.equal(change(0, { amount: -6 }).entry!.amount, -5);
    assert.deepEqual(change(0, { amount: -1 }), {});
  });

  it("are given up to the maximum, or beyond where the project allows it; then none come back", () => {
    const plain = aPlayer();
    plain.change(0, { amount: -1 });
    assert.equal(plain.change(0, { amount: 9 }).entry!.amount, 1);
    assert.deepEqual(plain.change(0, { amount: 1 }), {});
    const over = aPlayer({ allowOverMax: true });
    over.change(0, { amount: 3 });
    assert.equal(over.lives(600), 8);
    over.change(600, { amount: -2 });
    assert.deepEqual([600, 999].map(over.lives), [6, 6]);
    over.change(1_000, { amount: -2 });
    assert.deepEqual([1_029, 1_030].map(over.lives), [4, 5]);
    assert.equal(over.change(1_030, { refill: "FULL" }).entry, undefined);
    assert.equal(over.change(1_030, { amount: 5_000_000 }).entry!.balanceAfter, 1_000_000);
  });

  it("are filled up, and never down", () => {
    const { change, lives } = aPlayer({ allowOverMax: true });
    change(0, { amount: -4 });
    assert.equal(change(10, { refill: "FULL" }).entry!.amount, 4);
    change(10, { amount: 2 });
    change(10, { refill: "FULL" });
    assert.equal(lives(10), 7);
  });

  it("are not used up while they are unlimited; grants add to the time that is left", () => {
    const { change, show, lives, effects } = aPlayer();
    change(0, { unlimitedSeconds: 3_600 });
    change(0, { unlimitedSeconds: 3_600 });
    assert.equal(show(0)!.unlimitedUntil, iso(START + 7_200_000));
    assert.deepEqual(change(119, { amount: -2 }), {});
    assert.equal(lives(119), 5);
    assert.equal(show(120)!.unlimitedUntil, null);
    change(120, { amount: -2 });
    assert.equal(lives(120), 3);
    assert.deepEqual(
      effects.outbox.map(({ type, data }) => [type, (data as Json)["delta"]]),
      [
        ["player.lives_changed", 0],
        ["player.lives_changed", 0],
        ["player.lives_changed", -2],
      ],
    );
    assert.equal(effects.ledger.length, 1);
  });

  it("are told with what the player has then", () => {
    const { change, effects, player, show } = aPlayer();
    change(7, { amount: -1 });
    assert.deepEqual(effects.outbox[0]!.data, {
      playerId: player.id,
      externalUserId: player.externalUserId,
      delta: -1,
      lives: show(7),
      cause,
    });
  });

  it("are none in a project without them", () => {
    const { change, lives, show, effects } = aPlayer({ enabled: false });
    assert.deepEqual(change(0, { amount: 1 }), { problem: "LIVES_DISABLED" });
    assert.deepEqual([lives(0), show(0), effects.outbox], [undefined, null, []]);
  });
});

/** The formula of the design, written down apart: one refill after the other. */
const byHand = (settings: LivesSettings, { count, anchorMs }: Lives, nowMs: number): number => {
  let lives = count;
  const everyMs = settings.refillSeconds * 1_000;
  for (let due = anchorMs + everyMs; due <= nowMs && lives < settings.max; due += everyMs)
    lives = Math.min(settings.max, lives + settings.refillAmount);
  return lives;
};

describe("the refill of lives", () => {
  const settings = fc.record({
    enabled: fc.constant(true),
    max: fc.integer({ min: 1, max: 20 }),
    refillSeconds: fc.integer({ min: 1, max: 4_000 }),
    refillAmount: fc.integer({ min: 1, max: 5 }),
    start: fc.integer({ min: 0, max: 20 }),
    allowOverMax: fc.boolean(),
  });
  const waits = fc.array(fc.integer({ min: 0, max: 20_000_000 }), { maxLength: 10 });

  it("is what one refill after the other gives", () => {
    fc.assert(
      fc.property(settings, fc.nat({ max: 25 }), fc.nat({ max: 100_000_000 }), (given, count, nowMs) => {
        const lives = livesAt(given, { count, anchorMs: 0 }, nowMs);
        assert.equal(lives.count, byHand(given, { count, anchorMs: 0 }, nowMs));
      }),
      { numRuns: cases(2_000) },
    );
  });

  it("does not depend on when somebody looked", () => {
    fc.assert(
      fc.property(settings, fc.nat({ max: 25 }), waits, (given, count, steps) => {
        const first = { count, anchorMs: 0 };
        let looked: Lives = first;
        let nowMs = 0;
        for (const step of steps) looked = livesAt(given, looked, (nowMs += step));
        assert.deepEqual(livesAt(given, looked, nowMs), livesAt(given, first, nowMs));
      }),
      { numRuns: cases(2_000) },
    );
  });

  it("never loses the part of a refill that has run when lives are taken or given in between", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 29 }), fc.integer({ min: -1, max: 1 }), (minutes, amount) => {
        const { change, lives } = aPlayer();
        change(0, { amount: -3 });
        change(minutes, { amount });
        assert.equal(lives(30), 3 + amount);
      }),
    );
  });
});
