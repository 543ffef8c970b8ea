import {
  type Calendar,
  type CalendarUnit,
  firstDayOf,
  type WeekDay,
  windowNumber,
  windowStart,
} from "../../kernel/zones.ts";

/** How a streak divides the time of a zone, and the periods that nobody needs to complete. */
export type StreakCalendar = Omit<Calendar, "zone"> & { unit: CalendarUnit; isOff(period: number): boolean };

const DAY_MS = 86_400_000;

/** Returns the number of the period that contains an instant; numbers increase with time. */
export const periodAt = ({ unit, ...calendar }: StreakCalendar, zone: string, ms: number): number =>
  windowNumber(unit, { ...calendar, zone }, ms);

/** Returns the instant at which a period begins, in ms. */
export const periodStart = ({ unit, ...calendar }: StreakCalendar, zone: string, number: number): number =>
  windowStart(unit, { ...calendar, zone }, number);

/**
 * Returns the end of the first period after `number` that is not off, which is when a streak that has reached
 * `number` breaks. A day skipped by a zone (Apia had no 30 December 2011) cannot be missed.
 */
export const deadlineAfter = (calendar: StreakCalendar, zone: string, number: number): number => {
  let next = number + 1;
  let end = periodStart(calendar, zone, next + 1);
  while (calendar.isOff(next) || end <= periodStart(calendar, zone, next)) {
    next++;
    end = periodStart(calendar, zone, next + 1);
  }
  return end;
};

/** Returns the periods between two. */
export const periodsBetween = (after: number, before: number): number[] =>
  Array.from({ length: Math.max(0, before - after - 1) }, (_, i) => after + 1 + i);

/** Returns whether a run that has reached `first` goes on with `next`: all periods between them are off. */
export const isNext = ({ isOff }: StreakCalendar, first: number, next: number): boolean => {
  let period = first + 1;
  while (period < next && isOff(period)) period++;
  return period >= next;
};

const iso = (dayNumber: number): string => new Date(dayNumber * DAY_MS).toISOString().slice(0, 10);

export type Dates = Pick<StreakCalendar, "unit" | "weekStartsOn">;

/** Returns the first day of a period, `2026-01-31`. */
export const firstDate = ({ unit, weekStartsOn }: Dates, number: number): string =>
  iso(firstDayOf(unit, number, weekStartsOn));

/** Returns the last day of a period. */
export const lastDate = ({ unit, weekStartsOn }: Dates, number: number): string =>
  iso(firstDayOf(unit, number + 1, weekStartsOn) - 1);

/** Returns the period that contains a date. */
export const periodOfDate = (unit: CalendarUnit, date: string, weekStartsOn: WeekDay = 1): number =>
  windowNumber(unit, { zone: "UTC", weekStartsOn, dayStartsMs: 0 }, Date.parse(date));

/** Returns the periods between the two dates of a run, also of one from when weeks began on another day. */
export const periodsOfRun = (unit: CalendarUnit, startedOn: string, endedOn: string) => ({
  first: periodOfDate(unit, startedOn, 7),
  last: periodOfDate(unit, endedOn, 1),
});

/** Returns the name of a period: `2026-01-31`, `2026-W05` (ISO 8601, by the Monday in it) or `2026-01`. */
export const periodName = (unit: CalendarUnit, number: number): string => {
  const first = firstDayOf(unit, number);
  if (unit === "DAY") return iso(first);
  if (unit === "MONTH") return iso(first).slice(0, 7);
  // The year of a week is that of its Thursday.
  const thursday = first + 3;
  const year = iso(thursday).slice(0, 4);
  const week = Math.floor((thursday - Date.UTC(Number(year), 0, 1) / DAY_MS) / 7) + 1;
  return `${year}-W${String(week).padStart(2, "0")}`;
};
