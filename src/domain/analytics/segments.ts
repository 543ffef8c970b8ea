import { type RawBuilder, sql } from "kysely";
import type { Asked } from "./ask.ts";
import { rounded } from "./comparison.ts";
import { countAtMost, eventsOf } from "./events.ts";
import { activityOf } from "./measure-players.ts";
import { bucketOf, type Buckets, dateOfDay, dayBuckets, dayStart, type Frame, localDay } from "./range.ts";
import { areDivisible, eachRolledPlayer, type RolledPlayer } from "./rollups/players.ts";
import { FoundPlayers, openRolled, type Person, type Rolled } from "./rollups/rolled.ts";
import type { Work } from "../kernel/work.ts";
import { notFound } from "../kernel/errors.ts";

export const SEGMENT_GROUPS = ["lifecycle", "engagement", "level", "xp"] as const;
export type SegmentGroup = (typeof SEGMENT_GROUPS)[number];

/** Days, back from the last complete one, that decide; longer pauses are all the same. */
const WINDOW_DAYS = 7;
const ENGAGEMENT_DAYS = 28;
const PAUSE_DAYS = 30;
/** A pause of 30 days before the last 7 begins within these. */
const KNOWN_DAYS = 40;

/** Whose segments: of players with an event before `untilMs`, by the days up to `lastDay`. */
type At = { lastDay: number; untilMs: number };

type Standing = { xp: number; level: number };

/** A player with the keys of the segments that he is in, and the XP and level of today. */
type Place = { who: RolledPlayer["who"]; keys: Record<SegmentGroup, string> } & Standing;

const NUMBER_BYTES = 16;

/** XP and levels of today: by number, and of persons. */
const readStandings = async (
  { db }: Work,
  { projectId, persons }: Rolled,
): Promise<(who: RolledPlayer["who"]) => Standing> => {
  const { rows } = await sql<{ packed: Uint8Array }>`
    select string_agg(int4send(n.no) || float8send(p.xp::float8) || int4send(p.level), '') as packed
    from analytics_players n join players p on p.project_id = n.project_id and p.id = n.player_id
    where n.project_id = ${projectId}::uuid group by n.no >> 12`.execute(db);
  const byNumber = new Map<number, Standing>();
  for (const { packed } of rows) {
    const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
    for (let at = 0; at < view.byteLength; at += NUMBER_BYTES)
      byNumber.set(view.getInt32(at), { xp: view.getFloat64(at + 4), level: view.getInt32(at + 12) });
  }
  const byPerson = new Map<Person, Standing>();
  if (persons.size > 0) {
    const found = await sql<{ id: string } & Standing>`
      select id::text as id, xp::float8 as xp, level from players where project_id = ${projectId}::uuid
        and id = any(${`{${[...persons.keys()].join(",")}}`}::uuid[])`.execute(db);
    for (const { id, xp, level } of found.rows) byPerson.set(persons.get(id)!, { xp, level });
  }
  return (who) => (typeof who === "number" ? byNumber.get(who)! : byPerson.get(who)!);
};

const lifecycleOf = (first: number, those: Float64Array): string => {
  const last = those.at(-1) ?? -1;
  const back = (days: number): number => KNOWN_DAYS - 1 - days;
  if (first >= back(WINDOW_DAYS - 1)) return "new";
  if (last >= back(WINDOW_DAYS - 1)) {
    const firstIn = those.find((day) => day >= back(WINDOW_DAYS - 1))!;
    const before = those.findLast((day) => day < back(WINDOW_DAYS - 1));
    return before === undefined || firstIn - before >= PAUSE_DAYS ? "resurrected" : "active";
  }
  if (last >= back(13)) return "at_risk";
  return last >= back(29) ? "dormant" : "churned";
};

const engagementOf = (those: Float64Array): string => {
  let days = 0;
  for (const day of those) if (day >= KNOWN_DAYS - ENGAGEMENT_DAYS && day < KNOWN_DAYS) days++;
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

const firstDayOf = ({ startsMs }: Buckets, firstMs: number): number =>
  startsMs.findLastIndex((start) => start <= firstMs);

const NO_STANDING: Standing = { xp: 0, level: 0 };

/**
 * Returns the segments of every player with an event before `untilMs`, from rollups; undefined where days
 * divide quarters of an hour.
 * @param hasStandings whether XP and levels are asked for, too: those of today
 */
const placesFromRollups = async (
  work: Work,
  { frame, rolled }: { frame: Frame; rolled: Rolled },
  { lastDay, untilMs }: At,
  hasStandings: boolean,
): Promise<Place[] | undefined> => {
  // The last bucket is the day that is going on: it makes a player active, but is no day that counts.
  const buckets = dayBuckets(frame, lastDay - KNOWN_DAYS + 1, lastDay + 1);
  const stretches = { cutsMs: buckets.startsMs, untilMs, areCounted: false };
  if (!areDivisible(stretches)) return undefined;
  const found: { who: RolledPlayer["who"]; lifecycle: string; engagement: string }[] = [];
  await eachRolledPlayer(work, rolled, stretches, ({ who, firstMs, size, stretches: all }) => {
    if (firstMs >= untilMs) return;
    const those = all.subarray(0, size);
    const lifecycle = lifecycleOf(firstDayOf(buckets, firstMs), those);
    found.push({ who, lifecycle, engagement: engagementOf(those) });
  });
  const standingOf = hasStandings ? await readStandings(work, rolled) : () => NO_STANDING;
  const standings = found.map(({ who }) => standingOf(who));
  const bandOf = xpBands(standings.map(({ xp }) => xp));
  return found.map(({ who, lifecycle, engagement }, i) => {
    const { xp, level } = standings[i]!;
    return { who, xp, level, keys: { lifecycle, engagement, level: levelBandOf(level), xp: bandOf(xp) } };
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
export const lastCompleteDay = (frame: Frame): number => localDay(frame, frame.asOfMs) - 1;

const LEVEL_BANDS = sql`case when p.level >= 50 then '50+' when p.level >= 20 then '20-49'
  when p.level >= 10 then '10-19' when p.level >= 5 then '5-9' when p.level >= 2 then '2-4' else '1' end`;

/** By the share of players who have more XP: those with equal XP are in the same, higher band. */
const XP_BANDS = sql`case when s.better < 0.01 * s.everyone then 'top_1'
  when s.better < 0.1 * s.everyone then 'top_10' when s.better < 0.25 * s.everyone then 'top_25'
  when s.better < 0.5 * s.everyone then 'top_50' else 'rest' end`;

/**
 * A query of the segments of every player with an event before `untilMs`: the columns player_id, lifecycle,
 * engagement, level and xp (keys of segments), points and stage (the player's XP and level of today). Lists
 * and counts come from it alike.
 */
export const segmentsOf = (frame: Frame, { lastDay, untilMs }: At): RawBuilder<unknown> => {
  // The last bucket is the day that is going on: it makes a player active, but is no day that counts.
  const buckets = dayBuckets(frame, lastDay - KNOWN_DAYS + 1, lastDay + 1);
  const activity = activityOf(frame, { buckets, startMs: buckets.startsMs[0]!, untilMs });
  const back = (days: number) => sql`${KNOWN_DAYS - 1 - days}::int`;
  return sql`
    select s.player_id,
      case when s.first_day >= ${back(WINDOW_DAYS - 1)} then 'new'
        when s.last_day >= ${back(WINDOW_DAYS - 1)} then
          case when coalesce(s.first_in - s.last_before >= ${PAUSE_DAYS}::int, true) then 'resurrected'
            else 'active' end
        when s.last_day >= ${back(13)} then 'at_risk' when s.last_day >= ${back(29)} then 'dormant'
        else 'churned' end as lifecycle,
      case when s.days = 0 then 'none' when s.days <= 3 then 'casual' when s.days <= 11 then 'regular'
        when s.days <= 19 then 'core' else 'power' end as engagement,
      s.level, ${XP_BANDS} as xp, s.points, s.stage
    from (
      select f.player_id, ${bucketOf(buckets, sql`f.first_at`)} as first_day,
        ${bucketOf(buckets, sql`f.last_at`)} as last_day, w.first_in, w.last_before,
        coalesce(w.days, 0) as days,
        ${LEVEL_BANDS} as level, p.xp as points, p.level as stage,
        rank() over (order by p.xp desc) - 1 as better, count(*) over () as everyone
      from (select player_id, min(at) as first_at, max(at) as last_at
        from (${eventsOf(frame, { untilMs })}) e group by 1) f
      join players p on p.project_id = ${frame.projectId}::uuid and p.id = f.player_id
      left join (
        select player_id, min(d) filter (where d >= ${back(WINDOW_DAYS - 1)}) as first_in,
          max(d) filter (where d < ${back(WINDOW_DAYS - 1)}) as last_before,
          count(distinct d) filter (where d between ${back(ENGAGEMENT_DAYS - 1)} and ${back(0)}) as days
        from (${activity}) a group by 1) w on w.player_id = f.player_id) s`;
};

type Counted = { players: number; avgXp: number; avgLevel: number };

type Count = { counted: ReadonlyMap<string, Counted>; total: number };

/** Counts the players of segments, by places. */
const countPlaces = (places: readonly Place[], groups: readonly SegmentGroup[]): Count => {
  const counted = new Map<string, Counted>();
  for (const group of groups) {
    const sums = new Map<string, { players: number; xp: number; levels: number }>();
    for (const { keys, xp, level } of places) {
      let sum = sums.get(keys[group]);
      if (!sum) sums.set(keys[group], (sum = { players: 0, xp: 0, levels: 0 }));
      sum.players++;
      sum.xp += xp;
      sum.levels += level;
    }
    for (const [key, { players, xp, levels }] of sums)
      counted.set(`${group}:${key}`, { players, avgXp: xp / players, avgLevel: levels / players });
  }
  return { counted, total: places.length };
};

/** Reads the places of players from rollups; undefined where they cannot tell. */
const placesAt = async (
  work: Work,
  frame: Frame,
  at: At,
  hasStandings = true,
): Promise<Place[] | undefined> => {
  const rolled = await openRolled(work, frame);
  return rolled && placesFromRollups(work, { frame, rolled }, at, hasStandings);
};

/**
 * Finds the players whom `readSegments` counts in a segment.
 * @returns a query of their ids, in the column player_id
 * @throws DomainError NOT_FOUND for a segment that the group does not have
 */
export const findSegmentPlayers = async (
  work: Work,
  frame: Frame,
  { group, segment }: { group: SegmentGroup; segment: string },
): Promise<RawBuilder<unknown>> => {
  if (!SEGMENTS[group].some(({ key }) => key === segment)) throw notFound("segment");
  const at = { lastDay: lastCompleteDay(frame), untilMs: frame.asOfMs };
  const places = await placesAt(work, frame, at);
  if (!places)
    return sql`select player_id from (${segmentsOf(frame, at)}) s where ${sql.ref(group)} = ${segment}`;
  const players = new FoundPlayers();
  for (const { who, keys } of places) if (keys[group] === segment) players.add(who);
  return players.query(frame);
};

/** @param isNow whether XP and levels of today are those of that time */
const count = async (
  work: Work,
  frame: Frame,
  at: At,
  { groups, isNow }: { groups: readonly SegmentGroup[]; isNow: boolean },
): Promise<Count> => {
  const places = await placesAt(work, frame, at, isNow);
  if (places) return countPlaces(places, groups);
  const columns = groups.map((group) => sql.ref(group));
  const { rows } = await sql<
    Partial<Record<SegmentGroup, string | null>> & { players: number; xp_mean: number; level_mean: number }
  >`
    select ${sql.join(columns)}, count(*) as players, avg(points)::float8 as xp_mean,
      avg(stage)::float8 as level_mean
    from (${segmentsOf(frame, at)}) s
    group by grouping sets (${sql.join(columns.map((column) => sql`(${column})`))}, ())`.execute(work.db);
  const counted = new Map<string, Counted>();
  let total = 0;
  for (const { players, xp_mean: avgXp, level_mean: avgLevel, ...keys } of rows) {
    const group = groups.find((name) => keys[name] !== null);
    if (group === undefined) total = players;
    else counted.set(`${group}:${keys[group]}`, { players, avgXp, avgLevel });
  }
  return { counted, total };
};

const HISTORIC: ReadonlySet<SegmentGroup> = new Set(["lifecycle", "engagement"]);

/** Reads how players divide into segments at `asOf`: each group has every player once. */
export const readSegments = async (work: Work, { frame }: Asked, groups: readonly SegmentGroup[]) => {
  const lastDay = lastCompleteDay(frame);
  const now = await count(work, frame, { lastDay, untilMs: frame.asOfMs }, { groups, isNow: true });
  const historic = groups.filter((group) => HISTORIC.has(group));
  const before =
    historic.length === 0
      ? undefined
      : await count(
          work,
          frame,
          { lastDay: lastDay - 7, untilMs: Math.min(frame.asOfMs, weekBefore(frame)) },
          { groups: historic, isNow: false },
        );
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
      })),
    })),
  };
};

const mean = (value: number | undefined): number | null => (value === undefined ? null : rounded(value, 2));

/** `before`: a week before; undefined for what is known of today alone. */
const sizesOf = (name: string, now: Count, before: Count | undefined) => {
  const found = now.counted.get(name);
  const players = found?.players ?? 0;
  const previousPlayers = before ? (before.counted.get(name)?.players ?? 0) : null;
  return {
    players,
    share: now.total === 0 ? 0 : rounded(players / now.total, 6),
    previousPlayers,
    change: previousPlayers === null ? null : players - previousPlayers,
    avgXp: mean(found?.avgXp),
    avgLevel: mean(found?.avgLevel),
  };
};

/** The same time of the day, a week before `asOf`. */
const weekBefore = (frame: Frame): number => {
  const day = localDay(frame, frame.asOfMs);
  return dayStart(frame, day - 7) + (frame.asOfMs - dayStart(frame, day));
};
