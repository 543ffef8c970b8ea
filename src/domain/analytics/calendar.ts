import { localTime, windowStart } from "../kernel/zones.ts";

const DAY_MS = 86_400_000;

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

/** Returns the number of the local day that contains an instant. */
export const localDay = (zone: string, ms: number): number => localTime(zone, ms).dayNumber;

/** Returns the first instant of a local day in ms: midnight, or where that was skipped the moment after. */
export const dayStart = (zone: string, day: number): number => windowStart("DAY", zone, day);

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
