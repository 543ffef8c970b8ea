import { type RawBuilder, sql } from "kysely";
import { type ActiveBy, eachActivePlayer } from "./active-players.ts";
import type { Asked } from "./ask.ts";
import { rounded } from "./comparison.ts";
import { countAtMost } from "./events.ts";
import { dateOfDay, dayBuckets, dayStart, type Frame, localDay } from "./range.ts";
import { daysUntil } from "./rollups/closed-days.ts";
import { countDays, countPlayers, type Days } from "./rollups/day-sums.ts";
import { FoundPlayers, type Who } from "./rollups/rolled.ts";
import type { Work } from "../kernel/work.ts";
import { notFound } from "../kernel/errors.ts";

export const SEGMENT_GROUPS = ["lifecycle", "engagement", "level", "xp"] as const;
export type SegmentGroup = (typeof SEGMENT_GROUPS)[number];

/** Days, back from the last complete one, that decide; longer pauses are all the same. */
const WEEK_DAYS = 7;
const ENGAGEMENT_DAYS = 28;
const PAUSE_DAYS = 30;
/** A pause of 30 days before the last 7 begins within these. */
const KNOWN_DAYS = 40;

/** Whose segments: of players with an event before `untilMs`, by the days up to `lastDay`. */
type At = { lastDay: number; untilMs: number };

type Standing = { xp: number; level: number };

/** A player with the keys of the segments that he is in, as far as they are asked for. */
type Place = { who: Who; keys: Partial<Record<SegmentGroup, string>> } & Standing;

const NUMBER_BYTES = 16;

/** XP and levels of today of players by their numbers. */
const readByNumber = async ({ db }: Work, projectId: string): Promise<Map<number | string, Standing>> => {
  const { rows } = await sql<{ packed: Uint8Array }>`
    select string_agg(int4send(n.no) || float8send(p.xp::float8) || int4send(p.level), '') as packed
    from analytics_players n join players p on p.project_id = n.project_id and p.id = n.player_id
    where n.project_id = ${projectId}::uuid group by n.no >> 12`.execute(db);
  const standings = new Map<number | string, Standing>();
  for (const { packed } of rows) {
    const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
    for (let at = 0; at < view.byteLength; at += NUMBER_BYTES)
      standings.set(view.getInt32(at), { xp: view.getFloat64(at + 4), level: view.getInt32(at + 12) });
  }
  return standings;
};

/** Adds XP and levels of today to players, and the segments that those give. */
const addStandings = async (work: Work, projectId: string, places: readonly Place[]): Promise<void> => {
  const idOf = (who: Exclude<Who, number>): string => (typeof who === "string" ? who : who.id);
  const ids = places.flatMap(({ who }) => (typeof who === "number" ? [] : [idOf(who)]));
  const standings =
    ids.length < places.length ? await readByNumber(work, projectId) : new Map<number | string, Standing>();
  if (ids.length > 0) {
    const { rows } = await sql<{ id: string } & Standing>`
      select id::text as id, xp::float8 as xp, level from players where project_id = ${projectId}::uuid
        and id = any(${`{${ids.join(",")}}`}::uuid[])`.execute(work.db);
    for (const { id, ...standing } of rows) standings.set(id, standing);
  }
  for (const place of places)
    Object.assign(place, standings.get(typeof place.who === "number" ? place.who : idOf(place.who)));
  const bandOf = xpBands(places.map(({ xp }) => xp));
  for (const { keys, level, xp } of places)
    Object.assign(keys, { level: levelBandOf(level), xp: bandOf(xp) });
};

/** @param days on which there were events, ascending, as far as they decide */
const lifecycleOf = (lastDay: number, isNew: boolean, days: readonly number[]): string => {
  if (isNew) return "new";
  const week = lastDay - WEEK_DAYS + 1;
  const last = days.at(-1) ?? -Infinity;
  if (last >= week) {
    const before = days.findLast((day) => day < week) ?? -Infinity;
    return days.find((day) => day >= week)! - before >= PAUSE_DAYS ? "resurrected" : "active";
  }
  if (last > lastDay - 14) return "at_risk";
  return last > lastDay - 30 ? "dormant" : "churned";
};

const engagementOf = (lastDay: number, all: readonly number[]): string => {
  const days = all.filter((day) => day > lastDay - ENGAGEMENT_DAYS && day <= lastDay).length;
  if (days === 0) return "none";
  if (days <= 3) return "casual";
  if (days <= 11) return "regular";
  return days <= 19 ? "core" : "power";
};

const levelBandOf = (level: number): string => {
  if (level >= 50) return "50+";
  if (level >= 20) return "20-49";
  if (level >= 10) return "10-19";
  if (level >= 5) return "5-9";
  return level >= 2 ? "2-4" : "1";
};

/** Returns the band of an amount of XP, by how many of all have more. */
const xpBands = (amounts: readonly number[]): ((xp: number) => string) => {
  const sorted = Float64Array.from(amounts).toSorted();
  const everyone = sorted.length;
  const known = new Map<number, string>();
  const bandOf = (xp: number): string => {
    const better = everyone - countAtMost(sorted, xp);
    if (better * 100 < everyone) return "top_1";
    if (better * 10 < everyone) return "top_10";
    if (better * 4 < everyone) return "top_25";
    return better * 2 < everyone ? "top_50" : "rest";
  };
  return (xp) => {
    let band = known.get(xp);
    if (band === undefined) known.set(xp, (band = bandOf(xp)));
    return band;
  };
};

type Places = ActiveBy & { ats: readonly At[] };

/** Takes each player with an event before a moment, by when he was active until then: `at` is its place. */
const eachPlace = (
  work: Work,
  frame: Frame,
  { ats, types, filters }: Places,
  take: (place: Place, at: number) => void,
): Promise<void> => {
  const lastDays = ats.map(({ lastDay }) => lastDay);
  const firstDay = Math.min(...lastDays) - KNOWN_DAYS + 1;
  // The last day is the one that is going on: it makes a player active, but is no day that counts.
  const { startsMs } = dayBuckets(frame, firstDay, Math.max(...lastDays) + 1);
  // A moment divides its day.
  const cutsMs = [...new Set([...startsMs, ...ats.map(({ untilMs }) => untilMs)])].toSorted((a, b) => a - b);
  const dayOf = cutsMs.map((ms) => firstDay + countAtMost(startsMs, ms) - 1);
  const newMs = lastDays.map((lastDay) => dayStart(frame, lastDay - WEEK_DAYS + 1));
  const untilMs = Math.max(...ats.map((at) => at.untilMs));
  const question = { cutsMs, untilMs, types, filters, isOfThese: true, areCounted: false };
  return eachActivePlayer(work, frame, question, ({ who, firstMs, size, stretches }) => {
    for (const [i, at] of ats.entries()) {
      if (firstMs >= at.untilMs) continue;
      const days: number[] = [];
      for (let n = 0; n < size && cutsMs[stretches[n]!]! < at.untilMs; n++) {
        const day = dayOf[stretches[n]!]!;
        if (day !== days.at(-1)) days.push(day);
      }
      const lifecycle = lifecycleOf(at.lastDay, firstMs >= newMs[i]!, days);
      take({ who, xp: 0, level: 0, keys: { lifecycle, engagement: engagementOf(at.lastDay, days) } }, i);
    }
  });
};

type Definition = { key: string; label: string; definition: (lastDay: number) => string };

const dates = (lastDay: number, from: number, to: number): string =>
  `${dateOfDay(lastDay - to)}..${dateOfDay(lastDay - from)}`;

/** The segments of each group, in the order of its answer. */
export const SEGMENTS: Readonly<Record<SegmentGroup, readonly Definition[]>> = {
  lifecycle: [
    { key: "new", label: "New (7 days)", definition: (day) => `first active ${dates(day, 0, 6)}` },
    { key: "active", label: "Active", definition: (day) => `last active ${dates(day, 0, 6)}` },
    {
      key: "resurrected",
      label: "Resurrected",
      definition: (day) => `active ${dates(day, 0, 6)} after a pause of 30 days or more`,
    },
    { key: "at_risk", label: "At risk", definition: (day) => `last active ${dates(day, 7, 13)}` },
    { key: "dormant", label: "Dormant", definition: (day) => `last active ${dates(day, 14, 29)}` },
    {
      key: "churned",
      label: "Churned",
      definition: (day) => `last active ${dateOfDay(day - 30)} or before`,
    },
  ],
  engagement: [
    ["none", "None", "on no day"],
    ["casual", "Casual", "on 1 to 3 days"],
    ["regular", "Regular", "on 4 to 11 days"],
    ["core", "Core", "on 12 to 19 days"],
    ["power", "Power", "on 20 to 28 days"],
  ].map(([key, label, text]) => ({
    key: key!,
    label: label!,
    definition: (day) => `active ${text!} of ${dates(day, 0, 27)}`,
  })),
  level: [
    ["1", "Level 1"],
    ["2-4", "Levels 2 to 4"],
    ["5-9", "Levels 5 to 9"],
    ["10-19", "Levels 10 to 19"],
    ["20-49", "Levels 20 to 49"],
    ["50+", "Level 50 and above"],
  ].map(([key, label]) => ({ key: key!, label: label!, definition: () => "by the level of today" })),
  xp: [
    ["top_1", "Top 1 %"],
    ["top_10", "Top 10 %"],
    ["top_25", "Top 25 %"],
    ["top_50", "Top 50 %"],
    ["rest", "The rest"],
  ].map(([key, label]) => ({
    key: key!,
    label: label!,
    definition: () => "by the XP of today, equal XP together",
  })),
};

/** The last local day that was over at `asOf`. */
const lastCompleteDay = (frame: Frame): number => localDay(frame, frame.asOfMs) - 1;

const nowOf = (frame: Frame): At => ({ lastDay: lastCompleteDay(frame), untilMs: frame.asOfMs });

const HISTORIC: ReadonlySet<SegmentGroup> = new Set(["lifecycle", "engagement"]);

/**
 * Finds the players whom `readSegments` counts in a segment.
 * @returns a query of their ids, in the column player_id
 * @throws DomainError NOT_FOUND for a segment that the group does not have
 */
export const findSegmentPlayers = async (
  work: Work,
  frame: Frame,
  { group, segment }: { group: SegmentGroup; segment: string },
  by: ActiveBy,
): Promise<RawBuilder<unknown>> => {
  if (!SEGMENTS[group].some(({ key }) => key === segment)) throw notFound("segment");
  const places: Place[] = [];
  await eachPlace(work, frame, { ats: [nowOf(frame)], ...by }, (place) => {
    if (!HISTORIC.has(group) || place.keys[group] === segment) places.push(place);
  });
  if (!HISTORIC.has(group)) await addStandings(work, frame.projectId, places);
  const players = new FoundPlayers();
  for (const { who, keys } of places) if (keys[group] === segment) players.add(who);
  return players.query(frame);
};

/**
 * Finds the segments of all players by when they were active.
 * @returns a query with the columns player_id, lifecycle and engagement
 */
export const findPlaces = async (work: Work, frame: Frame): Promise<RawBuilder<unknown>> => {
  const found = new Map<string, { keys: Place["keys"]; players: FoundPlayers }>();
  await eachPlace(work, frame, { ats: [nowOf(frame)] }, ({ who, keys }) => {
    const name = `${keys.lifecycle} ${keys.engagement}`;
    let one = found.get(name);
    if (!one) found.set(name, (one = { keys, players: new FoundPlayers() }));
    one.players.add(who);
  });
  // Without anybody there are the columns.
  const none = { keys: {} as Place["keys"], players: new FoundPlayers() };
  const parts = [none, ...found.values()].map(
    ({ keys: { lifecycle, engagement }, players }) => sql`
      select player_id, ${lifecycle ?? null}::text as lifecycle, ${engagement ?? null}::text as engagement
      from (${players.query(frame)}) q`,
  );
  return sql.join(parts, sql` union all `);
};

type Sum = { players: number } & Standing;
/** Players by group and segment, with the sums of their XP and levels. */
type Count = { sums: Map<string, Sum>; total: number };

const addPlace = (count: Count, groups: readonly SegmentGroup[], { keys, xp, level }: Place): void => {
  count.total++;
  for (const group of groups) {
    const name = `${group}:${keys[group]!}`;
    let sum = count.sums.get(name);
    if (!sum) count.sums.set(name, (sum = { players: 0, xp: 0, level: 0 }));
    sum.players++;
    sum.xp += xp;
    sum.level += level;
  }
};

/** Counts lifecycles by days that are added up, of which the last one is going on. */
const countLifecycles = (days: Days, { lastDay }: At): Count => {
  const [week, last] = [lastDay - WEEK_DAYS + 1, lastDay + 1];
  const activeSince = (first: number): number => countDays(days, { first, last }).active;
  let resurrected = 0;
  for (let day = week; day <= last; day++)
    for (const [before, players] of days.get(day)?.gaps ?? [])
      if (before < week && day - before >= PAUSE_DAYS) resurrected += players;
  const { active, fresh } = countDays(days, { first: week, last });
  const [fortnight, month] = [activeSince(lastDay - 13), activeSince(lastDay - 29)];
  const total = countPlayers(days, last);
  const players = {
    new: fresh,
    active: active - fresh - resurrected,
    resurrected,
    at_risk: fortnight - active,
    dormant: month - fortnight,
    churned: total - month,
  };
  const sums = Object.entries(players).map(
    ([key, count]) => [`lifecycle:${key}`, { players: count, xp: 0, level: 0 }] as const,
  );
  return { sums: new Map(sums), total };
};

/** What is asked of segments. `averages`: of XP and levels, too. */
export type SegmentsQuestion = ActiveBy & { groups: readonly SegmentGroup[]; averages: boolean };

/** Counts by days that are added up; undefined where those do not know. */
const countByDays = async (
  work: Work,
  frame: Frame,
  { groups, averages, types, filters = [] }: SegmentsQuestion,
  ats: readonly At[],
): Promise<Count[] | undefined> => {
  if (averages || types || filters.length > 0 || groups.some((group) => group !== "lifecycle"))
    return undefined;
  const counts: Count[] = [];
  for (const at of ats) {
    const days = await daysUntil(work, frame, at.untilMs);
    if (!days) return undefined;
    counts.push(countLifecycles(days, at));
  }
  return counts;
};

/** Counts by what is known of each player. */
const countByPlayers = async (
  work: Work,
  frame: Frame,
  { groups, averages, ...by }: SegmentsQuestion,
  ats: readonly At[],
): Promise<Count[]> => {
  const historic = groups.filter((group) => HISTORIC.has(group));
  const counts = ats.map((): Count => ({ sums: new Map(), total: 0 }));
  const places: Place[] = [];
  const needsStandings = averages || historic.length < groups.length;
  await eachPlace(work, frame, { ats, ...by }, (place, at) => {
    if (at === 0 && needsStandings) places.push(place);
    else addPlace(counts[at]!, historic, place);
  });
  if (needsStandings) await addStandings(work, frame.projectId, places);
  for (const place of places) addPlace(counts[0]!, groups, place);
  return counts;
};

/**
 * Reads how players divide into segments at `asOf`: each group has every player once. Of events of some types
 * or properties, players are those with such an event.
 */
export const readSegments = async (work: Work, { frame }: Asked, question: SegmentsQuestion) => {
  const { groups, averages } = question;
  const at = nowOf(frame);
  const { lastDay } = at;
  const then = { lastDay: lastDay - 7, untilMs: Math.min(frame.asOfMs, weekBefore(frame)) };
  const ats = groups.some((group) => HISTORIC.has(group)) ? [at, then] : [at];
  const counts =
    (await countByDays(work, frame, question, ats)) ?? (await countByPlayers(work, frame, question, ats));
  const [now, before] = counts as [Count, Count | undefined];
  return {
    lastDay: dateOfDay(lastDay),
    total: now.total,
    groups: groups.map((group) => ({
      key: group,
      segments: SEGMENTS[group].map(({ key, label, definition }) => ({
        key,
        label,
        definition: definition(lastDay),
        ...sizesOf(`${group}:${key}`, now, HISTORIC.has(group) ? before : undefined),
        ...(averages ? {} : { avgXp: null, avgLevel: null }),
      })),
    })),
  };
};

/** `before`: a week before; undefined for what is known of today alone. */
const sizesOf = (name: string, now: Count, before: Count | undefined) => {
  const { players, xp, level } = now.sums.get(name) ?? { players: 0, xp: 0, level: 0 };
  const previousPlayers = before ? (before.sums.get(name)?.players ?? 0) : null;
  const mean = (sum: number): number | null => (players === 0 ? null : rounded(sum / players, 2));
  return {
    players,
    share: now.total === 0 ? 0 : rounded(players / now.total, 6),
    previousPlayers,
    change: previousPlayers === null ? null : players - previousPlayers,
    avgXp: mean(xp),
    avgLevel: mean(level),
  };
};

/** The same time of the day, a week before `asOf`. */
const weekBefore = (frame: Frame): number => {
  const day = localDay(frame, frame.asOfMs);
  return dayStart(frame, day - 7) + (frame.asOfMs - dayStart(frame, day));
};
