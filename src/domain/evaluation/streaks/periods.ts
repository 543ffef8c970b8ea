import { type CalendarUnit, windowNumber, windowStart } from "../../kernel/zones.ts";

/**
 * How a streak divides time: local days, weeks from Monday or months, each beginning so long after midnight.
 */
export type Calendar = { unit: CalendarUnit; dayStartsMs: number };

const DAY_MS = 86_400_000;
/** Maximum period starts cached for one unit and zone. */
const STARTS_MAX = 5_000;
const SERIES_MAX = 1_000;

/** Cache of starts by unit and zone: finding one takes a search, and most players need the same few. */
const known = new Map<string, Map<number, number>>();

const seriesOf = (unit: CalendarUnit, zone: string): Map<number, number> => {
  const key = `${unit} ${zone}`;
  const found = known.get(key);
  if (found) return found;
  if (known.size >= SERIES_MAX) known.clear();
  const made = new Map<number, number>();
  known.set(key, made);
  return made;
};

/** Returns the number of the period that contains an instant; numbers increase with time. */
export const periodAt = ({ unit, dayStartsMs }: Calendar, zone: string, ms: number): number =>
  windowNumber(unit, zone, ms - dayStartsMs);

/** Returns the instant at which a period begins, in ms. */
export const periodStart = ({ unit, dayStartsMs }: Calendar, zone: string, number: number): number => {
  const series = seriesOf(unit, zone);
  let start = series.get(number);
  if (start === undefined) {
    start = windowStart(unit, zone, number);
    if (series.size >= STARTS_MAX) series.clear();
    series.set(number, start);
  }
  return start + dayStartsMs;
};

/**
 * Returns the end of the period after `number`, which is when a streak that has reached `number` breaks. A
 * day skipped by a zone (Apia had no 30 December 2011) cannot be missed.
 */
export const deadlineAfter = (calendar: Calendar, zone: string, number: number): number => {
  let next = number + 1;
  let end = periodStart(calendar, zone, next + 1);
  while (end <= periodStart(calendar, zone, next)) {
    next++;
    end = periodStart(calendar, zone, next + 1);
  }
  return end;
};

const iso = (dayNumber: number): string => new Date(dayNumber * DAY_MS).toISOString().slice(0, 10);

const firstDay = (unit: CalendarUnit, number: number): number => {
  if (unit === "DAY") return number;
  if (unit === "WEEK") return number * 7 - 3;
  return Date.UTC(Math.floor(number / 12), ((number % 12) + 12) % 12, 1) / DAY_MS;
};

/** Returns the first day of a period, `2026-01-31`. */
export const firstDate = (unit: CalendarUnit, number: number): string => iso(firstDay(unit, number));

/** Returns the last day of a period. */
export const lastDate = (unit: CalendarUnit, number: number): string => iso(firstDay(unit, number + 1) - 1);

/** Returns the period that contains a date. */
export const periodOfDate = (unit: CalendarUnit, date: string): number =>
  windowNumber(unit, "UTC", Date.parse(date));

/** Returns the name of a period: `2026-01-31`, `2026-W05` (ISO 8601) or `2026-01`. */
export const periodName = (unit: CalendarUnit, number: number): string => {
  const first = firstDate(unit, number);
  if (unit === "DAY") return first;
  if (unit === "MONTH") return first.slice(0, 7);
  // The year of a week is that of its Thursday.
  const thursday = firstDay("WEEK", number) + 3;
  const year = iso(thursday).slice(0, 4);
  const week = Math.floor((thursday - Date.UTC(Number(year), 0, 1) / DAY_MS) / 7) + 1;
  return `${year}-W${String(week).padStart(2, "0")}`;
};
