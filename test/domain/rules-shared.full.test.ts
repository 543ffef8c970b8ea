import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import type { PlayerState } from "../../src/domain/evaluation/player-state.ts";
import { createSharedCounters, type SharedKey } from "../../src/domain/evaluation/shared-counters.ts";
import { atOnce } from "../../src/domain/kernel/slices.ts";
import { sharedKeysOf } from "../../src/domain/evaluation/project-plan.ts";
import { aProject, evaluate, fireAt, NOW } from "../support/rules/evaluation.ts";
import { aPlayerState } from "../support/rules/plan.ts";
import { cases } from "../support/properties.ts";

const DAY_MS = 86_400_000;

/** Counters of which only `keys` were locked: asking for another one throws. */
const locked = (keys: readonly SharedKey[]) =>
  createSharedCounters(
    new Map(
      keys.map((key) => [
        `${key.projectId}\0${key.windowNo}\0${key.scope}`,
        { key, state: { used: 0, times: null } },
      ]),
    ),
  );

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

describe("the counters that a batch locks", () => {
  const keysOf = (plan: ReturnType<typeof aProject>, ...types: string[]): string[] =>
    atOnce(
      sharedKeysOf(
        plan,
        types.map((type) => ({ type, at: NOW })),
      ),
    ).map(({ scope }) => scope);
  const on = (...eventTypes: string[]) => [{ kind: "EVENT", eventTypes }];
  const limited = { limits: { global: [{ max: 9, window: "DAY" }] } };
  it("are none where players share nothing, and none of rules that cannot run", () => {
    assert.deepEqual(keysOf(aProject({ rules: [{ key: "a" }] }), "tried", "system.change"), []);
    const plan = aProject({ rules: [{ key: "a", triggers: on("other"), ...limited }, { key: "b" }] });
    assert.deepEqual(keysOf(plan, "tried"), []);
    assert.equal(keysOf(plan, "other").length, 1);
  });

  it("include those of rules that hear of it over several steps, and of what they give", () => {
    const badge = {
      key: "rare",
      name: "Rare",
      maxAwards: 5,
      tiers: [{ tier: 1, name: "One", rewards: { rewards: [{ rewardKey: "mug" }] } }],
    };
    const plan = aProject({
      define: {
        badge: [badge],
        reward: [{ key: "mug", name: "Mug", kind: "PRIZE", fulfilment: "EXTERNAL", stock: 5 }],
      },
      rules: [
        { key: "a", actions: [{ type: "emit_event", eventType: "mine", channels: ["rules"] }] },
        { key: "b", triggers: on("mine"), actions: [{ type: "grant_xp", amount: 1 }], ...limited },
        {
          key: "c",
          triggers: on("player.xp_granted"),
          actions: [{ type: "update_badge", badgeKey: "rare", operation: "AWARD" }],
        },
      ],
    });
    const found = keysOf(plan, "tried").map((scope) => scope.replace(/:[0-9a-f-]{36}/, ""));
    assert.deepEqual(found.toSorted(), ["badge:rare", "reward:mug", "rule:g:DAY"]);
    assert.deepEqual(keysOf(plan, "unheard"), []);
    const definition = { all: [{ type: "player_property", field: "xp", op: "gte", value: 9 }] };
    const entering = aProject({
      define: { segment: [{ key: "rich", name: "Rich", kind: "DYNAMIC", definition }] },
      rules: [{ key: "a" }, { key: "b", triggers: on("player.segment_entered"), ...limited }],
    });
    assert.equal(keysOf(entering, "tried").length, 1, "any event may change segments");
    const welcome = aProject({ rules: [{ key: "w", triggers: on("player.created"), ...limited }] });
    assert.equal(keysOf(welcome, "unheard").length, 1, "any event may make its player");
    assert.equal(keysOf(plan, "system.change").length, 2, "a change by REST may give XP");
  });

  it("are never too few, whatever rules, definitions and events there are", () => {
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
          const send = (player: PlayerState, options: { type: string; properties?: Json }) => {
            const keys = atOnce(sharedKeysOf(plan, [{ type: options.type, at: NOW }]));
            const done = evaluate(plan, { ...options, player, shared: locked(keys), id: newId() });
            asked += done.turn.shared.changes().length;
            return done.effects.spawned;
          };
          for (const spawned of send(aPlayerState(), { type })) {
            send(aPlayerState(), { type: spawned.eventType, properties: spawned.properties });
          }
        },
      ),
      { numRuns: cases(400) },
    );
    assert.ok(asked > 10, `${asked} counters were asked for`);
  });
});
