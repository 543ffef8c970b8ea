import { DEMO_GOAL_BADGES, SEASON } from "./demo-goals.ts";

/** The demo project's definitions, as a designer would send them to the API; demo-goals.ts has the quests. */

/** The board whose ranks the self test and the printed commands look at. */
export const XP_BOARD = "xp";
/** The rule and event type of the self test. */
export const SELF_TEST = "self_test";

const on = (...eventTypes: string[]) => [{ kind: "EVENT", eventTypes }];
const property = (path: string, op: string, value: number | string) => ({
  type: "event_property",
  path,
  op,
  value,
});
const ref = (path: string) => ({ ref: `event.properties.${path}`, default: 0 });
const LEVEL_PASSED = property("stars", "gte", 1);

export const DEMO_CURVE = {
  type: "QUADRATIC",
  params: { base: 100, growth: 40, maxLevel: 60 },
} as const;

/** Of a history of thousands of events, every fiftieth is enough for inspection. */
export const DEMO_SETTINGS = { traceSampling: { test: 0.02 } } as const;

/** Definitions by kind. */
export const DEMO_DEFINITIONS: readonly { kind: string; definition: object }[] = [
  { kind: "currency", definition: { key: "coins", name: "Coins", maxBalance: 100_000 } },
  {
    kind: "badge",
    definition: {
      key: "boss-hunter",
      name: "Boss hunter",
      rarity: "RARE",
      progressMetric: { eventTypes: ["boss_defeated"], aggregate: "count" },
      tiers: [
        { tier: 1, name: "Bronze", threshold: 1 },
        { tier: 2, name: "Silver", threshold: 3 },
        { tier: 3, name: "Gold", threshold: 10 },
      ],
    },
  },
  ...DEMO_GOAL_BADGES.map((definition) => ({ kind: "badge", definition })),
  {
    kind: "streak",
    definition: {
      key: "daily",
      name: "Days in a row",
      period: "DAY",
      qualify: { parts: [{ metric: { eventTypes: ["session_started"], aggregate: "count" }, threshold: 1 }] },
    },
  },
];

export const DEMO_BOARDS: readonly object[] = [
  { key: XP_BOARD, name: "Experience", metric: { source: "XP" } },
  {
    key: "gems",
    name: "Gems found",
    metric: { source: "EVENT", event: { eventTypes: ["gems_found"] }, aggregate: "sum", property: "count" },
  },
  {
    key: "hardest-hit",
    name: "Hardest hit on a boss",
    metric: { source: "CUSTOM" },
    operator: "BEST",
    ties: "SHARED",
  },
  {
    key: SEASON,
    name: "Points of the season",
    metric: { source: "ADVENTURE_POINTS", adventureKey: SEASON },
  },
];

/** The rule that a part of the players do not get, to see whether it changes what they do. */
export const BONUS_RULE = {
  key: "comeback-bonus",
  name: "Coins for coming back, with a holdout",
  rollout: { percent: 100, holdoutPercent: 40 },
  triggers: on("session_started"),
  actions: [{ type: "adjust_currency", currencyKey: "coins", amount: 2 }],
  limits: { perPlayer: [{ max: 1, window: "DAY" }] },
} as const;

export const DEMO_RULES: readonly object[] = [
  BONUS_RULE,
  {
    key: "level-finished",
    name: "XP for a finished level, more for more stars",
    triggers: on("level_finished"),
    conditions: { all: [LEVEL_PASSED] },
    actions: [
      { type: "grant_xp", amount: { op: "add", args: [10, { op: "mul", args: [5, ref("stars")] }] } },
      { type: "adjust_currency", currencyKey: "coins", amount: ref("stars") },
      { type: "update_player", increment: { levelsFinished: 1 } },
    ],
  },
  {
    key: "three-stars",
    name: "A bonus for three stars, five times a day",
    triggers: on("level_finished"),
    conditions: { all: [property("stars", "eq", 3)] },
    actions: [{ type: "grant_xp", amount: 20 }],
    limits: { perPlayer: [{ max: 5, window: "DAY" }] },
  },
  {
    key: "weekend",
    name: "A bonus for levels finished at the weekend",
    triggers: on("level_finished"),
    conditions: { all: [LEVEL_PASSED, { type: "time_window", daysOfWeek: [6, 7] }] },
    actions: [{ type: "grant_xp", amount: 10 }],
  },
  {
    key: "boss-defeated",
    name: "XP and a score for a defeated boss",
    triggers: on("boss_defeated"),
    conditions: { all: [property("damage", "gt", 0)] },
    actions: [
      { type: "grant_xp", amount: 120 },
      { type: "submit_score", leaderboardKey: "hardest-hit", score: ref("damage") },
    ],
  },
  {
    key: "first-session-of-the-day",
    name: "XP for coming back",
    triggers: on("session_started"),
    actions: [{ type: "grant_xp", amount: 5 }],
    limits: { perPlayer: [{ max: 1, window: "DAY" }] },
  },
  {
    key: "veteran",
    name: "A tag for players who reach level 5",
    triggers: on("level_finished", "boss_defeated"),
    conditions: { all: [{ type: "player_property", field: "level", op: "gte", value: 5 }] },
    actions: [{ type: "update_player", addTags: ["veteran"], set: { rank: "veteran" } }],
    limits: { perPlayer: [{ max: 1, window: "LIFETIME" }] },
  },
  {
    key: "self-test",
    name: "One XP for the self test at the start",
    triggers: on(SELF_TEST),
    actions: [{ type: "grant_xp", amount: 1 }],
  },
];
