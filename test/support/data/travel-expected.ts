import { BADGE_XP, COMMENTS_A_DAY, COUNTERS, type Line, PROJECT_ZONE, XP, zoneOf } from "./travel.ts";

/**
 * What the definitions of travel.ts give each player, computed apart from the service: plain loops over the
 * file, local dates by Intl. Nothing here is imported from src.
 */
export type ExpectedPlayer = {
  xp: number;
  level: number;
  counters: Record<string, number>;
  badges: string[];
  streaks: Record<string, [current: number, longest: number, freezes: number]>;
};

const formats = new Map<string, Intl.DateTimeFormat>();

/** The local date of an instant, `2012-03-25`. */
const dateIn = (zone: string, timestamp: string): string => {
  let format = formats.get(zone);
  if (!format) {
    format = new Intl.DateTimeFormat("en-CA", {
      timeZone: zone,
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
    });
    formats.set(zone, format);
  }
  return format.format(new Date(timestamp));
};

const dayOf = (date: string): number => Date.parse(`${date}T00:00Z`) / 86_400_000;
/** Weeks from Monday: 1970-01-05 was one. */
const weekOf = (date: string): number => Math.floor((dayOf(date) - 4) / 7);

/** The number of the local week of an instant. */
export const localWeek = (zone: string, timestamp: string): number => weekOf(dateIn(zone, timestamp));

const monthOf = (date: string): number => Number(date.slice(0, 4)) * 12 + Number(date.slice(5, 7));

/** The level by the default curve: 100 XP for the first step, 50 more for each further one. */
const levelOf = (xp: number): number => {
  let [level, needed] = [1, 100];
  while (level < 100 && xp >= needed) {
    level++;
    needed += 100 + 50 * (level - 1);
  }
  return level;
};

/** Current run at the last period, and the longest: periods in order, some more than once. */
const runs = (periods: readonly number[]): [current: number, longest: number, freezes: number] => {
  let [current, longest, last] = [0, 0, Number.NaN];
  for (const period of periods) {
    if (period === last) continue;
    current = period === last + 1 ? current + 1 : 1;
    longest = Math.max(longest, current);
    last = period;
  }
  return [current, longest, 0];
};

/** The same with freezes: one at first, one more with each fifth period of a run, three at most. */
const frozenRuns = (periods: readonly number[]): [current: number, longest: number, freezes: number] => {
  let [current, longest, freezes, last] = [0, 0, 1, Number.NaN];
  for (const period of periods) {
    if (period === last) continue;
    const missed = Number.isNaN(last) ? 0 : period - last - 1;
    // Those that there are are used, also where they do not suffice.
    const used = Math.min(missed, freezes);
    freezes -= used;
    current = missed > used ? 1 : current + 1;
    if (current % 5 === 0) freezes = Math.min(3, freezes + 1);
    longest = Math.max(longest, current);
    last = period;
  }
  return [current, longest, freezes];
};

const xpOf = (lines: readonly Line[], zone: string): number => {
  let xp = 0;
  const comments = new Map<string, number>();
  for (const { eventType, properties, timestamp } of lines) {
    if (eventType === "question_asked" || eventType === "answer_posted") xp += XP[eventType];
    if (eventType === "badge_earned") xp += BADGE_XP[properties["tier"] as keyof typeof BADGE_XP];
    if (eventType !== "comment_posted") continue;
    const date = dateIn(zone, timestamp);
    const before = comments.get(date) ?? 0;
    if (before < COMMENTS_A_DAY) xp += XP.comment_posted;
    comments.set(date, before + 1);
  }
  return xp;
};

type Counted = { counters: Record<string, number>; badges: string[] };

const countAll = (lines: readonly Line[]): Counted => {
  const counters = { comments: 0, answers: 0, score: 0, kinds: 0 };
  const names = new Set<unknown>();
  const badges = new Set<string>();
  for (const { eventType, properties } of lines) {
    if (eventType === "comment_posted") counters.comments++;
    if (eventType === "answer_posted") counters.answers++;
    if (eventType === "answer_posted" || eventType === "question_asked")
      counters.score += Number(properties["score"]);
    if (eventType === "badge_earned") counters.kinds = names.add(properties["badge"]).size;
    for (const { key, threshold } of COUNTERS)
      if (counters[key as keyof typeof counters] >= threshold) badges.add(key);
  }
  return { counters, badges: [...badges] };
};

const isPost = ({ eventType }: Line): boolean =>
  ["question_asked", "answer_posted", "comment_posted"].includes(eventType);

/** Of weeks with five comments that scored something; a comment that did shows that weeks have passed. */
const fives = (lines: readonly Line[], zone: string): ReturnType<typeof runs> => {
  const weeks = new Map<number, number>();
  for (const { eventType, properties, timestamp } of lines) {
    if (eventType !== "comment_posted" || Number(properties["score"]) < 1) continue;
    const week = weekOf(dateIn(zone, timestamp));
    weeks.set(week, (weeks.get(week) ?? 0) + 1);
  }
  const done = [...weeks].filter(([, comments]) => comments >= 5).map(([week]) => week);
  const [current, longest, freezes] = runs(done);
  const isOver = Math.max(...weeks.keys()) > Math.max(...done) + 1;
  return [isOver ? 0 : current, longest, freezes];
};

const streaksOf = (lines: readonly Line[], zone: string): ExpectedPlayer["streaks"] => {
  const posts = lines.filter(isPost);
  const asked = posts.filter(({ eventType }) => eventType !== "comment_posted");
  const datesIn = (where: string) => posts.map(({ timestamp }) => dateIn(where, timestamp));
  const days = datesIn(zone).map(dayOf);
  return {
    daily: runs(days),
    "daily-project": runs(datesIn(PROJECT_ZONE).map(dayOf)),
    "daily-frozen": frozenRuns(days),
    weekly: runs(asked.map(({ timestamp }) => weekOf(dateIn(zone, timestamp)))),
    "weekly-five": fives(lines, zone),
    monthly: runs(datesIn(PROJECT_ZONE).map(monthOf)),
  };
};

const expectedOf = (player: string, lines: readonly Line[]): ExpectedPlayer => {
  const zone = zoneOf(player);
  const xp = xpOf(lines, zone);
  return { xp, level: levelOf(xp), ...countAll(lines), streaks: streaksOf(lines, zone) };
};

export const expectedPlayers = (lines: readonly Line[]): Map<string, ExpectedPlayer> => {
  const byPlayer = new Map<string, Line[]>();
  for (const line of lines) {
    const own = byPlayer.get(line.externalUserId);
    if (own) own.push(line);
    else byPlayer.set(line.externalUserId, [line]);
  }
  return new Map([...byPlayer].map(([player, own]) => [player, expectedOf(player, own)]));
};
