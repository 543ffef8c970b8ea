import { createRandom, oneOf, personName, type Random, wholeFrom } from "./demo-names.ts";

export const DEMO_PLAYERS = 2_000;
export const DEMO_DAYS = 60;
/** Number of sessions of all players; each has two to ten events. */
const SESSIONS = 3_400;
/** Players from this index on visit only once, for one level. */
const CASUAL_FROM = 900;

const SEED = 20_261;
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

export type DemoPlayer = {
  externalUserId: string;
  displayName: string;
  country: string;
  timezone: string;
  attributes: { platform: string };
};

export type DemoEvent = {
  externalUserId: string;
  eventType: string;
  properties: Record<string, unknown>;
  timestamp: string;
  idempotencyKey: string;
};

/** Players, the most active first, and their events in chronological order. */
export type DemoHistory = { players: DemoPlayer[]; events: DemoEvent[] };

const HOMES = [
  ["DE", "Europe/Berlin"],
  ["FR", "Europe/Paris"],
  ["GB", "Europe/London"],
  ["US", "America/New_York"],
  ["US", "America/Los_Angeles"],
  ["BR", "America/Sao_Paulo"],
  ["JP", "Asia/Tokyo"],
  ["IN", "Asia/Kolkata"],
] as const;
const PLATFORMS = ["ios", "android", "android", "web"];
/** Relative activity on each day of the week, from Sunday. */
const WEEK = [1.5, 0.8, 0.8, 0.85, 0.9, 1.2, 1.7];
const BUSIEST_DAY = Math.max(...WEEK);
/** Hours of the day, repeated in proportion to their activity; most in the evening. */
const HOURS = [
  0, 7, 8, 12, 12, 13, 15, 16, 17, 17, 18, 18, 19, 19, 19, 20, 20, 20, 20, 21, 21, 21, 22, 22, 23,
];

type Timed = { atMs: number; externalUserId: string; eventType: string; properties: Record<string, unknown> };
type Session = {
  random: Random;
  player: DemoPlayer;
  startMs: number;
  levels: number;
  add(event: Timed): void;
};

/**
 * Generates sixty days of history, always the same for the same end: a few players play most of the time and
 * most only occasionally, players join throughout, and play in the evening and at weekends.
 * @param endMs no event is later
 */
export const demoHistory = (endMs: number): DemoHistory => {
  const random = createRandom(SEED);
  // A generator of its own, so that the events do not depend on their dates.
  const clock = createRandom(SEED + 1);
  const players = Array.from({ length: DEMO_PLAYERS }, (_, i) => playerOf(random, i));
  const weights = players.map((_, i) => 1 / (i + 8) ** 0.75);
  const total = weights.slice(0, CASUAL_FROM).reduce((sum, weight) => sum + weight, 0);
  const events: Timed[] = [];
  for (const [i, player] of players.entries()) {
    const isCasual = i >= CASUAL_FROM;
    const sessions = 1 + (isCasual ? 0 : Math.round(((SESSIONS - DEMO_PLAYERS) * weights[i]!) / total));
    const joinedDay = clock() < 0.5 ? 0 : wholeFrom(clock, 0, DEMO_DAYS - 1);
    for (let n = 0; n < sessions; n++) {
      const startMs = sessionStart(clock, endMs, joinedDay);
      const levels = isCasual ? 1 : wholeFrom(random, 1, 4);
      playSession({ random, player, startMs, levels, add: (event) => void events.push(event) });
    }
  }
  return { players, events: events.toSorted((a, b) => a.atMs - b.atMs).map(eventOf) };
};

const eventOf = ({ atMs, ...event }: Timed, i: number): DemoEvent => ({
  ...event,
  timestamp: new Date(atMs).toISOString(),
  idempotencyKey: `demo:${i}`,
});

const playerOf = (random: Random, i: number): DemoPlayer => {
  const { first, last } = personName(random);
  const [country, timezone] = oneOf(random, HOMES);
  return {
    externalUserId: `${first}-${last}-${i + 1}`.toLowerCase(),
    displayName: `${first} ${last}`,
    country,
    timezone,
    attributes: { platform: oneOf(random, PLATFORMS) },
  };
};

/** Maximum duration of a session. */
const SESSION_MAX_MS = HOUR_MS;

const sessionStart = (random: Random, endMs: number, joinedDay: number): number => {
  const firstMs = endMs - DEMO_DAYS * DAY_MS;
  for (;;) {
    const dayMs = firstMs + wholeFrom(random, joinedDay, DEMO_DAYS) * DAY_MS;
    const midnightMs = Math.floor(dayMs / DAY_MS) * DAY_MS;
    const atMs = midnightMs + oneOf(random, HOURS) * HOUR_MS + wholeFrom(random, 0, HOUR_MS - 1);
    const isPlayed = random() * BUSIEST_DAY <= WEEK[new Date(midnightMs).getUTCDay()]!;
    if (isPlayed && atMs >= firstMs && atMs <= endMs - SESSION_MAX_MS) return atMs;
  }
};

const playSession = ({ random, player, startMs, levels, add }: Session): void => {
  const { externalUserId, attributes } = player;
  let atMs = startMs;
  const happens = (eventType: string, properties: Record<string, unknown>) => {
    add({ atMs, externalUserId, eventType, properties });
    atMs += wholeFrom(random, 20_000, 240_000);
  };
  happens("session_started", attributes);
  for (let played = 0; played < levels; played++) {
    const stars = oneOf(random, [0, 1, 1, 2, 2, 2, 3]);
    const seconds = wholeFrom(random, 25, 180);
    happens("level_finished", { level: wholeFrom(random, 1, 40), stars, seconds });
    if (random() < 0.25) happens("gems_found", { count: wholeFrom(random, 1, 12) });
  }
  if (random() < 0.12) {
    const boss = oneOf(random, ["hydra", "golem", "kraken"]);
    happens("boss_defeated", {
      boss,
      damage: wholeFrom(random, 200, 4_000),
      seconds: wholeFrom(random, 60, 600),
    });
  }
};
