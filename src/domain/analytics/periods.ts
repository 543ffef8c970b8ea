import { type RawBuilder, sql } from "kysely";
import { invalid } from "../kernel/errors.ts";
import { bucketOf, calendarBuckets, intervalDays } from "./buckets.ts";
import { type CalendarInterval, dateOfDay, intervalAfter, intervalOf, monthOf } from "./calendar.ts";
import { eventsOf } from "./events.ts";
import type { Frame, Range } from "./range.ts";

/** Periods in which players may have come, and cells of all of them. */
export const COHORTS_MAX = 400;
export const CELLS_MAX = 10_000;

/**
 * Consecutive days, weeks or months of a calendar: the one at `i` is `[startsMs[i], startsMs[i + 1])`. The
 * first `cohorts` of them touch the range.
 */
export type Periods = {
  unit: CalendarInterval;
  cohorts: number;
  /** First local days. */
  days: readonly number[];
  startsMs: readonly number[];
};

type PeriodsQuery = { unit: CalendarInterval; cellsOfEach: number; later: number };

/**
 * Returns the periods that a range touches, and `later` more that begin behind them.
 * @throws DomainError VALIDATION_ERROR for more than COHORTS_MAX, or CELLS_MAX with `cellsOfEach`
 */
export const periodsOf = (
  frame: Frame,
  { firstDay, lastDay }: Range,
  { unit, cellsOfEach, later }: PeriodsQuery,
): Periods => {
  const tooMany = (what: string): Error => invalid("from", `gives more than ${what}: take a shorter range`);
  // Each unit has no more days than this, so that a long range is refused before it is divided.
  const most = { day: 1, week: 7, month: 31 }[unit] * COHORTS_MAX;
  if (lastDay - firstDay >= most) throw tooMany(`${COHORTS_MAX} ${unit}s`);
  const cohorts = intervalDays(frame, unit, firstDay, lastDay).length;
  if (cohorts > COHORTS_MAX) throw tooMany(`${COHORTS_MAX} ${unit}s`);
  if (cohorts * cellsOfEach > CELLS_MAX) throw tooMany(`${CELLS_MAX} cells`);
  const end = intervalAfter(unit, intervalOf(unit, lastDay, frame.weekStart), later + 1);
  const { days, startsMs } = calendarBuckets(frame, unit, { firstDay, lastDay: end });
  return { unit, cohorts, days, startsMs };
};

/** Returns the number of the period that contains an instant, which is not before the first one. */
export const periodAt = ({ startsMs }: Pick<Periods, "startsMs">, ms: number): number => {
  let [low, high] = [0, startsMs.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (startsMs[middle]! <= ms) low = middle;
    else high = middle - 1;
  }
  return low;
};

/**
 * Stretches of time between the instants that matter to a question: where periods begin, and where the range
 * begins and ends. Stretch -1 is all time before the range.
 */
export type Cuts = {
  atMs: readonly number[];
  /** By stretch: the period that it is part of. */
  periods: readonly number[];
  /** The stretches of the range are those from 0 to the one before this. */
  end: number;
};

/** Returns the stretches of a range and of the periods behind it, as far as there may be events. */
export const cutsOf = ({ asOfMs }: Frame, { startMs, endMs }: Range, periods: Periods): Cuts => {
  const known = new Set([startMs, endMs, ...periods.startsMs.filter((ms) => ms > startMs && ms < asOfMs)]);
  const atMs = [...known].toSorted((a, b) => a - b);
  return {
    atMs,
    periods: atMs.map((ms) => periodAt(periods, ms)),
    end: atMs.indexOf(endMs),
  };
};

/** The number of the stretch that contains an instant. */
export const stretchOf = ({ atMs }: Cuts, at: RawBuilder<unknown>): RawBuilder<unknown> =>
  bucketOf({ startsMs: atMs, endMs: Infinity }, at);

/**
 * A query of who did anything in which stretch: the columns player_id and c, any number of rows of each. All
 * time before the range is read too, because players are new by their first event ever.
 */
export const activeStretches = (frame: Frame, cuts: Cuts): RawBuilder<unknown> => sql`
  select e.player_id, ${stretchOf(cuts, sql`e.at`)} as c from (${eventsOf(frame)}) e`;

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

const shortDate = (day: number): string => {
  const [, month, date] = dateOfDay(day).split("-").map(Number) as [number, number, number];
  return `${MONTHS[month - 1]} ${date}`;
};

/** Returns a period as people name it: `Sep 1 - 7`, `Sep 29 - Oct 5`, `Sep 2014`, `Sep 1`. */
export const labelOf = (unit: CalendarInterval, day: number): string => {
  if (unit === "day") return shortDate(day);
  if (unit === "month")
    return `${MONTHS[new Date(day * 86_400_000).getUTCMonth()]} ${dateOfDay(day).slice(0, 4)}`;
  const last = day + 6;
  const end = monthOf(day) === monthOf(last) ? Number(dateOfDay(last).slice(8)) : shortDate(last);
  return `${shortDate(day)} - ${end}`;
};
