/** Generates numbers from 0 to below 1, the same for the same seed (mulberry32). */
export type Random = () => number;

export const createRandom = (seed: number): Random => {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
};

/** Returns a whole number from `low` to `high`, inclusive. */
export const wholeFrom = (random: Random, low: number, high: number): number =>
  low + Math.floor(random() * (high - low + 1));

export const oneOf = <T>(random: Random, values: readonly T[]): T =>
  values[Math.floor(random() * values.length)]!;

const CONSONANTS = "bdfgklmnprstvz".split("");
const VOWELS = "aeiou".split("");

/** Generates a pronounceable word: syllables of a consonant and a vowel, about 6 bits each. */
export const spokenWord = (random: Random, syllables: number): string =>
  Array.from({ length: syllables }, () => oneOf(random, CONSONANTS) + oneOf(random, VOWELS)).join("");

const ENDINGS = ["", "", "n", "r", "s", "l", "k"];

/** Generates a first and a last name. */
export const personName = (random: Random): { first: string; last: string } => ({
  first: capital(spokenWord(random, 2) + oneOf(random, ENDINGS)),
  last: capital(spokenWord(random, wholeFrom(random, 2, 3)) + oneOf(random, ENDINGS)),
});

export const capital = (word: string): string => word.slice(0, 1).toUpperCase() + word.slice(1);

export const DEMO_PLAYERS = 800;
export const DEMO_DAYS = 60;
/** About how often all players come back together; a visit has one to ten events. */
const RETURNS = 1_475;
/** Players before this index came early and keep coming; the others lose interest. */
const CORE = 50;
/** Players come back so many days after their first one in proportion to the day to this power. */
const DECAY = { core: -0.5, others: -0.8 } as const;
/** Part of their returns that players make only for the bonus which the holdout does not get. */
const RETURNS_FOR_BONUS = 0.4;

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
/** Hours of the day, repeated in proportion to their activity; most in the evening. */
const HOURS = [
  0, 7, 8, 12, 12, 13, 15, 16, 17, 17, 18, 18, 19, 19, 19, 20, 20, 20, 20, 21, 21, 21, 22, 22, 23,
];

type Timed = { atMs: number; externalUserId: string; eventType: string; properties: Record<string, unknown> };

/** A visit of a player. Which events it has is known before its time: their number depends on no date. */
type Visit = { levels: number; seed: number };

/** A player as made: when they join, in days from the first one, and what they do then and later. */
type Life = { player: DemoPlayer; joins: number; visits: Visit[] };

/**
 * Generates sixty days of history, always the same for the same end and the same holdout: each week more
 * players join than in the one before, most in the evening and at weekends; most of them come back a few
 * times in the next days, some hardly ever, and few keep coming.
 * @param endMs no event is later
 * @param isHeld whether a player does not get the bonus for coming back; they return less often
 */
export const demoHistory = (
  endMs: number,
  isHeld: (externalUserId: string) => boolean = () => false,
): DemoHistory => {
  const lives = livesOf(createRandom(SEED));
  moveReturns(lives, isHeld);
  const calendar = calendarUntil(endMs - SESSION_MAX_MS);
  const events: Timed[] = [];
  for (const [i, { player, joins, visits }] of lives.entries()) {
    const decay = i < CORE ? DECAY.core : DECAY.others;
    let joined: { day: number; atMs: number } | undefined;
    for (const visit of visits) {
      const clock = createRandom(visit.seed);
      const day = joined ? returnDay(clock, calendar, joined.day, decay) : joinDay(clock, calendar, joins);
      const atMs = startOn(clock, calendar, { day, fromMs: joined?.atMs ?? 0 });
      joined ??= { day, atMs };
      playSession(player, visit, { atMs, add: (event) => void events.push(event) });
    }
  }
  const players = lives.map(({ player }) => player);
  return { players, events: events.toSorted((a, b) => a.atMs - b.atMs).map(eventOf) };
};

/** Returns the players of every history, the most active first. */
export const demoPlayers = (): DemoPlayer[] => livesOf(createRandom(SEED)).map(({ player }) => player);

const livesOf = (random: Random): Life[] => {
  const weights = Array.from({ length: DEMO_PLAYERS }, (_, i) => 1 / (i + 10) ** 0.8);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight, i) => {
    const player = playerOf(random, i);
    const isCore = i < CORE;
    // More of the others the later: the game grows.
    const joins = Math.floor(DEMO_DAYS * (isCore ? random() * 0.5 : random() ** 0.75));
    const left = (1 - joins / DEMO_DAYS) ** 0.4;
    const returns = Math.floor((RETURNS * left * weight) / total + random());
    const visits = Array.from({ length: 1 + returns }, () => ({
      levels: isCore ? wholeFrom(random, 2, 4) : oneOf(random, [0, 1, 1, 1, 1, 2, 2, 3]),
      seed: wholeFrom(random, 0, 2 ** 31),
    }));
    return { player, joins, visits };
  });
};

/** Takes returns from players of the holdout, and gives them to the players that come next. */
const moveReturns = (lives: readonly Life[], isHeld: (externalUserId: string) => boolean): void => {
  const pool: Visit[] = [];
  let owed = 0;
  for (const { player, visits } of lives) {
    if (!isHeld(player.externalUserId)) {
      visits.push(...pool.splice(0));
      continue;
    }
    owed += (visits.length - 1) * RETURNS_FOR_BONUS;
    const moved = Math.min(Math.floor(owed), visits.length - 1);
    owed -= moved;
    pool.push(...visits.splice(visits.length - moved, moved));
  }
  lives.at(-1)!.visits.push(...pool);
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

/** The days of the history, how busy each is, and its end. */
type Calendar = { midnightsMs: number[]; weights: number[]; lastMs: number };

const calendarUntil = (lastMs: number): Calendar => {
  const today = Math.floor(lastMs / DAY_MS);
  const midnightsMs = Array.from({ length: DEMO_DAYS }, (_, i) => (today - DEMO_DAYS + 1 + i) * DAY_MS);
  const weights = midnightsMs.map((ms) => WEEK[new Date(ms).getUTCDay()]!);
  // Of today there is only a part.
  const hour = new Date(lastMs).getUTCHours();
  weights[DEMO_DAYS - 1]! *= (HOURS.filter((one) => one <= hour).length + 1) / (HOURS.length + 1);
  return { midnightsMs, weights, lastMs };
};

/** Returns a day from `first` to `last`, in proportion to its weight. */
const weighted = (random: Random, first: number, last: number, weightOf: (day: number) => number): number => {
  const days = Array.from({ length: last - first + 1 }, (_, i) => first + i);
  const sums: number[] = [];
  for (const day of days) sums.push((sums.at(-1) ?? 0) + weightOf(day));
  const wanted = random() * sums.at(-1)!;
  return days[
    Math.max(
      0,
      sums.findIndex((sum) => sum > wanted),
    )
  ]!;
};

/** Returns the day of a first visit: about the one it was made for, rather at a weekend. */
const joinDay = (random: Random, { weights }: Calendar, about: number): number =>
  weighted(random, Math.max(0, about - 3), Math.min(DEMO_DAYS - 1, about + 3), (day) => weights[day]!);

/** Returns the day of a return: soon after the first one; the first one itself where that is today. */
const returnDay = (random: Random, { weights }: Calendar, first: number, decay: number): number =>
  first === DEMO_DAYS - 1
    ? first
    : weighted(random, first + 1, DEMO_DAYS - 1, (day) => weights[day]! * (day - first) ** decay);

const TRIES = 20;

/** Returns a time of a day, not before `fromMs` and not behind the end of the history. */
const startOn = (
  random: Random,
  { midnightsMs, lastMs }: Calendar,
  { day, fromMs }: { day: number; fromMs: number },
): number => {
  const midnightMs = midnightsMs[day]!;
  for (let n = 0; n < TRIES; n++) {
    const atMs = midnightMs + oneOf(random, HOURS) * HOUR_MS + wholeFrom(random, 0, HOUR_MS - 1);
    if (atMs >= fromMs && atMs <= lastMs) return atMs;
  }
  return wholeFrom(random, Math.max(midnightMs, fromMs), Math.min(midnightMs + DAY_MS - 1, lastMs));
};

type Played = { atMs: number; add(event: Timed): void };

const playSession = (
  { externalUserId, attributes }: DemoPlayer,
  { levels, seed }: Visit,
  { atMs: startMs, add }: Played,
): void => {
  // A generator of its own, so that the events do not depend on their dates.
  const random = createRandom(seed + 1);
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
  if (levels > 0 && random() < 0.12) {
    const boss = oneOf(random, ["hydra", "golem", "kraken"]);
    happens("boss_defeated", {
      boss,
      damage: wholeFrom(random, 200, 4_000),
      seconds: wholeFrom(random, 60, 600),
    });
  }
};
