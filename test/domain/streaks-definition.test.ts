import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { Streak } from "../../src/domain/evaluation/streaks/streak.ts";
import { patternsOf } from "../../src/domain/evaluation/language/patterns.ts";
import { aStreak } from "../support/streaks/streaks.ts";

const part = (metric: Json = {}, more: Json = {}) => ({
  metric: { eventTypes: ["done"], aggregate: "count", ...metric },
  ...more,
});
const least = { key: "s", name: "S", qualify: { parts: [part()] } };
const wins = { mode: "CONSECUTIVE", breakOn: { eventTypes: ["lost"] } };
const fields = (more: Json): string[] => {
  const { error } = Streak.safeParse({ ...least, ...more });
  return (error?.issues ?? []).map(({ path }) => path.map(String).join("."));
};

describe("definitions of streaks", () => {
  it("have defaults for all but key, name and what qualifies", () => {
    assert.deepEqual(Streak.parse(least), {
      key: "s",
      name: "S",
      mode: "PERIODIC",
      period: "DAY",
      qualify: { mode: "ALL", parts: [{ ...part(), threshold: 1 }] },
      timezonePolicy: "PLAYER",
      graceSeconds: 0,
      repairWindowHours: 0,
      milestones: [],
    });
    const { freeze } = Streak.parse({ ...least, freeze: {} });
    assert.deepEqual(freeze, { enabled: true, max: 2, initial: 0, autoUse: true });
  });

  it("are refused with the field that is wrong", () => {
    const wrong: [field: string, more: Json][] = [
      ["qualify.parts", { qualify: { parts: [] } }],
      ["qualify.parts", { qualify: { parts: Array.from({ length: 6 }, () => part()) } }],
      ["qualify.parts.0.threshold", { qualify: { parts: [part({}, { threshold: 0 })] } }],
      ["qualify.parts.0.metric", { qualify: { parts: [part({ window: { type: "LIFETIME" } })] } }],
      ["qualify.parts.0.metric.property", { qualify: { parts: [part({ aggregate: "sum" })] } }],
      ["period", { period: "YEAR" }],
      ["graceSeconds", { graceSeconds: 43_201 }],
      ["dayStartsAtMinutes", { dayStartsAtMinutes: 1_440 }],
      ["repairWindowHours", { repairWindowHours: 721 }],
      ["repairCost", { repairCost: { currencyKey: "coins", amount: 5 } }],
      ["freeze.initial", { freeze: { max: 1, initial: 2 } }],
      ["freeze.autoEarnEvery", { freeze: { autoEarnEvery: 1 } }],
      ["milestones.0.length", { milestones: [{ length: 0 }] }],
      [
        "milestones.0.rewards.streakFreezes.s",
        { milestones: [{ length: 1, rewards: { streakFreezes: { s: 2 } } }] },
      ],
      ["breakOn", { breakOn: { eventTypes: ["lost"] } }],
      ["breakOn", { mode: "CONSECUTIVE" }],
      ["period", { ...wins, period: "WEEK" }],
      ["graceSeconds", { ...wins, graceSeconds: 1 }],
      ["daysOff", { ...wins, daysOff: {} }],
      ["daysOff", { period: "WEEK", daysOff: {} }],
      ["daysOff.weekdays", { daysOff: { weekdays: [1, 2, 3, 4, 5, 6, 7] } }],
      ["daysOff.dates.0", { daysOff: { dates: ["2026-02-30"] } }],
    ];
    for (const [field, more] of wrong) assert.deepEqual(fields(more), [field], JSON.stringify(more));
    assert.deepEqual(fields(wins), []);
    assert.deepEqual(fields({ milestones: [{ length: 1, rewards: { streakFreezes: { s: 1, t: 5 } } }] }), []);
  });

  it("cannot count what streaks cause, which would feed them", () => {
    for (const type of ["player.streak_extended", "player.*", "player.streak_broken"]) {
      assert.deepEqual(fields({ qualify: { parts: [part({ eventTypes: ["done", type] })] } }), [
        "qualify.parts.0.metric.eventTypes.1",
      ]);
      assert.deepEqual(fields({ ...wins, breakOn: { eventTypes: [type] } }), ["breakOn.eventTypes.0"]);
    }
    assert.ok(!patternsOf("player.streak_extended").includes("*"));
    assert.deepEqual(fields({ qualify: { parts: [part({ eventTypes: ["player.level_up", "*"] })] } }), []);
  });

  it("hear what they count and what breaks them, by type, prefix and star", () => {
    const heard = (more: Json, type: string) => aStreak(more).listensTo(type);
    assert.ok(heard({}, "done"));
    assert.ok(!heard({}, "done.more"));
    assert.ok(heard(wins, "lost"));
    assert.ok(heard({ qualify: { parts: [part({ eventTypes: ["order.*"] })] } }, "order.paid.late"));
    const star = { qualify: { parts: [part({ eventTypes: ["*"] })] } };
    assert.ok(heard(star, "anything"));
    assert.ok(!heard(star, "player.level_up"));
  });
});
