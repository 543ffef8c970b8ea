import type { RawBuilder } from "kysely";
import { eachActivePlayer } from "./active-players.ts";
import { dayBuckets, daysOf, dayStart, type Frame, type Range, untilAsOf } from "./range.ts";
import { daysUntil } from "./rollups/closed-days.ts";
import { countDays, type Days } from "./rollups/day-sums.ts";
import { FoundPlayers } from "./rollups/rolled.ts";
import type { Work } from "../kernel/work.ts";

/** Event types that make a player active; undefined: every type. */
export type ActiveEvents = readonly string[] | undefined;

/** Windows of active players that end with a range, in days. */
export const WEEK_DAYS = 7;
export const MONTH_DAYS = 30;

/** Whose players are measured, when, and by which events they are active. */
type Measuring = { work: Work; frame: Frame; range: Range; activeEvents: ActiveEvents };

/** What players did in a range. Series have a value for each of its local days. */
type Activity = {
  active: number;
  /** Of those, players who had an event before: where only some events make active. */
  returning?: number;
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

/** Measures what players did in a range. Events of all types are counted, whichever make active. */
export const measureActivity = async (measuring: Measuring): Promise<Activity> => {
  const { work, frame, range, activeEvents } = measuring;
  const isWhole = range.startMs === dayStart(frame, range.firstDay);
  const closed = isWhole ? await daysUntil(work, frame, untilAsOf(frame, range).endMs) : undefined;
  const all = closed
    ? activityOfDays(closed, range)
    : await activityOfPlayers({ ...measuring, activeEvents: undefined });
  if (activeEvents === undefined) return all;
  const { events, dailyEvents } = all;
  return { ...(await activityOfPlayers(measuring)), events, dailyEvents };
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

const activityOfPlayers = async ({ work, frame, range, activeEvents }: Measuring): Promise<Activity> => {
  const firstDay = Math.min(range.firstDay, range.lastDay - MONTH_DAYS + 1);
  const days = range.lastDay - firstDay + 1;
  const buckets = dayBuckets(frame, firstDay, range.lastDay);
  // The range may begin within a day.
  const cutsMs = [...new Set([...buckets.startsMs, range.startMs])].toSorted((a, b) => a - b);
  const dayOf = Int32Array.from(cutsMs, (ms) => buckets.startsMs.findLastIndex((start) => start <= ms));
  const firstInRange = cutsMs.indexOf(range.startMs);
  const question = {
    cutsMs,
    untilMs: untilAsOf(frame, range).endMs,
    types: activeEvents,
    isOfActive: activeEvents === undefined,
  };
  const dayActive = new Int32Array(days);
  const dayEvents = new Float64Array(days);
  const monthActive = new Int32Array(days);
  let [active, returning, month, week] = [0, 0, 0, 0];
  await eachActivePlayer(work, frame, question, ({ firstMs, size, stretches: those, counts }) => {
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
    if (lastInRange >= 0) {
      active++;
      if (firstMs < range.startMs) returning++;
    }
    if (last >= days - MONTH_DAYS) month++;
    if (last >= days - WEEK_DAYS) week++;
  });
  const dailyActive = [...dayActive.subarray(days - daysOf(range))];
  const dailyEvents = [...dayEvents.subarray(days - daysOf(range))];
  return {
    active,
    ...(activeEvents && { returning }),
    events: sumOf(dailyEvents),
    wau: week,
    mau: month,
    dailyActive,
    dau: sumOf(dailyActive) / daysOf(range),
    dailyEvents,
    monthlyDau: sumOf([...monthActive.subarray(days - MONTH_DAYS)]) / MONTH_DAYS,
  };
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
  const question = { cutsMs: [startMs], untilMs: endMs, types: activeEvents, areCounted: false };
  const found = new FoundPlayers();
  await eachActivePlayer(work, frame, question, ({ who, size, firstMs }) => {
    const [isActive, isNew] = [size > 0, firstMs >= startMs];
    const isCounted: Readonly<Record<ListedMetric, boolean>> = {
      activePlayers: isActive,
      newPlayers: isNew,
      returningPlayers: isActive && !isNew,
      totalPlayers: true,
    };
    if (isCounted[metric]) found.add(who);
  });
  return found.query(frame);
};
