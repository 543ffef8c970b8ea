import assert from "node:assert/strict";
import fc from "fast-check";
import type { Json } from "../../../src/domain/kernel/events/events.ts";
import { revertEvent, revertEvents, type RevertResult } from "../../../src/domain/revert/revert-events.ts";
import { define, type Domain, processAll, publish } from "../domain/domain.ts";
import { aSeason, counting as countingStep } from "../quests/quest-game.ts";

const won = { eventTypes: ["won"] };
const tiers = (thresholds: readonly number[], xp: number) =>
  thresholds.map((threshold, i) => ({ tier: i + 1, threshold, rewards: { xp: xp * (i + 1) } }));
const starTiers = (thresholds: readonly number[]) =>
  thresholds.map((threshold, i) => ({ tier: i + 1, threshold, rewards: { currencies: { stars: 10 ** i } } }));
const lifetime = { window: { type: "LIFETIME" } };

/** Badges that follow counters of all kinds, with tiers that give XP, or stars each time. */
const BADGES: readonly Json[] = [
  {
    key: "count",
    progressMetric: { ...won, ...lifetime, aggregate: "count" },
    tiers: tiers([2, 4, 5], 1_000),
  },
  {
    key: "sum",
    progressMetric: { ...won, ...lifetime, aggregate: "sum", property: "score" },
    tiers: tiers([10, 20, 30], 10_000),
  },
  {
    key: "daily",
    progressMetric: { ...won, aggregate: "count", window: { type: "CALENDAR", unit: "DAY" } },
    tiers: tiers([2, 3], 100_000),
  },
  {
    key: "highest",
    progressMetric: { ...won, ...lifetime, aggregate: "max", property: "score" },
    tiers: tiers([5, 8], 1_000_000),
  },
  {
    key: "games",
    progressMetric: { ...won, ...lifetime, aggregate: "distinct", property: "game" },
    tiers: tiers([2, 3], 5),
  },
  {
    key: "often",
    progressMetric: { ...won, ...lifetime, aggregate: "sum", property: "score" },
    repeatable: true,
    tiers: starTiers([3, 6]),
  },
  {
    key: "often-a-day",
    progressMetric: { ...won, aggregate: "count", window: { type: "CALENDAR", unit: "DAY" } },
    repeatable: true,
    tiers: starTiers([1]),
  },
];

const SUBMITTED: readonly Json[] = [
  { key: "custom-best", operator: "BEST" },
  { key: "custom-sum", operator: "SUM", period: { kind: "DAILY" } },
  { key: "custom-last", operator: "LATEST" },
  { key: "custom-less", operator: "DECR" },
].map((board) => ({ ...board, metric: { source: "CUSTOM" } }));

const BOARDS: readonly Json[] = [
  { key: "wins", metric: { source: "EVENT", event: won, aggregate: "count" } },
  { key: "points", metric: { source: "EVENT", event: won, aggregate: "sum", property: "score" } },
  {
    key: "points-of-day",
    metric: { source: "EVENT", event: won, aggregate: "sum", property: "score" },
    period: { kind: "DAILY" },
  },
  { key: "xp", metric: { source: "XP" } },
  {
    key: "coins-of-day",
    metric: { source: "CURRENCY", currencyKey: "coins", mode: "EARNED" },
    period: { kind: "DAILY" },
  },
  { key: "best", metric: { source: "EVENT", event: won, aggregate: "max", property: "score" } },
  {
    key: "lowest-of-day",
    sort: "ASC",
    metric: { source: "EVENT", event: won, aggregate: "min", property: "score" },
    period: { kind: "DAILY" },
  },
  ...SUBMITTED,
  { key: "last", metric: { source: "EVENT", event: won, aggregate: "latest", property: "score" } },
];

/** A project whose `won` gives its `score` as XP and coins, with badges that follow counters, and boards. */
export const aHistoryProject = async (
  domain: Domain,
  { badges = BADGES, boards = BOARDS }: { badges?: readonly Json[]; boards?: readonly Json[] } = {},
): Promise<string> => {
  const projectId = await domain.addProject();
  const settings = JSON.stringify({ allowLevelDown: true });
  await domain.sql`update projects set settings = ${settings}::jsonb where id = ${projectId}`;
  for (const key of ["coins", "stars"]) await define(domain, projectId, "currency", { key, name: key });
  for (const badge of badges) await define(domain, projectId, "badge", { name: "A badge", ...badge });
  for (const board of boards) await domain.addBoard(projectId, { name: "A board", ...board });
  await publish(domain, projectId, {
    key: "points",
    triggers: [{ kind: "EVENT", eventTypes: ["won"] }],
    actions: [
      { type: "grant_xp", amount: { $ref: "event.properties.score" } },
      ...SUBMITTED.filter(({ key }) => boards.some((board) => board["key"] === key)).map(({ key }) => ({
        type: "submit_score",
        leaderboardKey: key,
        score: { $ref: "event.properties.score" },
      })),
      { type: "adjust_currency", currencyKey: "coins", amount: { $ref: "event.properties.score" } },
    ],
  });
  return projectId;
};

export type Won = { at: Date; properties: Json; type?: string };

/** Sends events of a player, and processes them. Answers their ids. */
export const play = async (
  domain: Domain,
  projectId: string,
  { user, events }: { user: string; events: readonly Won[] },
): Promise<string[]> => {
  const ids = await domain.track(
    projectId,
    events.map((event) => ({ user, type: "won", ...event })),
  );
  await processAll(domain);
  return ids;
};

/** How events are reverted. */
export const HOW = { reason: "test", onShortfall: "CLAMP", actor: "test" } as const;

export const takeBack = (domain: Domain, projectId: string, eventId: string): Promise<RevertResult> =>
  domain.transact((work) => revertEvent(work, projectId, { eventId, ...HOW }));

const HOUR_MS = 3_600_000;

/** An event that won: how long ago, and when it is reverted among others; 0: never. */
type WonItem = { hoursAgo: number; score: number; game: string; reverted: number };

export const anAge = fc.constantFrom(0, 1, 30, 60);
/** In which order events are reverted. */
export const aTurn = fc.oneof(fc.constant(0), fc.nat({ max: 99 }));

export const wonItems: fc.Arbitrary<WonItem[]> = fc.array(
  fc.record({
    hoursAgo: anAge,
    score: fc.integer({ min: 0, max: 9 }),
    game: fc.constantFrom("a", "b", "c"),
    reverted: aTurn,
  }),
  { minLength: 1, maxLength: 8 },
);

/** The event of an item, which has its other fields as properties. */
export const eventAgo = <T extends { hoursAgo: number; reverted: number; type?: string }>({
  hoursAgo: hours,
  reverted: _reverted,
  type,
  ...properties
}: T): Won => ({
  at: new Date(Date.now() - hours * HOUR_MS),
  properties,
  ...(type === undefined ? {} : { type }),
});

/**
 * Plays a history, and the rest of it for `like`; reverts what is to be reverted, in its order, one by one or
 * all together.
 * @returns what was left of it
 */
export const playReverted = async (
  domain: Domain,
  projectId: string,
  {
    user,
    like,
    history,
    isTogether = false,
  }: {
    user: string;
    like: string;
    history: readonly { hoursAgo: number; reverted: number; type?: string }[];
    isTogether?: boolean;
  },
): Promise<string[]> => {
  const events = history.map(eventAgo);
  const ids = await play(domain, projectId, { user, events });
  const rest = events.filter((_, i) => history[i]!.reverted === 0);
  await play(domain, projectId, { user: like, events: rest });
  const order = history
    .map((one, i) => ({ turn: one.reverted, id: ids[i]! }))
    .filter(({ turn }) => turn > 0)
    .toSorted((a, b) => a.turn - b.turn)
    .map(({ id }) => id);
  const results: RevertResult[] = [];
  if (isTogether) {
    const group = { eventIds: order, ...HOW };
    results.push(...(await domain.transact((work) => revertEvents(work, projectId, group))).results);
  } else for (const id of order) results.push(await takeBack(domain, projectId, id));
  return results.flatMap(({ left }) => left);
};

type PlayerRow = {
  id: string;
  xp: number;
  stars: number;
  doc: { c?: Record<string, unknown> } | null;
};
type EntryRow = { key: string; period: string | null; score: number };

/** Windows and counters at nothing are as good as none. */
const counted = (state: unknown): unknown => {
  if (!Array.isArray(state)) return state === 0 ? undefined : state;
  const windows = state.filter((one) => !Array.isArray(one) || one[1] !== 0);
  return windows.length === 0 ? undefined : windows;
};

/** What a player has who has done nothing. */
export const NOBODY = { xp: 0, stars: 0, badges: [], counters: [], entries: [] };

/** What a player has, as far as it follows from events: XP, counters, badges and entries of boards. */
export const standingOf = async (domain: Domain, projectId: string, user: string) => {
  const [player] = await domain.sql<PlayerRow>`
    select p.id, p.xp, s.doc, coalesce(b.balance, 0) as stars from players p
    left join player_balances b on b.project_id = p.project_id and b.player_id = p.id
      and b.currency_key = 'stars'
    left join player_states s on s.project_id = p.project_id and s.player_id = p.id
    where p.project_id = ${projectId} and p.external_user_id = ${user}`;
  if (!player) return undefined;
  const badges = await domain.sql<{ key: string; tier: number; times: number }>`
    select badge_key as key, tier, times_awarded as times from player_badges
    where project_id = ${projectId} and player_id = ${player.id} and tier > 0 order by 1`;
  const entries = await domain.sql<EntryRow>`
    select l.key, p.period_key as period, e.rank_score as score from leaderboard_entries e
    left join leaderboard_periods p on p.project_id = e.project_id and p.id = e.period_id
    join leaderboards l on l.project_id = e.project_id
      and (l.id = p.leaderboard_id or l.period_id = e.period_id)
    where e.project_id = ${projectId} and e.player_id = ${player.id} order by 1, 2`;
  return {
    xp: player.xp,
    stars: player.stars,
    badges: badges.map(({ key, tier, times }) => [key, tier, times]),
    counters: Object.entries(player.doc?.c ?? {})
      .map(([id, state]) => [id, counted(state)])
      .filter(([, state]) => state !== undefined)
      .toSorted(),
    entries: entries.map(({ key, period, score }) => [key, period, score]),
  };
};

/** Asserts that a player has what a player has who did only the rest. */
export const assertAsIfNever = async (
  domain: Domain,
  projectId: string,
  { user, like }: { user: string; like: string },
): Promise<void> => {
  const [standing, expected] = [
    await standingOf(domain, projectId, user),
    await standingOf(domain, projectId, like),
  ];
  assert.deepEqual(standing, expected ?? NOBODY);
};

const quest = (key: string, types: Record<string, number>, more: Json = {}): Json => ({
  key,
  name: key,
  stepMode: "PARALLEL",
  steps: Object.entries(types).map(([type, target]) => countingStep(`step-${type}`, type, target)),
  ...more,
});

/** Quests of adventures, whose outcome follows from events alone. */
export const QUESTS_OF_ADVENTURES: readonly Json[] = [
  quest("daily", { a: 2 }, { repeat: { mode: "DAILY" }, rewards: { xp: 10 } }),
  quest("often", { b: 1 }, { repeat: { mode: "UNLIMITED" } }),
  quest("both", { a: 2, b: 1 }, { rewards: { xp: 100 } }),
  quest("hidden", { hide: 1 }),
];

const points = (type: string, more: Json = {}) => ({ eventTypes: [type], aggregate: "count", ...more });

/** One that gives its rewards by itself, and one of which rewards are claimed. */
export const ADVENTURES: readonly Json[] = [
  {
    key: "season",
    name: "Season",
    ...aSeason(),
    items: [
      { questKey: "daily", order: 1, points: 10 },
      { questKey: "often", order: 2, points: 3, optional: true },
      { questKey: "both", order: 3, points: 7 },
    ],
    pointsFrom: [
      { metric: points("p"), pointsPerUnit: 0.5 },
      { metric: points("a", { aggregate: "sum", property: "score" }), pointsPerUnit: 0.1 },
    ],
    tiers: [
      { tier: 1, points: 1, free: { currencies: { stars: 1 } } },
      { tier: 2, points: 10, free: { currencies: { stars: 10 } } },
      { tier: 3, points: 20, free: { xp: 1_000 }, premium: { xp: 1 } },
    ],
    rewards: { xp: 10_000 },
  },
  {
    key: "by-hand",
    name: "By hand",
    ...aSeason(),
    items: [{ questKey: "hidden", order: 1, unlock: { mode: "POINTS", points: 3 } }],
    pointsFrom: [{ metric: points("h"), pointsPerUnit: 1 }],
    tiers: [
      { tier: 1, points: 2, free: { currencies: { stars: 1 } }, premium: { currencies: { stars: 10 } } },
    ],
    claim: "MANUAL",
  },
];

const counting = (key: string, type: string, target: number, more: Json = {}) =>
  countingStep(key, type, target, { rewards: { xp: 1 }, ...more });

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
