import { type RawBuilder, sql } from "kysely";
import { eventsOf, instant, textList } from "./events.ts";
import {
  bucketOf,
  type Buckets,
  dayBuckets,
  daysOf,
  dayStart,
  type Frame,
  type Range,
  untilAsOf,
} from "./range.ts";
import { daysUntil } from "./rollups/closed-days.ts";
import { countDays, type Days } from "./rollups/day-sums.ts";
import { areDivisible, eachRolledPlayer } from "./rollups/players.ts";
import { FoundPlayers, openRolled, type Rolled } from "./rollups/rolled.ts";
import type { Work } from "../kernel/work.ts";

/** Event types that make a player active; undefined: every type. */
export type ActiveEvents = readonly string[] | undefined;

type ActivePlayers = {
  buckets: Buckets;
  /** Events before it are marked as not in the range; `buckets` may begin earlier. In ms. */
  startMs: number;
  untilMs: number;
  activeEvents?: ActiveEvents;
};

/**
 * A query of who did how much when: the columns player_id, d (the number of the bucket), in_range, events and
 * active (of those, events that make a player active).
 */
export const activityOf = (
  frame: Frame,
  { buckets, startMs, untilMs, activeEvents }: ActivePlayers,
): RawBuilder<unknown> => {
  const isActive =
    activeEvents === undefined ? sql`` : sql`filter (where e.event_type in ${textList(activeEvents)})`;
  return sql`
    select e.player_id, ${bucketOf(buckets, sql`e.at`)} as d, e.at >= ${instant(startMs)} as in_range,
      count(*) as events, count(*) ${isActive} as active
    from (${eventsOf(frame, { fromMs: buckets.startsMs[0]!, untilMs })}) e
    group by 1, 2, 3`;
};

/** A query of players with the time of their first event ever: the columns player_id and first_at. */
export const firstsOf = (frame: Frame): RawBuilder<unknown> => sql`
  select e.player_id, min(e.at) as first_at from (${eventsOf(frame)}) e group by 1`;

/** Windows of active players that end with a range, in days. */
export const WEEK_DAYS = 7;
export const MONTH_DAYS = 30;

/** Whose players are measured, when, and by which events they are active. */
type Measuring = { work: Work; frame: Frame; range: Range; activeEvents: ActiveEvents };

/** What players did in a range. Series have a value for each of its local days. */
type Activity = {
  active: number;
  events: number;
  /** Active in the 7 and 30 days that end with the range. */
  wau: number;
  mau: number;
  dailyActive: number[];
  dailyEvents: number[];
  /** The mean of daily active players: of the range, and of the 30 days that end with it. */
  dau: number;
  monthlyDau: number;
};

export const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, n) => sum + n, 0);

type ActivityRow = {
  /** The number of the day; null in the row of all days. */
  d: number | null;
  active: number;
  month: number;
  week: number;
  events: number | null;
};

/** Measures what players did in a range. */
export const measureActivity = async (measuring: Measuring): Promise<Activity> => {
  const { work, frame, range, activeEvents } = measuring;
  const firstDay = Math.min(range.firstDay, range.lastDay - MONTH_DAYS + 1);
  const days = range.lastDay - firstDay + 1;
  const buckets = dayBuckets(frame, firstDay, range.lastDay);
  const isWhole = activeEvents === undefined && range.startMs === dayStart(frame, range.firstDay);
  const closed = isWhole ? await daysUntil(work, frame, untilAsOf(frame, range).endMs) : undefined;
  if (closed) return activityOfDays(closed, range);
  const rolled = activeEvents === undefined ? await openRolled(work, frame) : undefined;
  const found = rolled && (await activityFromRollups(measuring, rolled, { buckets, days }));
  if (found) return found;
  const activity = activityOf(frame, {
    buckets,
    startMs: range.startMs,
    untilMs: untilAsOf(frame, range).endMs,
    activeEvents,
  });
  const counts = sql`
    count(distinct player_id) filter (where active > 0 and in_range) as active,
    count(distinct player_id) filter (where active > 0 and d >= ${days - MONTH_DAYS}::int) as month,
    count(distinct player_id) filter (where active > 0 and d >= ${days - WEEK_DAYS}::int) as week,
    sum(events) filter (where in_range) as events`;
  const { rows } = await sql<ActivityRow>`
    with a as materialized (${activity})
    select d, ${counts} from a group by d union all select null, ${counts} from a`.execute(work.db);
  const byDay = new Map(rows.map((row) => [row.d, row]));
  const all = byDay.get(null)!;
  const series = (count: number, read: (row: ActivityRow) => number | null): number[] =>
    Array.from({ length: count }, (_, i) => {
      const row = byDay.get(days - count + i);
      return (row && read(row)) ?? 0;
    });
  const monthly = series(MONTH_DAYS, ({ month }) => month);
  const dailyActive = series(daysOf(range), ({ active }) => active);
  return {
    active: all.active,
    events: all.events ?? 0,
    wau: all.week,
    mau: all.month,
    dailyActive,
    dau: sumOf(dailyActive) / daysOf(range),
    dailyEvents: series(daysOf(range), ({ events }) => events),
    monthlyDau: sumOf(monthly) / MONTH_DAYS,
  };
};

const activityOfDays = (days: Days, { firstDay, lastDay }: Range): Activity => {
  const byDay = Array.from({ length: lastDay - firstDay + 1 }, (_, i) =>
    countDays(days, { first: firstDay + i, last: firstDay + i }),
  );
  const dailyActive = byDay.map(({ active }) => active);
  const { active, events } = countDays(days, { first: firstDay, last: lastDay });
  const month = { first: lastDay - MONTH_DAYS + 1, last: lastDay };
  let monthly = 0;
  for (let day = month.first; day <= lastDay; day++)
    monthly += countDays(days, { first: day, last: day }).active;
  return {
    active,
    events,
    wau: countDays(days, { first: lastDay - WEEK_DAYS + 1, last: lastDay }).active,
    mau: countDays(days, month).active,
    dailyActive,
    dau: sumOf(dailyActive) / dailyActive.length,
    dailyEvents: byDay.map((one) => one.events),
    monthlyDau: monthly / MONTH_DAYS,
  };
};

/** Measures what players did by rollups; undefined where the days divide quarters of an hour. */
const activityFromRollups = async (
  { work, frame, range }: Measuring,
  rolled: Rolled,
  { buckets, days }: { buckets: Buckets; days: number },
): Promise<Activity | undefined> => {
  const untilMs = untilAsOf(frame, range).endMs;
  // The range may begin within a day.
  const cutsMs = [...new Set([...buckets.startsMs, range.startMs])].toSorted((a, b) => a - b);
  const dayOf = Int32Array.from(cutsMs, (ms) => buckets.startsMs.findLastIndex((start) => start <= ms));
  const firstInRange = cutsMs.indexOf(range.startMs);
  const stretches = { cutsMs, untilMs };
  if (!areDivisible(stretches)) return undefined;
  const dayActive = new Int32Array(days);
  const dayEvents = new Float64Array(days);
  const monthActive = new Int32Array(days);
  let [active, month, week] = [0, 0, 0];
  await eachRolledPlayer(work, rolled, stretches, ({ size, stretches: those, counts }) => {
    let [last, lastInRange] = [-1, -1];
    for (let i = 0; i < size; i++) {
      const day = dayOf[those[i]!]!;
      if (day !== last && day >= days - MONTH_DAYS) monthActive[day]! += 1;
      last = day;
      if (those[i]! < firstInRange) continue;
      dayEvents[day]! += counts[i]!;
      if (day !== lastInRange) dayActive[day]! += 1;
      lastInRange = day;
    }
    if (lastInRange >= 0) active++;
    if (last >= days - MONTH_DAYS) month++;
    if (last >= days - WEEK_DAYS) week++;
  });
  const dailyActive = [...dayActive.subarray(days - daysOf(range))];
  const dailyEvents = [...dayEvents.subarray(days - daysOf(range))];
  return {
    active,
    events: sumOf(dailyEvents),
    wau: week,
    mau: month,
    dailyActive,
    dau: sumOf(dailyActive) / daysOf(range),
    dailyEvents,
    monthlyDau: sumOf([...monthActive.subarray(days - MONTH_DAYS)]) / MONTH_DAYS,
  };
};

/** Counts the players who were active in a range and had their first event before it. */
export const countReturning = async ({ work, frame, range, activeEvents }: Measuring): Promise<number> => {
  const { startMs, endMs } = untilAsOf(frame, range);
  const activity = activityOf(frame, {
    buckets: { startsMs: [startMs], endMs },
    startMs,
    untilMs: endMs,
    activeEvents,
  });
  const { rows } = await sql<{ n: number }>`
    select count(distinct a.player_id) as n from (${activity}) a join (${firstsOf(frame)}) f using (player_id)
    where a.active > 0 and f.first_at < ${instant(startMs)}`.execute(work.db);
  return rows[0]!.n;
};

/** Metrics of the overview whose players can be listed. */
export const LISTED_METRICS = ["activePlayers", "newPlayers", "returningPlayers", "totalPlayers"] as const;
export type ListedMetric = (typeof LISTED_METRICS)[number];

/**
 * Finds the players whom a metric of the overview counts.
 * @returns a query of their ids, in the column player_id
 */
export const findMeasured = async (
  { work, frame, range, activeEvents }: Measuring,
  metric: ListedMetric,
): Promise<RawBuilder<unknown>> => {
  const { startMs, endMs } = untilAsOf(frame, range);
  const stretches = { cutsMs: [startMs], untilMs: endMs, types: activeEvents, areCounted: false };
  const rolled = areDivisible(stretches) ? await openRolled(work, frame) : undefined;
  if (!rolled) {
    const buckets = { startsMs: [startMs], endMs };
    const conditions: Readonly<Record<ListedMetric, RawBuilder<unknown>>> = {
      activePlayers: sql`a.active > 0`,
      newPlayers: sql`f.first_at >= ${instant(startMs)}`,
      returningPlayers: sql`a.active > 0 and f.first_at < ${instant(startMs)}`,
      totalPlayers: sql`true`,
    };
    return sql`
      select f.player_id from (${firstsOf(frame)}) f left join (
        select player_id, sum(active) as active
        from (${activityOf(frame, { buckets, startMs, untilMs: endMs, activeEvents })}) x group by 1) a
        on a.player_id = f.player_id
      where f.first_at < ${instant(endMs)} and ${conditions[metric]}`;
  }
  const found = new FoundPlayers();
  await eachRolledPlayer(work, rolled, stretches, ({ who, size, firstMs }) => {
    const [isActive, isNew] = [size > 0, firstMs >= startMs];
    const isCounted: Readonly<Record<ListedMetric, boolean>> = {
      activePlayers: isActive,
      newPlayers: isNew,
      returningPlayers: isActive && !isNew,
      totalPlayers: true,
    };
    if (firstMs < endMs && isCounted[metric]) found.add(who);
  });
  return found.query(frame);
};
