import { type Client, must } from "../http/client.ts";
import { type Line, zoneOf } from "./travel.ts";

export const SEASON_FROM = "2011-09-01T00:00:00Z";

const quest = (key: string, eventType: string, target: number, mode = "NONE") => ({
  key,
  name: key,
  steps: [
    { key: "do", name: "Do", kind: "EVENT", target, metric: { eventTypes: [eventType], aggregate: "count" } },
  ],
  repeat: { mode },
});

const QUESTS = [
  quest("ask", "question_asked", 3),
  quest("answer", "answer_posted", 5),
  quest("comment", "comment_posted", 10, "UNLIMITED"),
];

const POINTS = { ask: 10, answer: 20, comment: 2 };
const BADGE_POINTS = 0.5;
const DAYS = 7;
const TIERS = [10, 25, 50, 100].map((points, i) => ({ tier: i + 1, points, stars: 10 ** i }));
const WHOLE_STARS = 100_000;

/** Defines the quests, and the adventure over them: its end is far, since the file is long ago. */
export const defineSeason = async (api: Client, key: string): Promise<void> => {
  must(await api.post("/api/v1/currencies", { key: "stars", name: "Stars" }, { key }), 201);
  for (const one of QUESTS) {
    must(await api.post("/api/v1/quests", one, { key }), 201);
    must(await api.post(`/api/v1/quests/${one.key}/publish`, {}, { key }), 200);
  }
  const adventure = {
    key: "season",
    name: "Season",
    startsAt: SEASON_FROM,
    endsAt: "2126-01-01T00:00:00Z",
    items: [
      { questKey: "ask", order: 1, points: POINTS.ask },
      { questKey: "answer", order: 2, points: POINTS.answer, unlock: { mode: "AFTER_PREVIOUS" } },
      {
        questKey: "comment",
        order: 3,
        points: POINTS.comment,
        optional: true,
        unlock: { mode: "DAY_OFFSET", days: DAYS },
      },
    ],
    pointsFrom: [
      { metric: { eventTypes: ["badge_earned"], aggregate: "count" }, pointsPerUnit: BADGE_POINTS },
    ],
    tiers: TIERS.map(({ tier, points, stars }) => ({ tier, points, free: { currencies: { stars } } })),
    rewards: { currencies: { stars: WHOLE_STARS } },
  };
  must(await api.post("/api/v1/adventures", adventure, { key }), 201);
  must(await api.post("/api/v1/adventures/season/publish", {}, { key }), 200);
};

export type ExpectedSeason = {
  joined: string;
  points: number;
  times: Record<string, number>;
  tiers: number;
  isComplete: boolean;
  stars: number;
};

const dayIn = (zone: string, timestamp: string): number =>
  Date.parse(new Intl.DateTimeFormat("en-CA", { timeZone: zone }).format(new Date(timestamp))) / 86_400_000;

type Sim = {
  zone: string;
  joined: string | undefined;
  points: number;
  counts: { ask: number; answer: number; comment: number };
  times: Record<string, number>;
};

const gain = (sim: Sim, key: keyof typeof POINTS): void => {
  sim.times[key] = (sim.times[key] ?? 0) + 1;
  sim.points += POINTS[key];
};

const isLongEnough = ({ zone, joined }: Sim, timestamp: string): boolean =>
  joined !== undefined && dayIn(zone, timestamp) >= dayIn(zone, joined) + DAYS;

/** What a line of each type does. */
const BY_TYPE: Record<string, (sim: Sim, timestamp: string) => void> = {
  badge_earned: (sim, timestamp) => {
    sim.joined ??= timestamp;
    sim.points += BADGE_POINTS;
  },
  question_asked: (sim, timestamp) => {
    if (sim.counts.ask === 3) return;
    sim.joined ??= timestamp;
    if (++sim.counts.ask === 3) gain(sim, "ask");
  },
  answer_posted: (sim) => {
    if (!sim.times["ask"] || sim.counts.answer === 5) return;
    if (++sim.counts.answer === 5) gain(sim, "answer");
  },
  comment_posted: (sim, timestamp) => {
    if (isLongEnough(sim, timestamp) && ++sim.counts.comment % 10 === 0) gain(sim, "comment");
  },
};

/** What the season gives one player: a plain loop over the player's lines. */
const seasonOf = (player: string, lines: readonly Line[]): ExpectedSeason | undefined => {
  const counts = { ask: 0, answer: 0, comment: 0 };
  const sim: Sim = { zone: zoneOf(player), joined: undefined, points: 0, counts, times: {} };
  for (const { eventType, timestamp } of lines)
    if (Date.parse(timestamp) >= Date.parse(SEASON_FROM)) BY_TYPE[eventType]?.(sim, timestamp);
  const { joined, points, times } = sim;
  if (joined === undefined) return undefined;
  const reached = TIERS.filter((tier) => points >= tier.points);
  const isComplete = times["ask"] === 1 && times["answer"] === 1;
  const stars = reached.reduce((sum, tier) => sum + tier.stars, 0) + (isComplete ? WHOLE_STARS : 0);
  return { joined, points, times, tiers: reached.length, isComplete, stars };
};

/** Returns what the season gives each player who takes part. */
export const expectedSeasons = (lines: readonly Line[]): Map<string, ExpectedSeason> => {
  const byPlayer = Map.groupBy(lines, ({ externalUserId }) => externalUserId);
  return new Map(
    [...byPlayer].flatMap(([player, own]) => {
      const season = seasonOf(player, own);
      return season ? [[player, season] as const] : [];
    }),
  );
};
