import { z } from "zod";
import { type RawBuilder, sql } from "kysely";
import { invalid } from "../kernel/errors.ts";
import { type ProjectSettings, settingsFrom } from "../evaluation/project-settings.ts";
import {
  type Calendar,
  isIanaName,
  offsetAt,
  plainCalendar,
  windowNumber,
  windowStart,
} from "../kernel/zones.ts";

export const DAY_MS = 86_400_000;

export const WEEK_STARTS = ["monday", "sunday"] as const;
export type WeekStart = (typeof WEEK_STARTS)[number];

export const CALENDAR_INTERVALS = ["day", "week", "month"] as const;
export type CalendarInterval = (typeof CALENDAR_INTERVALS)[number];

/** Returns the number of a date `YYYY-MM-DD` in days from 1970-01-01; undefined for a date that is none. */
export const dayOfDate = (date: string): number | undefined => {
  const match = /^(\d{4})-(\d{2})-(\d{2})$/.exec(date);
  if (!match) return undefined;
  const at = new Date(0);
  at.setUTCFullYear(Number(match[1]), Number(match[2]) - 1, Number(match[3]));
  return at.toISOString().slice(0, 10) === date ? at.getTime() / DAY_MS : undefined;
};

/** Returns the date `YYYY-MM-DD` of a day number. */
export const dateOfDay = (day: number): string => new Date(day * DAY_MS).toISOString().slice(0, 10);

/** What decides when days begin. */
export type DayFrame = {
  /** An IANA name: days are those of its calendar. */
  timezone: string;
  weekStart: WeekStart;
  /** How long after midnight days begin. */
  dayStartsMs: number;
};

/** A project's calendar as its row has it. */
export type ProjectDays = { timezone: string; settings: Partial<ProjectSettings> };

/**
 * Returns how days begin for a question: as in the project, unless it says otherwise.
 * @throws DomainError VALIDATION_ERROR for a zone that is none
 */
export const dayFrame = (
  project: ProjectDays,
  asked: { timezone?: string | undefined; weekStart?: WeekStart | undefined },
): DayFrame => {
  const { weekStartsOn, dayStartsAtMinutes } = settingsFrom(project.settings);
  return {
    timezone: checkZone(asked.timezone ?? project.timezone),
    weekStart: asked.weekStart ?? (weekStartsOn === 7 ? "sunday" : "monday"),
    dayStartsMs: dayStartsAtMinutes * 60_000,
  };
};

const calendarFor = ({ timezone, dayStartsMs }: DayFrame): Calendar => ({
  ...plainCalendar(timezone),
  dayStartsMs,
});

/** Returns the number of the local day that contains an instant. */
export const localDay = (frame: DayFrame, ms: number): number => windowNumber("DAY", calendarFor(frame), ms);

/** Returns the first instant of a local day in ms. */
export const dayStart = (frame: DayFrame, day: number): number => windowStart("DAY", calendarFor(frame), day);

/** Returns the day on which the week of a day begins. */
export const weekOf = (day: number, weekStart: WeekStart): number => {
  // 1970-01-01 was a Thursday.
  const since = (((day + (weekStart === "monday" ? 3 : 4)) % 7) + 7) % 7;
  return day - since;
};

/** Returns the first day of the month that is `months` after the month of a day. */
export const monthOf = (day: number, months = 0): number => {
  const date = new Date(day * DAY_MS);
  date.setUTCMonth(date.getUTCMonth() + months, 1);
  return date.getTime() / DAY_MS;
};

/** Returns the first day of the interval that contains a day. */
export const intervalOf = (interval: CalendarInterval, day: number, weekStart: WeekStart): number => {
  if (interval === "day") return day;
  return interval === "week" ? weekOf(day, weekStart) : monthOf(day);
};

/** Returns the first day of the interval that comes `count` after the one that begins on `first`. */
export const intervalAfter = (interval: CalendarInterval, first: number, count = 1): number => {
  if (interval === "month") return monthOf(first, count);
  return first + (interval === "week" ? 7 : 1) * count;
};

/** The most days of a range, and points of a series. */
export const POINTS_MAX = 10_000;
/** The most days of a series that are still to come: each takes as long as one that has events. */
const AHEAD_DAYS_MAX = 400;
const DEFAULT_DAYS = 30;

export const PERIODS = [
  "today",
  "yesterday",
  "7d",
  "30d",
  "90d",
  "mtd",
  "qtd",
  "ytd",
  "12mo",
  "all",
] as const;
type Period = (typeof PERIODS)[number];

/** What every question of analytics is about. Instants are ms. */
export type Frame = DayFrame & {
  projectId: string;
  /** Events at it or later do not exist for the question. */
  asOfMs: number;
  /** How far the project's clock is ahead of the server's: ids of events are of the server's. */
  aheadMs: number;
};

/** A stretch of time: `[startMs, endMs)`, which touches the local days `firstDay` to `lastDay`. */
export type Range = { startMs: number; endMs: number; firstDay: number; lastDay: number };

/** How a caller names a range: dates are local and inclusive, instants half-open. */
export type RangeQuery = { from?: string | undefined; to?: string | undefined; period?: Period | undefined };

/** @throws DomainError VALIDATION_ERROR for a zone that is none */
export const checkZone = (timezone: string): string => {
  if (!isIanaName(timezone)) throw invalid("timezone", "must be an IANA time zone, such as Europe/Berlin");
  return timezone;
};

/** Returns the range of whole local days. */
export const rangeOfDays = (frame: Frame, firstDay: number, lastDay: number): Range => ({
  startMs: dayStart(frame, firstDay),
  endMs: dayStart(frame, lastDay + 1),
  firstDay,
  lastDay,
});

/** Returns the local day that is going on at `asOf`: the last one of which there may be events. */
export const today = (frame: Frame): number => localDay(frame, frame.asOfMs - 1);

/** Returns the number of local days that a range touches. */
export const daysOf = ({ firstDay, lastDay }: Range): number => lastDay - firstDay + 1;

/** The number of the month of a day, from 0. */
const monthNumber = (day: number): number => new Date(day * DAY_MS).getUTCMonth();

/** The first day of each period that ends with the day that is going on. */
const FIRST_DAYS: Readonly<Record<Exclude<Period, "yesterday" | "all">, (last: number) => number>> = {
  today: (last) => last,
  "7d": (last) => last - 6,
  "30d": (last) => last - 29,
  "90d": (last) => last - 89,
  mtd: (last) => monthOf(last),
  qtd: (last) => monthOf(last, -(monthNumber(last) % 3)),
  ytd: (last) => monthOf(last, -monthNumber(last)),
  "12mo": (last) => monthOf(last, -11),
};

const rangeOfPeriod = (frame: Frame, period: Period, firstEventMs: number | undefined): Range => {
  const last = today(frame);
  if (period === "yesterday") return rangeOfDays(frame, last - 1, last - 1);
  if (period !== "all") return rangeOfDays(frame, FIRST_DAYS[period](last), last);
  const first = firstEventMs === undefined ? last : localDay(frame, firstEventMs);
  return rangeOfDays(frame, Math.min(last, first), last);
};

type Bound = { day: number } | { ms: number };

/** Years that the database, and the calendars of zones, can all count in. */
const OLDEST_MS = Date.UTC(1000, 0, 2);
const NEWEST_MS = Date.UTC(9998, 11, 30);

const boundOf = (field: string, text: string): Bound => {
  const day = dayOfDate(text);
  const ms = day === undefined ? timeOf(text) : day * DAY_MS;
  if (Number.isNaN(ms))
    throw invalid(field, "must be a date such as 2026-01-31, or a time with Z or an offset");
  if (ms < OLDEST_MS || ms > NEWEST_MS) throw invalid(field, "must be between the years 1000 and 9998");
  return day === undefined ? { ms } : { day };
};

const timeOf = (text: string): number => (/T.*(Z|[+-]\d\d:\d\d)$/.test(text) ? Date.parse(text) : Number.NaN);

/** @throws DomainError VALIDATION_ERROR for a moment that is none, or in the future */
export const readAsOf = (text: string | undefined, nowMs: number): number => {
  if (text === undefined) return nowMs;
  const bound = boundOf("asOf", text);
  if (!("ms" in bound)) throw invalid("asOf", "must be a time with Z or an offset");
  if (bound.ms > nowMs) throw invalid("asOf", "must not be in the future");
  return bound.ms;
};

/**
 * Returns the range that a query names; without names the last 30 local days up to `asOf`, or the `days` that
 * the plan allows if those are fewer.
 * @param firstEventMs the project's first event, for the period `all`
 * @param daysMax of a range, by default as many as a series may have points
 * @throws DomainError VALIDATION_ERROR for bounds that are none, in the wrong order, or too far apart
 */
export const rangeOf = (
  frame: Frame,
  { from, to, period }: RangeQuery,
  {
    days = DEFAULT_DAYS,
    daysMax,
    firstEventMs,
  }: { days?: number; daysMax?: number | undefined; firstEventMs?: number | undefined } = {},
): Range => {
  if (period !== undefined && (from !== undefined || to !== undefined))
    throw invalid("period", "give either a period, or from and to");
  if (period !== undefined) return bounded(frame, rangeOfPeriod(frame, period, firstEventMs), daysMax);
  const end = to === undefined ? { day: today(frame) } : boundOf("to", to);
  const { lastDay, endMs } = endOf(frame, end);
  const start =
    from === undefined ? { day: lastDay - Math.min(days, DEFAULT_DAYS) + 1 } : boundOf("from", from);
  const { firstDay, startMs } = startOf(frame, start);
  if (startMs >= endMs) throw invalid("to", "must not be before from");
  return bounded(frame, { startMs, endMs, firstDay, lastDay }, daysMax);
};

const startOf = (frame: Frame, bound: Bound): Pick<Range, "firstDay" | "startMs"> =>
  "day" in bound
    ? { firstDay: bound.day, startMs: dayStart(frame, bound.day) }
    : { firstDay: localDay(frame, bound.ms), startMs: bound.ms };

const endOf = (frame: Frame, bound: Bound): Pick<Range, "lastDay" | "endMs"> =>
  "day" in bound
    ? { lastDay: bound.day, endMs: dayStart(frame, bound.day + 1) }
    : { lastDay: localDay(frame, bound.ms - 1), endMs: bound.ms };

const bounded = ({ asOfMs }: Frame, range: Range, daysMax = POINTS_MAX): Range => {
  if (daysOf(range) > daysMax) throw invalid("from", `a range has at most ${daysMax} days`);
  if (daysMax < Infinity && range.endMs > asOfMs + AHEAD_DAYS_MAX * DAY_MS)
    throw invalid("to", `must be at most ${AHEAD_DAYS_MAX} days after asOf`);
  return range;
};

/** Returns a range as answers show it. */
export const showRange = ({ asOfMs }: Frame, range: Range) => ({
  from: dateOfDay(range.firstDay),
  to: dateOfDay(range.lastDay),
  start: new Date(range.startMs).toISOString(),
  end: new Date(range.endMs).toISOString(),
  days: daysOf(range),
  complete: range.endMs <= asOfMs,
});

/** A range as answers show it. */
export const RangeView = z
  .object({
    from: z.iso.date(),
    to: z.iso.date(),
    start: z.iso.datetime(),
    end: z.iso.datetime(),
    days: z.int(),
    complete: z.boolean().meta({ description: "Whether it was over at asOf" }),
  })
  .meta({ id: "AnalyticsRange" });
export type RangeView = z.output<typeof RangeView>;

/** Returns the part of a range that was over, or had passed, at `asOf`: no event is later. */
export const untilAsOf = ({ asOfMs }: Frame, range: Range): Range => ({
  ...range,
  endMs: Math.max(range.startMs, Math.min(range.endMs, asOfMs)),
});

const HOUR_MS = 3_600_000;
const QUARTER_MS = 900_000;
/** Zones are asked once a week where the offset is the same at both ends: none changes twice within one. */
const PROBE_DAYS = 7;

/**
 * Consecutive stretches of time: the one at `i` is `[startsMs[i], startsMs[i + 1])`, the last one ends at
 * `endMs`. Computed here and passed to the database, so that both go by the same calendars of zones.
 */
export type Buckets = { startsMs: readonly number[]; endMs: number };

export const INTERVALS = ["hour", "day", "week", "month"] as const;
export type Interval = (typeof INTERVALS)[number];

/** One question asks several times for the same days, and thousands of them take a tenth of a second. */
const STARTS_KEPT = 32;
const keptStarts = new Map<string, readonly number[]>();

/** Returns the first instants of the local days `first` to `last`, in ms. */
const dayStarts = (frame: DayFrame, first: number, last: number): readonly number[] => {
  const { timezone, dayStartsMs } = frame;
  const key = `${timezone} ${dayStartsMs} ${first} ${last}`;
  const kept = keptStarts.get(key);
  if (kept) return kept;
  const starts = computeDayStarts(frame, first, last);
  if (keptStarts.size >= STARTS_KEPT) keptStarts.delete(keptStarts.keys().next().value!);
  keptStarts.set(key, starts);
  return starts;
};

const computeDayStarts = (frame: DayFrame, first: number, last: number): number[] => {
  const { timezone: zone, dayStartsMs } = frame;
  const starts: number[] = [];
  for (let day = first; day <= last;) {
    const week = Math.min(PROBE_DAYS, last - day + 1);
    const start = dayStart(frame, day);
    const offset = offsetAt(zone, start);
    const isSteady =
      start === day * DAY_MS - offset + dayStartsMs &&
      offset === offsetAt(zone, start + week * DAY_MS) &&
      offset === offsetAt(zone, start + (week * DAY_MS) / 2);
    for (let i = 0; i < week; i++)
      starts.push(isSteady ? start + i * DAY_MS : i === 0 ? start : dayStart(frame, day + i));
    day += week;
  }
  return starts;
};

/** Returns the local days of a range, whole ones: also where the range begins or ends within one. */
export const dayBuckets = (frame: Frame, firstDay: number, lastDay: number): Buckets => {
  const starts = dayStarts(frame, firstDay, lastDay + 1);
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
  const startsMs = days.map((day) => dayStart(frame, day));
  return { startsMs, endMs: dayStart(frame, intervalAfter(interval, days.at(-1)!)), days };
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
export const hourBuckets = (frame: Frame, { firstDay, lastDay }: Range): Buckets => {
  const { timezone, dayStartsMs } = frame;
  const days = dayStarts(frame, firstDay, lastDay + 1);
  const endMs = days.at(-1)!;
  if ((endMs - days[0]!) / HOUR_MS > POINTS_MAX) throw tooManyPoints();
  const startsMs = days.slice(0, -1).flatMap((start, i) => {
    const next = days[i + 1]!;
    const isPlain = next - start === DAY_MS && (offsetAt(timezone, start) - dayStartsMs) % HOUR_MS === 0;
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
