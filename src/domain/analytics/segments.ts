import { type RawBuilder, sql } from "kysely";
import type { Work } from "../kernel/work.ts";
import { activityOf } from "./activity.ts";
import type { Asked } from "./ask.ts";
import { bucketOf, dayBuckets } from "./buckets.ts";
import { dateOfDay, dayStart, localDay } from "./calendar.ts";
import { rounded } from "./comparison.ts";
import { eventsOf } from "./events.ts";
import type { Frame } from "./range.ts";
import { openRolled } from "./rollups/rolled.ts";
import { ENGAGEMENT_DAYS, KNOWN_DAYS, PAUSE_DAYS, type SegmentGroup, WINDOW_DAYS } from "./segment-days.ts";
import { type At, type Place, placesFromRollups } from "./segment-places.ts";

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
export const lastCompleteDay = ({ timezone, asOfMs }: Frame): number => localDay(timezone, asOfMs) - 1;

const LEVEL_BANDS = sql`case when p.level >= 50 then '50+' when p.level >= 20 then '20-49'
  when p.level >= 10 then '10-19' when p.level >= 5 then '5-9' when p.level >= 2 then '2-4' else '1' end`;

/** By the share of players who have more XP: those with equal XP are in the same, higher band. */
const XP_BANDS = sql`case when s.better < 0.01 * s.everyone then 'top_1'
  when s.better < 0.1 * s.everyone then 'top_10' when s.better < 0.25 * s.everyone then 'top_25'
  when s.better < 0.5 * s.everyone then 'top_50' else 'rest' end`;

/**
 * A query of the segments of every player with an event before `untilMs`: the columns player_id, lifecycle,
 * engagement, level and xp (keys of segments), points and stage (the player's XP and level of today), last_at
 * (the last event). Lists and counts come from it alike.
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
      s.level, ${XP_BANDS} as xp, s.points, s.stage, s.last_at
    from (
      select f.player_id, ${bucketOf(buckets, sql`f.first_at`)} as first_day,
        ${bucketOf(buckets, sql`f.last_at`)} as last_day, w.first_in, w.last_before,
        coalesce(w.days, 0) as days,
        ${LEVEL_BANDS} as level, p.xp as points, p.level as stage, f.last_at,
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

/** A segment as answers show it. `previousPlayers`: a week before; null for what is known of today alone. */
export type SegmentView = {
  key: string;
  label: string;
  definition: string;
  players: number;
  share: number;
  previousPlayers: number | null;
  change: number | null;
  avgXp: number | null;
  avgLevel: number | null;
};

export type Segmentation = {
  lastDay: string;
  total: number;
  groups: { key: SegmentGroup; segments: SegmentView[] }[];
};

type Counted = { players: number; avgXp: number; avgLevel: number };

type Count = { counted: ReadonlyMap<string, Counted>; total: number };

/** Counts the players of segments, by places. */
const countPlaces = (places: readonly Place[], groups: readonly SegmentGroup[]): Count => {
  const sums = new Map<string, { players: number; xp: number; levels: number }>();
  for (const { keys, xp, level } of places)
    for (const group of groups) {
      const name = `${group}:${keys[group]}`;
      const sum = sums.get(name) ?? { players: 0, xp: 0, levels: 0 };
      sums.set(name, { players: sum.players + 1, xp: sum.xp + xp, levels: sum.levels + level });
    }
  const counted = new Map(
    [...sums].map(([name, { players, xp, levels }]): [string, Counted] => [
      name,
      { players, avgXp: xp / players, avgLevel: levels / players },
    ]),
  );
  return { counted, total: places.length };
};

/** Reads the places of players from rollups; undefined where they cannot tell. */
export const placesAt = async (work: Work, frame: Frame, at: At): Promise<Place[] | undefined> => {
  const rolled = await openRolled(work, frame);
  return rolled && placesFromRollups(work, { frame, rolled }, at);
};

const count = async (work: Work, frame: Frame, at: At, groups: readonly SegmentGroup[]): Promise<Count> => {
  const places = await placesAt(work, frame, at);
  if (places) return countPlaces(places, groups);
  const columns = groups.map((group) => sql.ref(group));
  const { rows } = await sql<
    Partial<Record<SegmentGroup, string | null>> & { players: string; xp_mean: number; level_mean: number }
  >`
    select ${sql.join(columns)}, count(*) as players, avg(points)::float8 as xp_mean,
      avg(stage)::float8 as level_mean
    from (${segmentsOf(frame, at)}) s
    group by grouping sets (${sql.join(columns.map((column) => sql`(${column})`))}, ())`.execute(work.db);
  const counted = new Map<string, Counted>();
  let total = 0;
  for (const { players, xp_mean: avgXp, level_mean: avgLevel, ...keys } of rows) {
    const group = groups.find((name) => keys[name] !== null);
    if (group === undefined) total = Number(players);
    else counted.set(`${group}:${keys[group]}`, { players: Number(players), avgXp, avgLevel });
  }
  return { counted, total };
};

const HISTORIC: ReadonlySet<SegmentGroup> = new Set(["lifecycle", "engagement"]);

/** Reads how players divide into segments at `asOf`: each group has every player once. */
export const readSegments = async (
  work: Work,
  { frame }: Asked,
  groups: readonly SegmentGroup[],
): Promise<Segmentation> => {
  const lastDay = lastCompleteDay(frame);
  const now = await count(work, frame, { lastDay, untilMs: frame.asOfMs }, groups);
  const historic = groups.filter((group) => HISTORIC.has(group));
  const before =
    historic.length === 0
      ? undefined
      : await count(
          work,
          frame,
          { lastDay: lastDay - 7, untilMs: Math.min(frame.asOfMs, weekBefore(frame)) },
          historic,
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
const weekBefore = ({ timezone, asOfMs }: Frame): number => {
  const day = localDay(timezone, asOfMs);
  return dayStart(timezone, day - 7) + (asOfMs - dayStart(timezone, day));
};
