import assert from "node:assert/strict";
import fc from "fast-check";
import {
  awardBadge,
  followMetrics,
  progressBadge,
  revokeBadge,
} from "../../src/domain/evaluation/badges/award.ts";
import { countEvent } from "../../src/domain/evaluation/metrics/count.ts";
import { createSharedCounters } from "../../src/domain/evaluation/shared-counters.ts";
import { limitedKey } from "../../src/domain/evaluation/rewards/shared-keys.ts";
import { reverseBadges } from "../../src/domain/revert/reverse.ts";
import { newReversal } from "../../src/domain/revert/record.ts";
import { assertLedger } from "../support/economy/economy.ts";
import { aPass, aPlan, aPlayerState, PROJECT } from "../support/rules/plan.ts";
import { cases } from "../support/properties.ts";
import { pluck } from "../support/pluck.ts";

const cause = { kind: "API" } as const;
const tiers = (...thresholds: (number | undefined)[]) =>
  thresholds.map((threshold, i) => ({
    tier: i + 1,
    ...(threshold === undefined ? {} : { threshold }),
    rewards: { xp: 10 * (i + 1) },
  }));

/** A pass over a player of a project with one badge, `b`. */
const withBadge = (badge: object, more: Parameters<typeof aPass>[0] = {}) => {
  const plan = aPlan({ define: { badge: [{ key: "b", name: "B", ...badge }] } });
  return aPass({ plan, ...more });
};

type Pass = ReturnType<typeof aPass>;
const earned = ({ effects }: Pass) =>
  effects.outbox
    .filter(({ type }) => type === "player.badge_earned")
    .map(({ data }) => {
      const { tier, previousTier, timesAwarded, serialNo } = data as Record<string, number>;
      return [tier, previousTier, timesAwarded, serialNo];
    });
const award = ({ turn }: Pass, tier?: number) => awardBadge(turn, { badgeKey: "b", tier, cause, key: "k" });
const progress = ({ turn }: Pass, amount: number) =>
  progressBadge(turn, { badgeKey: "b", amount, cause, key: "p" });

describe("badges", () => {
  it("are awarded with one event, one line of the log and the rewards of each tier reached", () => {
    const pass = withBadge({ tiers: tiers(1, 2, 3), rarity: "EPIC" });
    assert.equal(award(pass, 2), undefined);
    assert.deepEqual(earned(pass), [
      [1, 0, 1, null],
      [2, 1, 1, null],
    ]);
    const { player, effects } = pass;
    assert.deepEqual(pluck(effects.badgeAwards, "tier", "action", "key"), [
      [1, "AWARDED", "k:1:1"],
      [2, "AWARDED", "k:1:2"],
    ]);
    assert.deepEqual(pluck(effects.ledger, "key", "amount", "reason"), [
      ["bdg:b:1:1:xp", 10, "badge:b"],
      ["bdg:b:1:2:xp", 20, "badge:b"],
    ]);
    assert.equal(player.badges.get("b")!.tier, 2);
    assert.ok(player.dirty.badges.has("b"));
  });

  it("that are held stay as they are, and never fall", () => {
    const pass = withBadge({ tiers: tiers(1, 2, 3) });
    award(pass, 3);
    const before = pass.effects.outbox.length;
    assert.equal(award(pass, 1), undefined);
    assert.equal(award(pass, 3), undefined);
    assert.equal(pass.effects.outbox.length, before);
    assert.equal(pass.player.badges.get("b")!.tier, 3);
  });

  it("are held since what happened first, in whatever order events come", () => {
    const awards = fc
      .uniqueArray(fc.nat(1_000), { minLength: 1, maxLength: 8 })
      .chain((times) =>
        fc.tuple(...times.map((at) => fc.tuple(fc.constant(at), fc.integer({ min: 1, max: 3 })))),
      );
    fc.assert(
      fc.property(awards, fc.boolean(), (given, repeatable) => {
        const badge = { tiers: tiers(...(repeatable ? [1] : [1, 2, 3])), repeatable };
        const held = (of: [number, number][]) => {
          const { player } = withBadge(badge);
          for (const [at, tier] of of)
            award(withBadge(badge, { player, event: { at } }), repeatable ? 1 : tier);
          const { tier, firstEarnedMs, lastEarnedMs } = player.badges.get("b")!;
          return { tier, firstEarnedMs, lastEarnedMs };
        };
        assert.deepEqual(held(given), held(given.toSorted(([a], [b]) => a - b)));
      }),
      { numRuns: cases(100) },
    );
  });

  it("that are unknown, have no such tier or are not available now say so and change nothing", () => {
    const pass = withBadge({ availableFrom: "2026-06-15T12:00:01Z" });
    assert.equal(award(pass), "NOT_AVAILABLE");
    const over = withBadge({ availableUntil: "2026-06-15T12:00:00Z" });
    assert.equal(award(over), "NOT_AVAILABLE");
    const none = withBadge({});
    assert.equal(award(none, 2), "UNKNOWN_TIER");
    assert.equal(awardBadge(none.turn, { badgeKey: "x", cause, key: "k" }), "UNKNOWN_BADGE");
    assert.equal(progressBadge(none.turn, { badgeKey: "x", amount: 1, cause, key: "k" }), "UNKNOWN_BADGE");
    assert.equal(revokeBadge(none.turn, { badgeKey: "x", cause }), "UNKNOWN_BADGE");
    assert.equal(revokeBadge(none.turn, { badgeKey: "b", cause }), "NOT_HELD");
    for (const { effects, player } of [pass, over, none]) {
      assert.deepEqual([effects.outbox, effects.badgeAwards, [...player.dirty.badges]], [[], [], []]);
    }
  });

  it("come by progress, several tiers at once with one event each", () => {
    const pass = withBadge({ tiers: tiers(10, 20, 30) });
    progress(pass, 9.5);
    assert.deepEqual(earned(pass), []);
    progress(pass, 15);
    assert.deepEqual(earned(pass), [
      [1, 0, 1, null],
      [2, 1, 1, null],
    ]);
    progress(pass, -100);
    assert.deepEqual(pass.player.badges.get("b")!.progress, 0);
    assert.equal(pass.player.badges.get("b")!.tier, 2, "progress that falls takes nothing away");
  });

  it("with a tier that has no threshold give it by hand, or on the way to a higher one", () => {
    const pass = withBadge({ tiers: tiers(undefined, 5) });
    progress(pass, 4);
    assert.deepEqual(earned(pass), []);
    progress(pass, 1);
    assert.deepEqual(
      earned(pass).map(([tier]) => tier),
      [1, 2],
    );
  });

  it("that are repeatable are awarded again with their rewards, each under a key of its own", () => {
    const pass = withBadge({ repeatable: true, tiers: tiers(10, 20) });
    award(pass);
    award(pass);
    award(pass, 2);
    award(pass);
    assert.deepEqual(earned(pass), [
      [1, 0, 1, null],
      [1, 1, 2, null],
      [2, 1, 2, null],
      [1, 2, 3, null],
    ]);
    assert.equal(pass.player.badges.get("b")!.tier, 2);
    assertLedger(pass.effects.ledger, pass.player);
    assert.equal(pass.player.xp, 10 + 10 + 20 + 10);
  });

  it("that are repeatable are awarded at each multiple of their last threshold", () => {
    const pass = withBadge({ repeatable: true, tiers: tiers(10) });
    progress(pass, 35);
    assert.equal(pass.player.badges.get("b")!.timesAwarded, 3);
    progress(pass, 4);
    assert.equal(pass.player.badges.get("b")!.timesAwarded, 3);
    progress(pass, 1);
    assert.equal(pass.player.badges.get("b")!.timesAwarded, 4);
    progress(pass, 1e12);
    assert.equal(pass.player.badges.get("b")!.timesAwarded, 104, "100 at once; the rest comes later");
  });

  it("that are repeatable come by progress as often, whatever was given by hand or taken away between", () => {
    const pass = withBadge({ tiers: tiers(3), repeatable: true });
    const times = () => pass.player.badges.get("b")?.timesAwarded ?? 0;
    const step = () => {
      const before = times();
      progress(pass, 1);
      return times() - before;
    };
    award(pass);
    assert.deepEqual([step(), step(), step(), step()], [0, 0, 1, 0]);
    award(pass);
    assert.deepEqual([step(), step()], [0, 1]);
    revokeBadge(pass.turn, { badgeKey: "b", cause });
    assert.deepEqual([step(), step(), step(), step(), step(), step()], [0, 0, 1, 0, 0, 1]);
    assert.equal(times(), 6);
  });

  it("with several tiers that were begun by hand are completed by progress once", () => {
    const pass = withBadge({ tiers: tiers(1, 3), repeatable: true });
    award(pass, 1);
    progress(pass, 3);
    assert.equal(pass.player.badges.get("b")?.timesAwarded, 1);
    progress(pass, 3);
    assert.equal(pass.player.badges.get("b")?.timesAwarded, 2);
  });

  it("of a limited edition get serial numbers in order until they are sold out", () => {
    const plan = aPlan({ define: { badge: [{ key: "b", name: "B", maxAwards: 2, tiers: tiers(1, 2) }] } });
    const shared = createSharedCounters("FROM_ZERO");
    const passes = [1, 2, 3].map(() => {
      const pass = aPass({ plan });
      return { ...pass, turn: { ...pass.turn, shared } };
    });
    assert.deepEqual(
      passes.map((pass) => award(pass)),
      [undefined, undefined, "SOLD_OUT"],
    );
    assert.deepEqual(
      passes.map(({ player }) => player.badges.get("b")?.serialNo),
      [1, 2, undefined],
    );
    assert.equal(award(passes[0]!, 2), undefined, "a holder's next tier takes no award");
    assert.deepEqual(earned(passes[0]!).at(-1), [2, 1, 1, 1]);
    assert.equal(shared.used(limitedKey(PROJECT, "badge", "b")), 2);
  });

  it("that are taken away go with tiers and progress, and can be earned anew, with their rewards", () => {
    const pass = withBadge({ tiers: tiers(10, 20) });
    progress(pass, 25);
    assert.equal(revokeBadge(pass.turn, { badgeKey: "b", cause }), undefined);
    const { tier, progress: left, revokedMs } = pass.player.badges.get("b")!;
    assert.deepEqual([tier, left, revokedMs], [0, 0, pass.turn.event.at]);
    const revoked = pass.effects.outbox.at(-1)!;
    assert.equal(revoked.type, "player.badge_revoked");
    assert.equal((revoked.data as { tier: number }).tier, 2);
    assert.equal(revokeBadge(pass.turn, { badgeKey: "b", cause }), "NOT_HELD");
    progress(pass, 10);
    assert.deepEqual(earned(pass).at(-1), [1, 0, 2, null]);
    assert.equal(pass.player.badges.get("b")!.revokedMs, null);
    assertLedger(pass.effects.ledger, pass.player);
  });

  it("whose tier was lowered by a reversal pay it again under another key", () => {
    const pass = withBadge({ tiers: tiers(10, 20) });
    progress(pass, 25);
    const { player, turn } = pass;
    reverseBadges(
      turn,
      [1, 2].map((tier) => ({
        eventId: null,
        badgeKey: "b",
        tier,
        action: "AWARDED" as const,
        serialNo: null,
        key: `p:1:${tier}`,
        isByCounter: false,
        isReversal: false,
        ...(tier === 2 ? { isOfEvent: true, others: 0 } : { isOfEvent: false, others: 1 }),
      })),
      { followed: new Map(), reversal: newReversal(turn.event, { reason: "test", actor: "test" }) },
    );
    assert.deepEqual([player.badges.get("b")!.tier, player.badges.get("b")!.timesAwarded], [1, 1]);
    award(pass, 2);
    assert.equal(pass.effects.ledger.at(-1)!.key, "bdg:b:1:2~1:xp");
    assertLedger(pass.effects.ledger, player);
  });

  describe("that follow a metric", () => {
    const followed = { progressMetric: { eventTypes: ["tried"], aggregate: "sum", property: "n" } };
    const track = (pass: Pass, n: number, type = "tried") => {
      const turn = { ...pass.turn, event: { ...pass.turn.event, type, properties: { n } } };
      countEvent(turn);
      followMetrics(turn);
    };

    it("have its value as their progress, and come by it", () => {
      const pass = withBadge({ ...followed, tiers: tiers(10, 20) });
      track(pass, 9);
      assert.equal(pass.player.badges.get("b")!.progress, 9);
      track(pass, 100, "other");
      assert.equal(pass.player.badges.get("b")!.progress, 9);
      track(pass, 11);
      assert.deepEqual(
        earned(pass).map(([tier]) => tier),
        [1, 2],
      );
    });

    it("cannot be progressed by hand", () => {
      assert.equal(progress(withBadge({ ...followed, tiers: tiers(10) }), 1), "FOLLOWS_METRIC");
    });

    it("do not come back by themselves when they were taken away, but do after a reversal", () => {
      for (const [kind, expected] of [
        ["API", 0],
        ["REVERSAL", 1],
      ] as const) {
        const pass = withBadge({ ...followed, tiers: tiers(10) });
        track(pass, 10);
        revokeBadge(pass.turn, { badgeKey: "b", cause: { kind } });
        track(pass, 1);
        assert.equal(pass.player.badges.get("b")!.tier, expected, kind);
      }
    });

    it("are left alone for players who are not ACTIVE and outside of their time", () => {
      const banned = withBadge(
        { ...followed, tiers: tiers(1) },
        { player: aPlayerState({ status: "BANNED" }) },
      );
      const late = withBadge({ ...followed, tiers: tiers(1), availableUntil: "2026-01-01T00:00:00Z" });
      for (const pass of [banned, late]) {
        track(pass, 5);
        assert.equal(pass.player.badges.size, 0);
      }
    });
  });

  it("only rise, are logged under one name once, and pay each tier once for each award", () => {
    const Step = fc.oneof(
      fc.record({ op: fc.constant("award" as const), tier: fc.integer({ min: 1, max: 4 }) }),
      fc.record({ op: fc.constant("progress" as const), amount: fc.integer({ min: -20, max: 40 }) }),
      fc.record({ op: fc.constant("revoke" as const) }),
    );
    const Badge = fc.record({
      thresholds: fc.uniqueArray(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 4 }),
      repeatable: fc.boolean(),
      maxAwards: fc.option(fc.integer({ min: 1, max: 5 }), { nil: undefined }),
    });
    fc.assert(
      fc.property(Badge, fc.array(Step, { maxLength: 30 }), ({ thresholds, ...badge }, steps) => {
        const pass = withBadge({ ...badge, tiers: tiers(...thresholds.toSorted((a, b) => a - b)) });
        steps.forEach((step, i) => {
          const before = pass.player.badges.get("b")?.tier ?? 0;
          if (step.op === "revoke") revokeBadge(pass.turn, { badgeKey: "b", cause });
          if (step.op === "award")
            awardBadge(pass.turn, { badgeKey: "b", tier: step.tier, cause, key: `a${i}` });
          if (step.op === "progress")
            progressBadge(pass.turn, { badgeKey: "b", amount: step.amount, cause, key: `p${i}` });
          if (step.op !== "revoke") assert.ok((pass.player.badges.get("b")?.tier ?? 0) >= before);
        });
        const { badgeAwards, ledger } = pass.effects;
        assert.equal(new Set(badgeAwards.map(({ key }) => key)).size, badgeAwards.length);
        assertLedger(ledger, pass.player);
        const awarded = badgeAwards.filter(({ action }) => action === "AWARDED");
        assert.equal(awarded.length, ledger.length);
        const serials = [...new Set(awarded.map(({ serialNo }) => serialNo).filter(Boolean))];
        if (badge.maxAwards !== undefined) {
          assert.deepEqual(
            serials,
            serials.map((_, n) => n + 1),
          );
          assert.ok(serials.length <= badge.maxAwards);
        }
      }),
      { numRuns: cases(300) },
    );
  });
});
