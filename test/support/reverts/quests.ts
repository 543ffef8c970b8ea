import type { Json } from "../../../src/domain/kernel/events/events.ts";

const counting = (key: string, type: string, target: number, more: Json = {}) => ({
  key,
  name: key,
  kind: "EVENT",
  metric: { eventTypes: [type], aggregate: "count" },
  target,
  rewards: { xp: 1 },
  ...more,
});

/** Quests whose outcome follows from events alone, but for one of a state. */
export const QUESTS: readonly Json[] = [
  { key: "daily", steps: [counting("do", "a", 2)], repeat: { mode: "DAILY" }, rewards: { xp: 10 } },
  {
    key: "often",
    steps: [counting("b", "b", 2), counting("a", "a", 1)],
    repeat: { mode: "UNLIMITED" },
    rewards: { xp: 100 },
  },
  {
    key: "story",
    stepMode: "PARALLEL",
    steps: [
      counting("first", "b", 1),
      counting("ever", "a", 3, { countFrom: "LIFETIME" }),
      {
        ...counting("games", "a", 2, { dependsOn: ["first"] }),
        metric: { eventTypes: ["a"], aggregate: "distinct", property: "game" },
      },
    ],
    rewards: { xp: 1_000 },
  },
  {
    key: "sums",
    stepMode: "PARALLEL",
    steps: [
      { ...counting("sum", "a", 12), metric: { eventTypes: ["a"], aggregate: "sum", property: "score" } },
      { ...counting("max", "b", 8), metric: { eventTypes: ["b"], aggregate: "max", property: "score" } },
    ],
    rewards: { currencies: { stars: 7 } },
  },
  {
    key: "either",
    stepMode: "ANY",
    requiredSteps: 1,
    steps: [counting("c", "c", 1), counting("d", "d", 1)],
  },
  {
    key: "rich",
    steps: [
      {
        key: "rich",
        name: "Rich",
        kind: "STATE",
        condition: { all: [{ type: "player_property", field: "xp", op: "gte", value: 5_000 }] },
      },
    ],
    rewards: { currencies: { stars: 3 } },
  },
  { key: "by-hand", steps: [counting("h", "h", 5)], claim: "MANUAL", rewards: { xp: 50 } },
];

/** Counts another quest. */
export const AFTER: Json = {
  key: "after",
  steps: [
    {
      ...counting("dailies", "quest.completed", 3),
      metric: {
        eventTypes: ["quest.completed"],
        aggregate: "count",
        filter: { path: "questKey", op: "eq", value: "daily" },
      },
    },
  ],
};
