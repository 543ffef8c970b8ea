import { invalid } from "../kernel/errors.ts";
import { isIanaName } from "../kernel/zones.ts";
import { dateOfDay, dayOfDate, dayStart, localDay, monthOf, type WeekStart } from "./calendar.ts";

/** The most days of a range, and points of a series. */
export const POINTS_MAX = 10_000;
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
export type Period = (typeof PERIODS)[number];

/** What every question of analytics is about. Instants are ms. */
export type Frame = {
  projectId: string;
  /** An IANA name: days are those of its calendar. */
  timezone: string;
  weekStart: WeekStart;
  /** Events at it or later do not exist for the question. */
  asOfMs: number;
  /** How far the project's clock is ahead of the server's: ids of events are of the server's. */
  aheadMs: number;
};

/** A stretch of time: `[startMs, endMs)`, which touches the local days `firstDay` to `lastDay`. */
export type Range = { startMs: number; endMs: number; firstDay: number; lastDay: number };

/** How a caller names a range: dates are local and inclusive, instants half-open. */
export type RangeQuery = { from?: string | undefined; to?: string | undefined; period?: Period | undefined };

/** A range as answers show it. */
export type RangeView = {
  from: string;
  to: string;
  start: string;
  end: string;
  days: number;
  complete: boolean;
};

/** @throws DomainError VALIDATION_ERROR for a zone that is none */
export const checkZone = (timezone: string): string => {
  if (!isIanaName(timezone)) throw invalid("timezone", "must be an IANA time zone, such as Europe/Berlin");
  return timezone;
};

/** Returns the range of whole local days. */
export const rangeOfDays = ({ timezone }: Frame, firstDay: number, lastDay: number): Range => ({
  startMs: dayStart(timezone, firstDay),
  endMs: dayStart(timezone, lastDay + 1),
  firstDay,
  lastDay,
});

/** Returns the local day that is going on at `asOf`: the last one of which there may be events. */
export const today = ({ timezone, asOfMs }: Frame): number => localDay(timezone, asOfMs - 1);

/** Returns the number of local days that a range touches. */
export const daysOf = ({ firstDay, lastDay }: Range): number => lastDay - firstDay + 1;

/** The number of the month of a day, from 0. */
const monthNumber = (day: number): number => new Date(day * 86_400_000).getUTCMonth();

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
  const first = firstEventMs === undefined ? last : localDay(frame.timezone, firstEventMs);
  return rangeOfDays(frame, Math.min(last, first), last);
};

type Bound = { day: number } | { ms: number };

/** Years that the database, and the calendars of zones, can all count in. */
const OLDEST_MS = Date.UTC(1000, 0, 2);
const NEWEST_MS = Date.UTC(9998, 11, 30);

const boundOf = (field: string, text: string): Bound => {
  const day = dayOfDate(text);
  const ms = day === undefined ? timeOf(text) : day * 86_400_000;
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
  if (period !== undefined) return bounded(rangeOfPeriod(frame, period, firstEventMs), daysMax);
  const end = to === undefined ? { day: today(frame) } : boundOf("to", to);
  const { lastDay, endMs } = endOf(frame, end);
  const start =
    from === undefined ? { day: lastDay - Math.min(days, DEFAULT_DAYS) + 1 } : boundOf("from", from);
  const { firstDay, startMs } = startOf(frame, start);
  if (startMs >= endMs) throw invalid("to", "must not be before from");
  return bounded({ startMs, endMs, firstDay, lastDay }, daysMax);
};

const startOf = ({ timezone }: Frame, bound: Bound): Pick<Range, "firstDay" | "startMs"> =>
  "day" in bound
    ? { firstDay: bound.day, startMs: dayStart(timezone, bound.day) }
    : { firstDay: localDay(timezone, bound.ms), startMs: bound.ms };

const endOf = ({ timezone }: Frame, bound: Bound): Pick<Range, "lastDay" | "endMs"> =>
  "day" in bound
    ? { lastDay: bound.day, endMs: dayStart(timezone, bound.day + 1) }
    : { lastDay: localDay(timezone, bound.ms - 1), endMs: bound.ms };

const bounded = (range: Range, daysMax = POINTS_MAX): Range => {
  if (daysOf(range) > daysMax) throw invalid("from", `a range has at most ${daysMax} days`);
  return range;
};

/** Returns a range as answers show it. */
export const showRange = ({ asOfMs }: Frame, range: Range): RangeView => ({
  from: dateOfDay(range.firstDay),
  to: dateOfDay(range.lastDay),
  start: new Date(range.startMs).toISOString(),
  end: new Date(range.endMs).toISOString(),
  days: daysOf(range),
  complete: range.endMs <= asOfMs,
});

/** Returns the part of a range that was over, or had passed, at `asOf`: no event is later. */
export const untilAsOf = ({ asOfMs }: Frame, range: Range): Range => ({
  ...range,
  endMs: Math.max(range.startMs, Math.min(range.endMs, asOfMs)),
});
