import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { PUBLISHED_MAX, saveTurn } from "../../src/domain/evaluation/turn.ts";
import { multiplyBundle, type RewardBundle } from "../../src/domain/evaluation/rewards/bundle.ts";
import {
  grantBundle,
  grantReward,
  limitedKey,
  type RewardGrant,
} from "../../src/domain/evaluation/rewards/shared-keys.ts";
import { assertLedger } from "../support/economy/economy.ts";
import { aDefinition, aPass, aPlan, type PlanParts, PROJECT } from "../support/rules/plan.ts";
import { pluck } from "../support/pluck.ts";

const cause = { kind: "API" } as const;
const chest = (bundle: RewardBundle, more: Json = {}): Json => ({
  key: "chest",
  name: "Chest",
  kind: "BUNDLE",
  bundle,
  ...more,
});
const prize = (fulfilment: string, more: Json = {}): Json => ({
  key: "chest",
  name: "Mug",
  kind: "PRIZE",
  fulfilment,
  ...more,
});

const passIn = (define: PlanParts["define"], settings: PlanParts["settings"] = {}) =>
  aPass({ plan: aPlan({ define: define ?? {}, settings }) });
type Pass = ReturnType<typeof aPass>;
const give = ({ turn }: Pass, bundle: RewardBundle, key = "k") =>
  grantBundle(turn, { bundle, cause, key, reason: "test" });
const grant = ({ turn }: Pass, more: Partial<RewardGrant> = {}) =>
  grantReward(turn, { rewardKey: "chest", quantity: 1, delivery: "AUTO", cause, key: "g", ...more });
const types = ({ effects }: Pass) => effects.outbox.map(({ type }) => type);

describe("bundles of rewards", () => {
  const define = {
    currency: [{ key: "coins", name: "Coins" }],
    badge: [{ key: "b", name: "B", tiers: [{ tier: 1 }, { tier: 2 }] }],
    reward: [chest({ currencies: { coins: 2 } })],
    streak: [
      {
        key: "daily",
        name: "Daily",
        period: "DAY",
        qualify: { parts: [{ metric: { eventTypes: ["seen"], aggregate: "count" }, threshold: 1 }] },
        freeze: { enabled: true, max: 3 },
      },
    ],
  };
  const lives = {
    enabled: true,
    max: 5,
    start: 2,
    refillSeconds: 31_536_000,
    refillAmount: 1,
    allowOverMax: false,
  };

  it("give all their parts, each under a key of its own", () => {
    const pass = passIn(define, { lives });
    give(pass, {
      xp: 5,
      currencies: { coins: 7 },
      lives: 2,
      badges: [{ badgeKey: "b", tier: 2 }],
      boosts: [{ boostKey: "x2", applies: "xp", factor: 2, durationSeconds: 60 }],
      streakFreezes: { daily: 2 },
      rewards: [{ rewardKey: "chest", quantity: 3 }],
      addTags: ["vip"],
    });
    const { player, effects, warnings } = pass;
    assert.deepEqual(warnings, []);
    assert.deepEqual(pluck(effects.ledger, "key", "amount"), [
      ["k:xp", 5],
      ["k:cur:coins", 7],
      ["k:lives", 2],
      ["k:rwd:0:cur:coins", 6],
    ]);
    assert.equal(player.badges.get("b")!.tier, 2);
    assert.equal([...player.boosts.values()][0]!.stacking, "EXTEND");
    assert.equal(player.streaks.get("daily")!.freezes, 2);
    assert.deepEqual(player.tags, ["vip"]);
    assert.equal(effects.rewardGrants.length, 1);
    assertLedger(effects.ledger, player);
  });

  it("fill lives up where they say FULL", () => {
    const pass = passIn({}, { lives });
    give(pass, { lives: "FULL" });
    assert.equal(pass.effects.ledger[0]!.balanceAfter, 5);
  });

  it("leave a warning for what cannot be given, and give the rest", () => {
    const pass = passIn({ currency: [{ key: "coins", name: "C", maxBalance: 5, overflow: "REJECT" }] });
    give(pass, {
      currencies: { coins: 6, gone: 1 },
      lives: 1,
      badges: [{ badgeKey: "gone" }],
      streakFreezes: { gone: 1 },
      rewards: [{ rewardKey: "gone" }],
      addTags: Array.from({ length: 20 }, (_, i) => `t${i}`),
    });
    assert.deepEqual(pass.warnings, [
      "test: 6 of currency coins: BALANCE_LIMIT",
      "test: 1 of currency gone: UNKNOWN_CURRENCY",
      "test: lives: LIVES_DISABLED",
      "test: badge gone: UNKNOWN_BADGE",
      "test: there is no streak gone: its freezes are not given",
      "test: reward gone: UNKNOWN_REWARD",
    ]);
    assert.equal(pass.player.tags.length, 20);
  });

  it("that are empty leave no trace", () => {
    const pass = passIn({});
    give(pass, {});
    give(pass, { currencies: {}, badges: [], rewards: [], addTags: [] });
    assert.deepEqual([types(pass), pass.warnings], [[], []]);
  });

  it("inside one another end after five, whatever the definitions say", () => {
    // Definitions like these are refused when they are saved; here is what happens if they come about.
    const ring = chest({ xp: 1, rewards: [{ rewardKey: "chest", quantity: 2 }] });
    const pass = passIn({ reward: [ring] });
    give(pass, { rewards: [{ rewardKey: "chest" }] });
    assert.equal(pass.effects.ledger.length, 4);
    assert.match(pass.warnings.at(-1)!, /too many rewards inside one another/);
    const wide = chest({ xp: 1, rewards: Array.from({ length: 20 }, () => ({ rewardKey: "chest" })) });
    const many = passIn({ reward: [wide] });
    give(many, { rewards: [{ rewardKey: "chest" }] });
    assert.ok(many.effects.ledger.length < 1_000);
    assertLedger(many.effects.ledger, many.player);
  });

  it("end before they are a flood, however often badges and rewards multiply one another", () => {
    const badges = (name: string) => Array.from({ length: 20 }, (_, i) => ({ badgeKey: `${name}${i}` }));
    const badge = (name: string, rewards: Json): Json[] =>
      badges(name).map(({ badgeKey: key }) => ({
        key,
        name: key,
        repeatable: true,
        tiers: [{ tier: 1, rewards }],
      }));
    const inner = { ...chest({ badges: badges("c") }), key: "inner" };
    const flood = passIn({
      badge: [...badge("b", { rewards: [{ rewardKey: "inner", quantity: 100 }] }), ...badge("c", {})],
      reward: [chest({ badges: badges("b") }), inner],
    });
    give(flood, { rewards: [{ rewardKey: "chest", quantity: 100 }] });
    assert.ok(
      flood.effects.badgeAwards.length < 2 * PUBLISHED_MAX,
      `${flood.effects.badgeAwards.length} awards`,
    );
    assert.match(flood.warnings.at(-1)!, /too many rewards/);
  });

  it("given several times are the amounts that many times, within what a bundle can hold", () => {
    const bundle: RewardBundle = {
      xp: 2,
      currencies: { coins: Number.MAX_SAFE_INTEGER },
      lives: "FULL",
      badges: [{ badgeKey: "b" }],
      boosts: [{ boostKey: "x", applies: "xp", factor: 2, durationSeconds: 60, uses: 2 }],
      rewards: [{ rewardKey: "chest" }],
      addTags: ["a"],
    };
    assert.deepEqual(multiplyBundle(bundle, 3), {
      xp: 6,
      currencies: { coins: Number.MAX_SAFE_INTEGER },
      lives: "FULL",
      badges: [{ badgeKey: "b" }, { badgeKey: "b" }, { badgeKey: "b" }],
      boosts: [{ boostKey: "x", applies: "xp", factor: 2, durationSeconds: 180, uses: 6 }],
      rewards: [{ rewardKey: "chest", quantity: 3 }],
      addTags: ["a"],
    });
    assert.equal(multiplyBundle(bundle, 1), bundle);
    assert.equal(multiplyBundle(bundle, 1e6).badges!.length, 100);
  });
});

describe("a reward of the catalogue", () => {
  it("is given at once, told, and kept with what was in it", () => {
    const pass = passIn({ reward: [chest({ xp: 5 })] });
    const given = grant(pass, { quantity: 2 });
    assert.ok("grant" in given);
    assert.deepEqual(
      [given.grant.status, given.grant.contents, given.grant.expiresMs],
      ["GRANTED", { xp: 10 }, null],
    );
    assert.deepEqual(types(pass), ["player.reward_granted", "player.xp_granted"]);
    const [entry] = pass.effects.ledger;
    assert.deepEqual([entry!.key, entry!.amount, entry!.reason], ["g:xp", 10, "reward:chest"]);
    assert.deepEqual(entry!.cause, { kind: "REWARD", refKey: "chest", refId: given.grant.id });
  });

  it("that is to be claimed waits, as long as it says or as it was granted for", () => {
    const pass = passIn({ reward: [chest({ xp: 5 }, { claimSeconds: 60 })] });
    const first = grant(pass, { delivery: "CLAIM" });
    const second = grant(pass, { delivery: "CLAIM", key: "h", expiresInSeconds: 5 });
    assert.ok("grant" in first && "grant" in second);
    assert.deepEqual(
      [first, second].map(({ grant: { status, expiresMs } }) => [status, expiresMs! - pass.turn.nowMs]),
      [
        ["PENDING", 60_000],
        ["PENDING", 5_000],
      ],
    );
    assert.deepEqual(pass.effects.ledger, []);
  });

  it("that is a prize with codes waits for its code, one grant for each piece", () => {
    const pass = passIn({ reward: [prize("CODE")] });
    grant(pass, { quantity: 3 });
    assert.deepEqual(pluck(pass.effects.rewardGrants, "status", "quantity", "key"), [
      ["PENDING", 1, "g"],
      ["PENDING", 1, "g:1"],
      ["PENDING", 1, "g:2"],
    ]);
  });

  it("is refused outside of its time, beyond the player's limit, and when the stock is given", () => {
    assert.deepEqual(grant(passIn({})), { problem: "UNKNOWN_REWARD" });
    const early = passIn({ reward: [prize("EXTERNAL", { availableFrom: "2026-06-15T12:00:01Z" })] });
    assert.deepEqual(grant(early), { problem: "NOT_AVAILABLE" });
    const late = passIn({ reward: [prize("EXTERNAL", { availableUntil: "2026-06-15T12:00:00Z" })] });
    assert.deepEqual(grant(late), { problem: "NOT_AVAILABLE" });
    const limited = passIn({ reward: [prize("EXTERNAL", { perPlayerLimit: 3 })] });
    assert.ok("grant" in grant(limited, { quantity: 2 }));
    assert.deepEqual(grant(limited, { quantity: 2, key: "h" }), { problem: "LIMIT_REACHED" });
    assert.ok("grant" in grant(limited, { key: "h" }));
    const scarce = passIn({ reward: [prize("EXTERNAL", { stock: 3 })] });
    assert.ok("grant" in grant(scarce, { quantity: 2 }));
    assert.deepEqual(grant(scarce, { quantity: 2, key: "h" }), { problem: "OUT_OF_STOCK" });
    assert.equal(scarce.turn.shared.used(limitedKey(PROJECT, "reward", "chest")), 2);
  });

  it("that is undone with its rule gives stock and limit back", () => {
    const pass = passIn({ reward: [chest({ xp: 5 }, { stock: 3, perPlayerLimit: 1 })] });
    const restore = saveTurn(pass.turn);
    grant(pass);
    restore();
    assert.equal(pass.turn.shared.used(limitedKey(PROJECT, "reward", "chest")), 0);
    assert.deepEqual([pass.player.doc, pass.effects.rewardGrants, pass.player.xp], [{}, [], 0]);
    assert.ok("grant" in grant(pass));
  });

  it("called as an object's own property is counted like any other", () => {
    const pass = passIn({ reward: [prize("EXTERNAL", { key: "constructor", perPlayerLimit: 1 })] });
    assert.ok("grant" in grant(pass, { rewardKey: "constructor" }));
    assert.deepEqual(grant(pass, { rewardKey: "constructor", key: "h" }), { problem: "LIMIT_REACHED" });
  });

  it("is refused as a design that gives nothing, or is two things at once", () => {
    const refused = (reward: Json, path: string) =>
      assert.throws(
        () => aDefinition("reward", { key: "r", name: "R", ...reward }),
        (error: { issues: { path: unknown[] }[] }) => error.issues.some((one) => one.path.join(".") === path),
        path,
      );
    refused({ kind: "MYSTERY_BOX" }, "kind");
    refused({ kind: "BUNDLE" }, "bundle");
    refused({ kind: "BUNDLE", bundle: { currencies: {} } }, "bundle");
    refused({ kind: "BUNDLE", bundle: { xp: 1 }, fulfilment: "CODE" }, "fulfilment");
    refused({ kind: "PRIZE" }, "fulfilment");
    refused({ kind: "PRIZE", fulfilment: "CODE", bundle: { xp: 1 } }, "bundle");
  });
});
