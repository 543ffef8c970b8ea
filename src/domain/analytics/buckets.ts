import { type RawBuilder, sql } from "kysely";
import { offsetAt } from "../kernel/zones.ts";
import { type CalendarInterval, dayStart, intervalAfter, intervalOf } from "./calendar.ts";
import { type Frame, POINTS_MAX, type Range } from "./range.ts";
import { invalid } from "../kernel/errors.ts";

const HOUR_MS = 3_600_000;
const QUARTER_MS = 900_000;
const DAY_MS = 24 * HOUR_MS;
/** Zones are asked once a week where the offset is the same at both ends: none changes twice within one. */
const PROBE_DAYS = 7;

/**
 * Consecutive stretches of time: the one at `i` is `[startsMs[i], startsMs[i + 1])`, the last one ends at
 * `endMs`. Computed here and passed to the database, so that both go by the same calendars of zones.
 */
export type Buckets = { startsMs: readonly number[]; endMs: number };

export const INTERVALS = ["hour", "day", "week", "month"] as const;
export type Interval = (typeof INTERVALS)[number];

/** Returns the first instants of the local days `first` to `last`, in ms. */
export const dayStarts = (zone: string, first: number, last: number): number[] => {
  const starts: number[] = [];
  for (let day = first; day <= last;) {
    const week = Math.min(PROBE_DAYS, last - day + 1);
    const start = dayStart(zone, day);
    const offset = offsetAt(zone, start);
    const isSteady =
      start === day * DAY_MS - offset &&
      offset === offsetAt(zone, start + week * DAY_MS) &&
      offset === offsetAt(zone, start + (week * DAY_MS) / 2);
    for (let i = 0; i < week; i++)
      starts.push(isSteady ? start + i * DAY_MS : i === 0 ? start : dayStart(zone, day + i));
    day += week;
  }
  return starts;
};

/** Returns the local days of a range, whole ones: also where the range begins or ends within one. */
export const dayBuckets = ({ timezone }: Frame, firstDay: number, lastDay: number): Buckets => {
  const starts = dayStarts(timezone, firstDay, lastDay + 1);
  return { startsMs: starts.slice(0, -1), endMs: starts.at(-1)! };
};

/** Returns the first days of the intervals that `firstDay` to `lastDay` touch. */
export const intervalDays = (
  { weekStart }: Frame,
  interval: CalendarInterval,
  firstDay: number,
  lastDay: number,
): number[] => {
  const days: number[] = [];
  let day = intervalOf(interval, firstDay, weekStart);
  for (; day <= lastDay; day = intervalAfter(interval, day)) days.push(day);
  return days;
};

/** Returns the whole local days, weeks or months that a range touches, with the first day of each. */
export const calendarBuckets = (
  frame: Frame,
  interval: CalendarInterval,
  { firstDay, lastDay }: Pick<Range, "firstDay" | "lastDay">,
): Buckets & { days: number[] } => {
  const days = intervalDays(frame, interval, firstDay, lastDay);
  if (interval === "day") return { ...dayBuckets(frame, firstDay, lastDay), days };
  const startsMs = days.map((day) => dayStart(frame.timezone, day));
  return { startsMs, endMs: dayStart(frame.timezone, intervalAfter(interval, days.at(-1)!)), days };
};

/** A local hour begins where the hour of the clock changes, and where the clock is put forward or back. */
const hoursOfDay = (zone: string, startMs: number, endMs: number): number[] => {
  const starts: number[] = [];
  let [hour, offset] = [Number.NaN, Number.NaN];
  for (let at = startMs; at < endMs; at += QUARTER_MS) {
    const offsetNow = offsetAt(zone, at);
    const hourNow = Math.floor((at + offsetNow) / HOUR_MS);
    if (hourNow !== hour || offsetNow !== offset) starts.push(at);
    [hour, offset] = [hourNow, offsetNow];
  }
  return starts;
};

/**
 * Returns the local hours of the days that a range touches.
 * @throws DomainError VALIDATION_ERROR for too many
 */
export const hourBuckets = ({ timezone }: Frame, { firstDay, lastDay }: Range): Buckets => {
  const days = dayStarts(timezone, firstDay, lastDay + 1);
  const endMs = days.at(-1)!;
  if ((endMs - days[0]!) / HOUR_MS > POINTS_MAX) throw tooManyPoints();
  const startsMs = days.slice(0, -1).flatMap((start, i) => {
    const next = days[i + 1]!;
    const isPlain = next - start === DAY_MS && offsetAt(timezone, start) % HOUR_MS === 0;
    return isPlain
      ? Array.from({ length: 24 }, (_, hour) => start + hour * HOUR_MS)
      : hoursOfDay(timezone, start, next);
  });
  return { startsMs, endMs };
};

export const tooManyPoints = (): Error =>
  invalid("interval", `gives more than ${POINTS_MAX} points: take a longer interval or a shorter range`);

/** The number of the bucket that contains an instant: -1 before the first, the last one after all of them. */
export const bucketOf = ({ startsMs }: Buckets, at: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`(width_bucket(${at}, ${isoArray(startsMs)}::timestamptz[]) - 1)`;

const isoArray = (instants: readonly number[]): string =>
  `{${instants.map((ms) => new Date(ms).toISOString()).join(",")}}`;

/** Returns the label of an instant that begins an hour: `2026-01-31T05:00` by the clock of the zone. */
export const hourLabel = (zone: string, ms: number): string =>
  new Date(ms + offsetAt(zone, ms)).toISOString().slice(0, 16);
