/** The demo project's quests and season, as a designer would send them to the API. */

export const SEASON = "season";
const STORY = "story";
/** The badge of those who have finished the story, and that of the last tier. */
const HERO = "hero";
const CHAMPION = "champion";

/** A definition as it is sent. */
type Defined = { key: string } & Record<string, unknown>;

const DAY_MS = 86_400_000;
/** The part of the history that belongs to the season. */
const SEASON_DAYS_BEFORE = 30;
/** How long a season goes on from the start that makes or renews it. */
const SEASON_DAYS_AFTER = 60;

const coins = (amount: number) => ({ currencies: { coins: amount } });
const WON = { path: "stars", op: "gte", value: 1 };
const win = { eventTypes: ["level_finished"], filter: WON, aggregate: "count" };
const gems = { eventTypes: ["gems_found"], aggregate: "sum", property: "count" };
const stars = { eventTypes: ["level_finished"], aggregate: "sum", property: "stars" };
const boss = { eventTypes: ["boss_defeated"], aggregate: "count" };

export const DEMO_GOAL_BADGES: readonly Defined[] = [
  { key: HERO, name: "Hero of the tower", rarity: "EPIC", points: 50 },
  { key: CHAMPION, name: "Champion of the season", rarity: "LEGENDARY", points: 100 },
].map((badge) => ({ ...badge, category: "season" }));

export const DEMO_QUESTS: readonly Defined[] = [
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
export const demoSeason = (historyEndMs: number): Defined => ({
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
