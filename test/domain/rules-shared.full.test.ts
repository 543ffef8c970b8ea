import assert from "node:assert/strict";
import * as fc from "fast-check";
import { newId } from "../../src/domain/kernel/ids.ts";
import {
  createSharedCounters,
  type SharedCounters,
  type SharedKey,
} from "../../src/domain/evaluation/shared-counters.ts";
import { aProject, evaluate, fireAt, NOW } from "../support/rules/evaluation.ts";
import { aPlayerState } from "../support/rules/plan.ts";
import { cases } from "../support/properties.ts";

const DAY_MS = 86_400_000;

describe("limits over all players", () => {
  it("let a rule fire in each window of the project's zone up to the maximum", () => {
    const rule = { key: "r", limits: { global: [{ max: 2, window: "DAY" }] } };
    const plan = aProject({ timezone: "Asia/Tokyo", rules: [rule] });
    const midnight = Date.parse("2026-06-14T15:00:00Z");
    const before = midnight - 1;
    const done = fireAt(plan, [before, before, before, midnight, midnight, midnight, before]);
    assert.deepEqual(
      done.map(({ outcome }) => outcome.fired),
      [true, true, false, true, true, false, false],
    );
    const refused = done[2]!.outcome;
    assert.deepEqual(
      [refused.reason, refused.detail, refused.nextEligibleMs],
      ["LIMIT_REACHED", "2 DAY of all players", midnight],
    );
    assert.equal(done[5]!.outcome.nextEligibleMs, midnight + DAY_MS);
  });

  it("hold for every span of a rolling limit, also for late events", () => {
    const moment = fc.integer({ min: 0, max: 40 }).map((minutes) => NOW - minutes * 60_000);
    fc.assert(
      fc.property(fc.array(moment, { maxLength: 40 }), fc.integer({ min: 1, max: 6 }), (moments, max) => {
        const window = { rollingSeconds: 600 };
        const plan = aProject({ rules: [{ key: "r", limits: { global: [{ max, window }] } }] });
        const fired = fireAt(plan, moments).flatMap(({ at, outcome }) => (outcome.fired ? [at] : []));
        for (const start of fired) {
          const inSpan = fired.filter((at) => at >= start && at < start + 600_000);
          assert.ok(inSpan.length <= max, `${inSpan.length} of ${max}`);
        }
        if (moments.length > 0) assert.ok(fired.length > 0);
      }),
      { numRuns: cases(100) },
    );
  });

  it("share a counter where two have the same window, and the smaller one counts", () => {
    const global = [
      { max: 5, window: "LIFETIME" },
      { max: 3, window: "LIFETIME" },
    ];
    const done = fireAt(aProject({ rules: [{ key: "r", limits: { global } }] }), Array<number>(6).fill(NOW));
    assert.equal(done.filter(({ outcome }) => outcome.fired).length, 3);
  });
});

describe("counters that are not there", () => {
  const on = (...eventTypes: string[]) => [{ kind: "EVENT", eventTypes }];
  it("are asked for until there are no more, and then all is as if all had been there", () => {
    const types = ["a", "b", "player.xp_granted", "player.level_up", "player.badge_earned", "player.updated"];
    const more = [
      "player.currency_granted",
      "player.segment_entered",
      "player.streak_extended",
      "player.created",
    ];
    const action = fc.oneof(
      fc.constant({ type: "grant_xp", amount: 120 }),
      fc.constant({ type: "adjust_currency", currencyKey: "coins", amount: 1 }),
      fc.constant({ type: "update_badge", badgeKey: "rare", operation: "AWARD" }),
      fc.constant({ type: "update_badge", badgeKey: "steps", operation: "REVOKE" }),
      fc.constant({ type: "grant_reward", rewardKey: "pack" }),
      fc.constant({ type: "update_player", addTags: ["x"] }),
      fc.constant({
        type: "apply_boost",
        boostKey: "b",
        applies: "xp",
        factor: 2,
        durationSeconds: 60,
        uses: 1,
      }),
      fc.constantFrom("a", "b").map((eventType) => ({ type: "emit_event", eventType, channels: ["rules"] })),
      fc.constant({ type: "grant_reward", rewardKey: "mug", delaySeconds: 5 }),
    );
    const limits = fc.constantFrom<unknown>(
      undefined,
      { global: [{ max: 9, window: "DAY" }] },
      { global: [{ max: 9, window: { rollingSeconds: 60 } }] },
      { budgets: [{ asset: "xp", max: 500, window: "MONTH" }] },
    );
    const rule = fc.record({
      triggers: fc.subarray([...types, ...more], { minLength: 1, maxLength: 2 }).map((heard) => on(...heard)),
      actions: fc.array(action, { minLength: 1, maxLength: 3 }),
      limits,
    });
    const count = { metric: { eventTypes: ["a", "player.xp_granted"], aggregate: "count" } };
    const define = {
      currency: [{ key: "coins", name: "Coins" }],
      badge: [
        { key: "rare", name: "Rare", maxAwards: 5 },
        {
          key: "steps",
          name: "Steps",
          progressMetric: { ...count.metric, window: { type: "LIFETIME" } },
          tiers: [{ tier: 1, name: "One", threshold: 1, rewards: { rewards: [{ rewardKey: "mug" }] } }],
        },
      ],
      reward: [
        { key: "mug", name: "Mug", kind: "PRIZE", fulfilment: "EXTERNAL", stock: 5 },
        { key: "pack", name: "Pack", kind: "BUNDLE", bundle: { xp: 50, badges: [{ badgeKey: "rare" }] } },
      ],
      level: [{ key: "3", name: "Three", rewards: { rewards: [{ rewardKey: "mug" }] } }],
      segment: [
        {
          key: "rich",
          name: "Rich",
          kind: "DYNAMIC",
          definition: { all: [{ type: "player_property", field: "xp", op: "gte", value: 100 }] },
        },
      ],
      streak: [
        {
          key: "daily",
          name: "Daily",
          qualify: { mode: "ANY", parts: [{ metric: count.metric, threshold: 1 }] },
          milestones: [{ length: 1, rewards: { badges: [{ badgeKey: "rare" }] } }],
        },
      ],
    };
    const kinds = fc.subarray(Object.keys(define) as (keyof typeof define)[]);
    let asked = 0;
    fc.assert(
      fc.property(
        fc.array(rule, { maxLength: 5 }),
        kinds,
        fc.constantFrom("a", "b"),
        (rules, chosen, type) => {
          const defined = Object.fromEntries(chosen.map((kind) => [kind, define[kind]]));
          const plan = aProject({
            define: defined,
            rules: rules.map((one, i) => ({ ...one, key: `r${i}` })),
          });
          const id = newId();
          const told = (shared: SharedCounters) => {
            const done = evaluate(plan, { type, player: aPlayerState(), shared, id });
            return { reasons: done.reasons, types: done.types, changes: shared.changes() };
          };
          const used = (key: SharedKey) => ({ key, state: { used: 4, times: null } });
          const whole = createSharedCounters("FROM_ZERO");
          let keys: SharedKey[] = [];
          for (let isMore = true; isMore;) {
            const some = createSharedCounters("ASKED", keys.map(used));
            told(some);
            isMore = some.asked().length > 0;
            keys = [...keys, ...some.asked()];
          }
          asked += keys.length;
          whole.load(keys.map(used));
          assert.deepEqual(told(createSharedCounters("REFUSED", keys.map(used))), told(whole));
        },
      ),
      { numRuns: cases(400) },
    );
    assert.ok(asked > 10, `${asked} counters were asked for`);
  });
});
