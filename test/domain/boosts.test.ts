import assert from "node:assert/strict";
import {
  boostOf,
  BOOSTS_MAX,
  endDueBoosts,
  type NewBoost,
  startBoost,
  useBoosts,
} from "../../src/domain/evaluation/boosts/boosts.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { adjustCurrency } from "../../src/domain/evaluation/currencies/adjust.ts";
import { DEFAULT_SETTINGS, type ProjectSettings } from "../../src/domain/evaluation/project-settings.ts";
import { grantXp } from "../../src/domain/evaluation/xp/xp.ts";
import { assertLedger } from "../support/economy/economy.ts";
import { aPass, aPlan, aPlayerState, type PlanParts } from "../support/rules/plan.ts";
import { pluck } from "../support/pluck.ts";

const NOON = Date.parse("2026-06-15T12:00:00Z");
const HOUR_MS = 3_600_000;
const cause = { kind: "API" } as const;
const campaign = (more: Json = {}): Json => ({
  key: "summer",
  name: "Summer",
  applies: "xp",
  factor: 2,
  startsAt: "2026-06-15T00:00:00Z",
  expiresAt: "2026-06-16T00:00:00Z",
  ...more,
});

const aBooster = (parts: PlanParts = {}) => {
  const plan = aPlan(parts);
  const player = aPlayerState();
  const { effects } = aPass();
  const at = (ms = NOON, nowMs = ms) => aPass({ plan, player, effects, event: { at: ms }, nowMs }).turn;
  const start = (boost: Partial<NewBoost> = {}, ms = NOON) =>
    startBoost(at(ms), {
      boostKey: "rush",
      applies: "xp",
      factor: 2,
      durationSeconds: 3_600,
      stacking: "MAX",
      cause,
      ...boost,
    });
  let count = 0;
  return {
    player,
    effects,
    at,
    start,
    factor: (ms = NOON, applies = "xp") => boostOf(at(ms), applies).factor,
    grant: (amount: number, { isBoostable = true, ms = NOON } = {}) =>
      grantXp(at(ms), { amount, cause, key: `k${++count}`, reason: "test", boostable: isBoostable })?.amount,
    told: () => effects.outbox.map(({ type, data }) => [type, (data as Json)["by"]] as const),
    xpTold: () =>
      effects.outbox
        .map(({ data }) => data as Json)
        .filter((data) => "boostFactor" in data)
        .map(({ amount, baseAmount, boostFactor }) => [amount, baseAmount, boostFactor]),
  };
};

describe("boosts", () => {
  it("multiply what they apply to, from their start until their end", () => {
    const { start, factor } = aBooster();
    start();
    start({ applies: "currency:coins", factor: 3 });
    assert.deepEqual(
      [NOON - 1, NOON, NOON + HOUR_MS - 1].map((ms) => factor(ms)),
      [1, 2, 2],
    );
    assert.deepEqual(
      ["currency:coins", "currency:gold", "score:weekly"].map((applies) => factor(NOON, applies)),
      [3, 1, 1],
    );
    assert.equal(factor(NOON + HOUR_MS), 1);
  });

  it("of one key count by their stacking, and of several keys together", () => {
    const { start, factor } = aBooster();
    start({ factor: 2 });
    start({ factor: 1.5 });
    assert.equal(factor(), 2, "MAX: the highest");
    start({ stacking: "MULTIPLY", factor: 1.5 });
    assert.equal(factor(), 3);
    start({ boostKey: "event", factor: 0.5 });
    assert.equal(factor(), 1.5);
    start({ stacking: "REPLACE", factor: 1.1 });
    assert.equal(factor(), 0.55);
  });

  it("give no more together than the project allows", () => {
    const { start, factor } = aBooster({ settings: { maxBoostFactor: 4 } });
    start({ stacking: "MULTIPLY", factor: 3 });
    start({ stacking: "MULTIPLY", factor: 3 });
    assert.equal(factor(), 4);
  });

  it("that extend add their time, and their uses, to the one that runs", () => {
    const { start, player, effects } = aBooster();
    const first = start({ stacking: "EXTEND", uses: 2 }).boost!;
    const second = start({ stacking: "EXTEND", uses: 3, factor: 9 }, NOON + HOUR_MS / 2).boost!;
    assert.equal(second.id, first.id);
    assert.deepEqual([...player.boosts.values()], [{ ...first, expiresMs: NOON + 2 * HOUR_MS, usesLeft: 5 }]);
    assert.equal(effects.outbox.length, 2, "each is told");
    for (let i = 0; i < 20_000; i++) start({ stacking: "EXTEND" });
    assert.equal([...player.boosts.values()][0]!.expiresMs, NOON + 365 * 24 * HOUR_MS);
  });

  it("that are replaced, used up or over are told as ended, once", () => {
    const { start, at, told, player } = aBooster();
    start();
    start({ stacking: "REPLACE", uses: 2 });
    assert.equal(useBoosts(at(), "xp"), 2);
    assert.equal(useBoosts(at(), "xp"), 2);
    assert.equal(useBoosts(at(), "xp"), 1);
    start();
    endDueBoosts(at(NOON + HOUR_MS));
    endDueBoosts(at(NOON + HOUR_MS));
    assert.equal(player.boosts.size, 0);
    assert.deepEqual(told(), [
      ["player.boost_started", undefined],
      ["player.boost_ended", "REPLACED"],
      ["player.boost_started", undefined],
      ["player.boost_ended", "USED_UP"],
      ["player.boost_started", undefined],
      ["player.boost_ended", "EXPIRED"],
    ]);
  });

  it("lose a use only where they count, and only by gains", () => {
    const { start, player, grant } = aBooster();
    start({ factor: 3, uses: 5 });
    start({ factor: 2, uses: 5 });
    grant(10);
    grant(10, { isBoostable: false });
    grant(-5);
    assert.deepEqual(pluck([...player.boosts.values()], "usesLeft"), [4, 5]);
  });

  it("of one key and factor lose their uses in the order of their ends, however they are loaded", () => {
    for (const hours of [
      [1, 2],
      [2, 1],
    ]) {
      const { start, player, grant } = aBooster();
      for (const each of hours) start({ uses: 5, durationSeconds: each * 3_600 });
      grant(10);
      const ends = [...player.boosts.values()].map(({ expiresMs, usesLeft }) => [expiresMs - NOON, usesLeft]);
      assert.deepEqual(
        ends.toSorted(([a], [b]) => a! - b!),
        [
          [HOUR_MS, 4],
          [2 * HOUR_MS, 5],
        ],
      );
    }
  });

  it("of one player have a limit", () => {
    const { start, player } = aBooster();
    for (let i = 0; i < BOOSTS_MAX; i++) assert.ok(start().boost);
    assert.deepEqual(start(), { problem: "BOOST_LIMIT" });
    assert.equal(player.boosts.size, BOOSTS_MAX);
    assert.ok(start({}, NOON + HOUR_MS).boost, "those that are over leave room");
  });

  it("of a campaign are for all players or those of a segment, while it lasts", () => {
    const vip = campaign({ key: "vip", factor: 1.5, segmentKey: "vips" });
    const { factor, player, start } = aBooster({ define: { boost: [campaign(), vip] } });
    const day = Date.parse("2026-06-15T00:00:00Z");
    assert.deepEqual(
      [day - 1, day, day + 24 * HOUR_MS].map((ms) => factor(ms)),
      [1, 2, 1],
    );
    player.segments.set("vips", day);
    assert.equal(factor(), 3);
    start({ boostKey: "summer", factor: 4 });
    assert.equal(factor(), 6, "the player's own of the same key counts instead");
  });
});

describe("XP", () => {
  it("that may be boosted is multiplied and rounded; other XP is exact", () => {
    const { start, grant, xpTold, effects, player } = aBooster();
    start({ factor: 1.15 });
    assert.deepEqual([grant(100), grant(1), grant(10, { isBoostable: false })], [115, 1, 10]);
    assert.deepEqual(xpTold(), [
      [115, 100, 1.15],
      [1, 1, 1.15],
      [10, 10, 1],
    ]);
    assertLedger(effects.ledger, player);
  });

  const capped = (factorAbove: number, more: Partial<ProjectSettings> = {}): PlanParts => ({
    settings: { xpDailySoftCap: { xp: 100, factorAbove }, ...more },
  });

  it("beyond the daily cap counts less, told as the factor", () => {
    const { grant, xpTold } = aBooster(capped(0.5));
    assert.deepEqual([grant(80), grant(40), grant(10)], [80, 30, 5]);
    assert.deepEqual(
      xpTold().map(([, , factor]) => factor),
      [1, 0.75, 0.5],
    );
    assert.equal(grant(10, { isBoostable: false }), 10, "what is exact knows no cap");
  });

  it("of many small gains is that of one large one, whatever is rounded on the way", () => {
    const [small, large] = [aBooster(capped(0.3)), aBooster(capped(0.3))];
    for (let i = 0; i < 200; i++) small.grant(1);
    large.grant(200);
    assert.deepEqual([small.player.xp, large.player.xp], [130, 130]);
    const none = aBooster(capped(0));
    none.grant(500);
    assert.equal(none.grant(1), undefined);
    assert.equal(none.player.xp, 100);
  });

  it("has a cap for each day of the player's zone, in which late events count too", () => {
    const { grant, player } = aBooster(capped(0));
    player.timezone = "Pacific/Auckland";
    const midnight = Date.parse("2026-06-15T12:00:00Z");
    assert.equal(grant(100, { ms: midnight - 1 }), 100);
    assert.equal(grant(60, { ms: midnight }), 60, "the next day");
    assert.equal(grant(60, { ms: midnight - 1 }), 40, "a late one, in the day that is kept");
    assert.equal(grant(60, { ms: midnight + 24 * HOUR_MS }), 60);
  });

  it("is capped after it is boosted", () => {
    const { start, grant, xpTold } = aBooster(capped(0.5));
    start({ factor: 3 });
    assert.equal(grant(50), 125);
    assert.deepEqual(xpTold(), [[125, 50, 2.5]]);
  });
});

describe("without boosts and caps", () => {
  it("nothing is kept of a player's day", () => {
    const { grant, player } = aBooster({ define: { currency: [{ key: "coins", name: "Coins" }] } });
    grant(5);
    assert.equal(player.doc.x, undefined);
    assert.equal(player.dirty.doc, false);
    assert.equal(DEFAULT_SETTINGS.xpDailySoftCap, null);
    assert.equal(
      adjustCurrency(aPass().turn, { currencyKey: "x", amount: 1, cause, key: "k", reason: "t" }).problem,
      "UNKNOWN_CURRENCY",
    );
  });
});
