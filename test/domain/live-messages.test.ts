import assert from "node:assert/strict";
import { emitCustom } from "../../src/domain/evaluation/emit.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { adjustCurrency } from "../../src/domain/evaluation/currencies/adjust.ts";
import { grantXp } from "../../src/domain/evaluation/xp/xp.ts";
import { livePlayerMessage } from "../../src/rooms/messages.ts";
import { aPass, aPlan } from "../support/rules/plan.ts";
import { pluck } from "../support/pluck.ts";

const cause = { kind: "API" } as const;
const plan = aPlan({
  define: {
    currency: [{ key: "coins", name: "Coins" }],
    level: [
      { key: "2", name: "Bronze", rewards: { currencies: { coins: 5 }, lives: 1 } },
      { key: "3", name: "Silver", rewards: { currencies: { coins: 7 }, lives: 2, addTags: ["silver"] } },
      { key: "4", name: "Gold", rewards: { lives: "FULL" } },
    ],
  },
});
const told = (type: string, data: Json): [string, Json] => {
  const line = { seq: 7, id: "line", at: "2026-01-01T00:00:00.000Z", type, data };
  const { name, message } = livePlayerMessage(line, plan);
  const { data: shown, ...envelope } = message;
  assert.deepEqual(envelope, { v: 1, id: line.id, at: line.at, seq: 7 });
  return [name, shown as Json];
};
const whose = { playerId: "p", externalUserId: "u" };

describe("a line of the player stream, as clients hear it", () => {
  it("of XP has the progress to the next level with its name", () => {
    const [name, data] = told("player.xp_granted", { ...whose, amount: 5, xp: 105, level: 2, cause });
    assert.equal(name, "player.xp");
    assert.deepEqual(data["levelProgress"], {
      level: 2,
      levelName: "Bronze",
      xpForLevel: 100,
      xpForNextLevel: 250,
      percent: 3,
      maxLevel: 100,
    });
  });

  it("of a level has what all levels on the way give together", () => {
    const up = (previousLevel: number, newLevel: number) =>
      told("player.level_up", { playerId: "p", previousLevel, newLevel, xp: 1 })[1]["rewards"];
    assert.deepEqual(up(1, 3), { currencies: { coins: 12 }, lives: 3, addTags: ["silver"] });
    assert.deepEqual(up(2, 4), { currencies: { coins: 7 }, lives: "FULL", addTags: ["silver"] });
    assert.equal(up(4, 5), null);
  });

  it("of a currency has the signed difference", () => {
    const base = { ...whose, currencyKey: "coins", amount: 5, balance: 9, ledgerEntryId: "l" };
    const shown = { currencyKey: "coins", balance: 9, cause };
    assert.deepEqual(told("player.currency_granted", { ...base, expiresAt: null, cause }), [
      "player.currency",
      { ...shown, delta: 5 },
    ]);
    assert.deepEqual(told("player.currency_spent", { ...base, reference: null, cause }), [
      "player.currency",
      { ...shown, delta: -5 },
    ]);
    assert.deepEqual(told("player.currency_expired", base), [
      "player.currency",
      { ...shown, delta: -5, cause: { kind: "EXPIRY" } },
    ]);
  });

  it("of lives, boosts, streaks, badges, rewards and messages has what each needs", () => {
    const lives = { current: 1, max: 5, nextLifeAt: null, fullAt: null, unlimitedUntil: null };
    const boost = { id: "b", boostKey: "rush", applies: "xp" };
    const badge = { ...whose, badgeKey: "first", tier: 1 };
    const message = { id: "m", type: "hello", title: "Hi", body: null, data: {}, rewardGrantId: null };
    const cases: [string, Json, string, Json][] = [
      ["player.lives_changed", { ...whose, delta: -1, lives, cause }, "player.lives", { delta: -1, lives }],
      ["player.boost_started", { ...whose, boost, cause }, "player.boost", { boost, state: "STARTED" }],
      [
        "player.boost_ended",
        { ...whose, boostKey: "rush", applies: "xp", by: "EXPIRED" },
        "player.boost",
        { boost: { boostKey: "rush", applies: "xp" }, state: "ENDED", by: "EXPIRED" },
      ],
      [
        "player.streak_extended",
        { ...whose, streakKey: "daily", current: 3 },
        "player.streak",
        { streakKey: "daily", current: 3, change: "EXTENDED" },
      ],
      [
        "player.streak_at_risk",
        { ...whose, streakKey: "daily", current: 3 },
        "player.streak",
        { streakKey: "daily", current: 3, change: "AT_RISK" },
      ],
      ["player.badge_earned", badge, "player.badge", badge],
      ["player.badge_revoked", badge, "player.badge", badge],
      ["player.reward_granted", { ...whose, grantId: "g" }, "player.reward", { ...whose, grantId: "g" }],
      ["inbox.message", { ...whose, ...message }, "inbox.message", message],
      [
        "custom.player.xp_granted",
        { ...whose, eventType: "player.xp_granted", properties: { a: 1 }, cause },
        "custom.event",
        { eventType: "player.xp_granted", properties: { a: 1 } },
      ],
      [
        "player.segment_entered",
        { ...whose, segmentKey: "vip" },
        "player.segment_entered",
        { ...whose, segmentKey: "vip" },
      ],
    ];
    for (const [type, data, name, shown] of cases) assert.deepEqual(told(type, data), [name, shown], type);
  });

  it("is one for each line that has a number, and events for webhooks alone have none", () => {
    const { turn, player, effects } = aPass({ plan });
    const custom = { eventType: "quiz.won", properties: {}, cause };
    emitCustom(turn, { ...custom, channels: ["webhook"] });
    emitCustom(turn, { ...custom, channels: ["realtime", "webhook"] });
    adjustCurrency(turn, { currencyKey: "coins", amount: 1, cause, key: "k", reason: "t" });
    emitCustom(turn, { ...custom, channels: ["rules"] });
    grantXp(turn, { amount: 1, cause, key: "x", reason: "t" });
    assert.deepEqual(pluck(effects.outbox, "type", "playerSeq"), [
      ["custom.quiz.won", null],
      ["custom.quiz.won", 1],
      ["player.currency_granted", 2],
      ["player.xp_granted", 3],
    ]);
    assert.equal(player.seq, 3);
  });
});
