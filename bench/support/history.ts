import { post, type Site } from "./setup.ts";

/** Years of a community of questions and answers: what its players did, in order of time. */
export type HistoryEvent = {
  externalUserId: string;
  eventType: string;
  properties: Record<string, unknown>;
  timestamp: string;
  idempotencyKey: string;
};

/** What the types of events give, and how many of a hundred events have the type. */
const TYPES = [
  { type: "user_registered", share: 12, xp: 5, coins: 0 },
  { type: "question_asked", share: 7, xp: 5, coins: 0 },
  { type: "answer_posted", share: 14, xp: 10, coins: 3 },
  { type: "comment_posted", share: 37, xp: 1, coins: 0 },
  { type: "badge_received", share: 30, xp: 15, coins: 2 },
] as const;

const FIRST_MS = Date.UTC(2011, 5, 21);
const YEARS_MS = 3.5 * 365 * 86_400_000;
const TIERS = ["bronze", "silver", "gold"] as const;

/** A generator of numbers from 0 to 1 that are the same in every run (mulberry32). */
const seeded = (seed: number) => {
  let state = seed;
  return (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
};

const typeAt = (share: number): (typeof TYPES)[number] => {
  let upTo = 0;
  for (const one of TYPES) {
    upTo += one.share;
    if (share * 100 < upTo) return one;
  }
  return TYPES[0];
};

/** Events by a few very active players and many who did one thing: a ninth as many players as events. */
export const historyOf = (count: number): HistoryEvent[] => {
  const random = seeded(1);
  const players = Math.ceil(count / 9);
  return Array.from({ length: count }, (_, n): HistoryEvent => {
    const { type } = typeAt(random());
    const player = Math.floor(players * random() ** 3);
    const tier = TIERS[Math.floor(3 * random() ** 4)]!;
    return {
      externalUserId: `u${player}`,
      eventType: type,
      properties: type === "badge_received" ? { badge: "Yearling", tier } : { post: n, score: n % 7 },
      timestamp: new Date(FIRST_MS + Math.floor((YEARS_MS * n) / count)).toISOString(),
      idempotencyKey: `tse-${type.slice(0, 1)}-${n}`,
    };
  });
};

/** XP and coins that the rules give for an event. */
export const givenFor = ({ eventType }: HistoryEvent): { xp: number; coins: number } =>
  TYPES.find(({ type }) => type === eventType)!;

const board = (key: string, metric: Record<string, unknown>, kind?: string) => ({
  key,
  name: key,
  metric,
  ties: "SHARED",
  ...(kind === undefined ? {} : { period: { kind } }),
});

/** Makes what such a community has: a rule for each type, a badge, a streak and four leaderboards. */
export const prepareCommunity = async (site: Site): Promise<void> => {
  const types = TYPES.map(({ type }) => type);
  await post(site, "/currencies", { key: "coins", name: "Coins" });
  const answers = { eventTypes: ["answer_posted"], aggregate: "count" };
  await post(site, "/badges", {
    key: "helper",
    name: "Helper",
    progressMetric: answers,
    tiers: [1, 10, 100].map((threshold, i) => ({ tier: i + 1, name: `Tier ${i + 1}`, threshold })),
  });
  const qualify = {
    mode: "ALL",
    parts: [{ metric: { eventTypes: types, aggregate: "count" }, threshold: 1 }],
  };
  await post(site, "/streaks", { key: "daily", name: "Daily", period: "DAY", qualify });
  const count = (...eventTypes: string[]) => ({
    source: "EVENT",
    event: { eventTypes },
    aggregate: "count",
  });
  await post(site, "/leaderboards", board("xp", { source: "XP" }));
  await post(site, "/leaderboards", board("answers", count("answer_posted")));
  await post(site, "/leaderboards", board("weekly", { source: "XP" }, "WEEKLY"));
  await post(site, "/leaderboards", board("monthly", count("comment_posted"), "MONTHLY"));
  for (const { type, xp, coins } of TYPES) {
    const key = type.replaceAll("_", "-");
    await post(site, "/rules", {
      key,
      name: type,
      triggers: [{ kind: "EVENT", eventTypes: [type] }],
      actions: [
        { type: "grant_xp", amount: xp },
        ...(coins > 0 ? [{ type: "adjust_currency", currencyKey: "coins", amount: coins }] : []),
      ],
    });
    await post(site, `/rules/${key}/publish`, {});
  }
};
