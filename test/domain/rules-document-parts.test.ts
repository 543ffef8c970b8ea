import assert from "node:assert/strict";
import { RuleDocument } from "../../src/domain/evaluation/language/document.ts";

const problemsOf = (document: unknown): string[] =>
  (RuleDocument.safeParse(document).error?.issues ?? []).map(
    ({ path, message }) => `${path.join(".")}: ${message}`,
  );

const base = {
  key: "r",
  name: "Rule",
  triggers: [{ kind: "EVENT", eventTypes: ["a"] }],
  actions: [{ type: "grant_xp", amount: 1 }] as unknown[],
};

describe("parts of rule documents", () => {
  it("take schedules of five fields that leave a quarter of an hour between two runs", () => {
    const at = (cron: string, more: object = {}) => ({
      ...base,
      triggers: [{ kind: "SCHEDULE", cron, ...more }],
    });
    const accepted = ["*/15 * * * *", "0 9 * * MON-FRI", "5,55 0,2 * * *", "0 0 L * *", "0 0 29 2 *"];
    for (const cron of accepted) assert.deepEqual(problemsOf(at(cron)), [], cron);
    assert.deepEqual(problemsOf(at("0 9 * * *", { timezone: "Europe/Berlin", segmentKey: "vip" })), []);
    const tooOften = ["* * * * *", "*/14 * * * *", "5,59 * * * *", "5,59 0,23 * * *"];
    for (const cron of tooOften)
      assert.match(problemsOf(at(cron))[0]!, /triggers\.0\.cron: .*15 minutes/, cron);
    const malformed = ["@daily", "0 0 * * * *", "? 0 * * *", "60 0 * * *", "", "x".repeat(101), "0 0 * *"];
    for (const cron of malformed) assert.match(problemsOf(at(cron))[0]!, /^triggers\.0\.cron: /, cron);
    assert.match(problemsOf(at("0 0 31 2 *"))[0]!, /never falls due/);
    assert.match(problemsOf(at("0 0 * * *", { timezone: "Mars/Base" }))[0]!, /^triggers\.0\.timezone: /);
  });

  it("name the field of an action that cannot be", () => {
    const problemOf = (action: object): string => problemsOf({ ...base, actions: [action] })[0]!;
    const lives = { type: "adjust_lives" };
    const badge = { type: "update_badge", badgeKey: "b" };
    const boost = { type: "apply_boost", boostKey: "b", applies: "xp", factor: 2, durationSeconds: 60 };
    const emitted = { type: "emit_event", eventType: "a", channels: ["rules"] };
    const cases: [object, RegExp][] = [
      [lives, /^actions\.0\.amount: give exactly one/],
      [{ ...lives, amount: 1, refill: "FULL" }, /^actions\.0\.amount: give exactly one/],
      [{ ...badge, operation: "PROGRESS" }, /^actions\.0\.amount: is required/],
      [{ ...badge, operation: "REVOKE", tier: 2 }, /^actions\.0\.tier: is for AWARD/],
      [{ ...boost, applies: "lives" }, /^actions\.0\.applies: /],
      [{ ...boost, factor: 0 }, /^actions\.0\.factor: /],
      [{ ...boost, durationSeconds: 2_592_001 }, /^actions\.0\.durationSeconds: /],
      [{ ...emitted, eventType: "player.level_up" }, /^actions\.0\.eventType: .*reserved/],
      [{ ...emitted, eventType: "system.grant" }, /^actions\.0\.eventType: .*reserved/],
      [{ ...emitted, channels: [] }, /^actions\.0\.channels: /],
      [{ ...emitted, properties: { "a.b": 1 } }, /^actions\.0\.properties\.a\.b: /],
      [
        { ...emitted, properties: Object.fromEntries(Array.from({ length: 51 }, (_, i) => [`p${i}`, 1])) },
        /more than 50/,
      ],
      [{ ...emitted, target: "EVERYBODY" }, /^actions\.0\.target: must be/],
      [{ ...emitted, target: { externalUserId: "u1" } }, /^actions\.0\.target/],
      [{ ...emitted, delaySeconds: 2_592_001 }, /^actions\.0\.delaySeconds: /],
      [{ type: "grant_reward", rewardKey: "r", quantity: 101 }, /^actions\.0\.quantity: /],
      [{ type: "adjust_currency", currencyKey: "Gold!", amount: 1 }, /^actions\.0\.currencyKey: /],
      [
        { type: "adjust_currency", currencyKey: "g", amount: 1, onInsufficient: "X" },
        /^actions\.0\.onInsufficient: /,
      ],
    ];
    for (const [action, expected] of cases) assert.match(problemOf(action), expected, JSON.stringify(action));
  });

  it("bound limits, budgets and rollouts, naming the place", () => {
    const problemOf = (more: object): string => problemsOf({ ...base, ...more })[0]!;
    const budget = { asset: "xp", max: 1, window: "DAY" };
    const cases: [object, RegExp][] = [
      [
        { limits: { global: Array.from({ length: 5 }, () => ({ max: 1, window: "DAY" })) } },
        /^limits\.global: /,
      ],
      [{ limits: { global: [{ max: 101, window: { rollingSeconds: 5 } }] } }, /^limits\.global\.0\.max: /],
      [{ limits: { budgets: [{ ...budget, asset: "quest:a" }] } }, /^limits\.budgets\.0\.asset: /],
      [{ limits: { budgets: [{ ...budget, max: 0 }] } }, /^limits\.budgets\.0\.max: /],
      [{ limits: { budgets: [{ ...budget, window: "YEAR" }] } }, /^limits\.budgets\.0\.window: /],
      [{ rollout: { percent: 101 } }, /^rollout\.percent: /],
      [{ rollout: { holdoutPercent: 51 } }, /^rollout\.holdoutPercent: /],
      [{ rollout: { salt: "x".repeat(65) } }, /^rollout\.salt: /],
    ];
    for (const [more, expected] of cases) assert.match(problemOf(more), expected, JSON.stringify(more));
  });
});
