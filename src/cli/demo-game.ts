/** The demo project's game, as a designer would import it: `POST /config/import`. */

/** The board whose ranks the self test and the printed commands look at. */
export const XP_BOARD = "xp";
/** The rule and event type of the self test. */
export const SELF_TEST = "self_test";
export const SEASON = "season";
const STORY = "story";
/** The badge of those who have finished the story, and that of the last tier. */
const HERO = "hero";
const CHAMPION = "champion";

const DAY_MS = 86_400_000;
/** The part of the history that belongs to the season. */
const SEASON_DAYS_BEFORE = 30;
/** How long a season goes on from the start that makes or renews it. */
const SEASON_DAYS_AFTER = 60;

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

const coins = (amount: number) => ({ currencies: { coins: amount } });
const WON = { path: "stars", op: "gte", value: 1 };
const win = { eventTypes: ["level_finished"], filter: WON, aggregate: "count" };
const gems = { eventTypes: ["gems_found"], aggregate: "sum", property: "count" };
const stars = { eventTypes: ["level_finished"], aggregate: "sum", property: "stars" };
const boss = { eventTypes: ["boss_defeated"], aggregate: "count" };

const BADGES = [
  {
    key: "boss-hunter",
    name: "Boss hunter",
    rarity: "RARE",
    progressMetric: boss,
    tiers: [
      { tier: 1, name: "Bronze", threshold: 1 },
      { tier: 2, name: "Silver", threshold: 3 },
      { tier: 3, name: "Gold", threshold: 10 },
    ],
  },
  { key: HERO, name: "Hero of the tower", rarity: "EPIC", points: 50, category: "season" },
  { key: CHAMPION, name: "Champion of the season", rarity: "LEGENDARY", points: 100, category: "season" },
];

const LEADERBOARDS = [
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

const RULES = [
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

const QUESTS = [
  {
    key: "daily-wins",
    name: "Win three levels today",
    category: "daily",
    sortOrder: 1,
    steps: [{ key: "wins", name: "Finish levels with a star", kind: "EVENT", metric: win, target: 3 }],
    repeat: { mode: "DAILY", timezone: "PLAYER" },
    rewards: { xp: 30, ...coins(10) },
  },
  {
    key: "weekly-hunt",
    name: "This week's treasure hunt",
    category: "weekly",
    sortOrder: 2,
    stepMode: "PARALLEL",
    steps: [
      { key: "wins", name: "Finish levels with a star", kind: "EVENT", metric: win, target: 4 },
      { key: "gems", name: "Find gems", kind: "EVENT", metric: gems, target: 6 },
    ],
    repeat: { mode: "WEEKLY", timezone: "PLAYER" },
    rewards: { xp: 80, ...coins(40) },
  },
  {
    key: STORY,
    name: "The tower",
    category: "story",
    sortOrder: 3,
    stepMode: "SEQUENTIAL",
    steps: [
      { key: "door", name: "Open the door: win a level", kind: "EVENT", metric: win, target: 1 },
      { key: "stairs", name: "Climb: collect five stars", kind: "EVENT", metric: stars, target: 5 },
      { key: "key", name: "Pay the guard: find five gems", kind: "EVENT", metric: gems, target: 5 },
      { key: "boss", name: "Defeat a boss", kind: "EVENT", metric: boss, target: 1, rewards: coins(20) },
      {
        key: "crown",
        name: "Reach level 4",
        kind: "STATE",
        condition: { all: [{ type: "player_property", field: "level", op: "gte", value: 4 }] },
      },
    ],
    rewards: { badges: [{ badgeKey: HERO }], ...coins(100) },
  },
];

/** Points, and coins for free and for premium. */
const TIERS = [
  [10, 5, 20],
  [20, 5, 25],
  [40, 10, 30],
  [60, 10, 40],
  [80, 15, 50],
  [100, 20, 60],
  [130, 25, 80],
  [160, 30, 100],
  [200, 40, 120],
  [250, 50, 150],
] as const;

const tierOf = ([points, free, premium]: (typeof TIERS)[number], i: number) => {
  const isLast = i === TIERS.length - 1;
  return {
    tier: i + 1,
    points,
    free: coins(free),
    premium: { ...coins(premium), ...(isLast ? { badges: [{ badgeKey: CHAMPION }] } : {}) },
  };
};

/** When a season ends that is made or renewed at a time: at the end of a day. */
export const seasonEnd = (atMs: number): string =>
  new Date((Math.floor(atMs / DAY_MS) + SEASON_DAYS_AFTER) * DAY_MS).toISOString();

/** Returns the season around the end of the history: it runs, and part of the history belongs to it. */
const seasonAround = (historyEndMs: number) => ({
  key: SEASON,
  name: "Season of the tower",
  season: "first",
  startsAt: new Date((Math.floor(historyEndMs / DAY_MS) - SEASON_DAYS_BEFORE) * DAY_MS).toISOString(),
  endsAt: seasonEnd(historyEndMs),
  items: [
    { questKey: "daily-wins", order: 1, chapter: "Every day", points: 10 },
    {
      questKey: "weekly-hunt",
      order: 2,
      chapter: "Every week",
      points: 40,
      unlock: { mode: "POINTS", points: 10 },
    },
    { questKey: STORY, order: 3, chapter: "The story", points: 100 },
  ],
  tiers: TIERS.map(tierOf),
  premiumPrice: { currencyKey: "coins", amount: 40 },
  claim: "MANUAL",
  rewards: { xp: 200 },
});

/**
 * Returns the configuration of the game.
 * @param historyEndMs the season runs around it, and part of the history belongs to it
 */
export const demoGame = (historyEndMs: number) => ({
  format: "laurel/1",
  // Of a history of thousands of events, every fiftieth is enough for inspection.
  settings: { traceSampling: { test: 0.02 } },
  levelCurve: DEMO_CURVE,
  currencies: [{ key: "coins", name: "Coins", maxBalance: 100_000 }],
  badges: BADGES,
  streaks: [
    {
      key: "daily",
      name: "Days in a row",
      period: "DAY",
      qualify: { parts: [{ metric: { eventTypes: ["session_started"], aggregate: "count" }, threshold: 1 }] },
    },
  ],
  quests: QUESTS,
  adventures: [seasonAround(historyEndMs)],
  leaderboards: LEADERBOARDS.map((leaderboard) => ({ leaderboard })),
  rules: RULES.map((rule) => ({ status: "ACTIVE", rule })),
});
