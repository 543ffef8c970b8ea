/** Wall-clock arithmetic in IANA zones. All instants are ms since 1970 UTC. */

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;
const SLOT_MS = 900_000;
/** Names are chosen by callers, so caches are bounded; a full one is cleared. */
const ZONES_MAX = 1_000;
const SLOTS_MAX = 10_000;
const STARTS_MAX = 1_000;
/** Intl's years stay positive from here on; local mean time does not change before it. */
const OLDEST_MS = Date.UTC(1000, 0, 1);

type Zone = { format: Intl.DateTimeFormat; slots: Map<number, number> };

const zones = new Map<string, Zone | undefined>();

const makeZone = (name: string): Zone | undefined => {
  try {
    const format = new Intl.DateTimeFormat("en-US", {
      timeZone: name,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
    return { format, slots: new Map() };
  } catch {
    return undefined;
  }
};

const zoneOf = (name: string): Zone | undefined => {
  if (zones.has(name)) return zones.get(name);
  if (zones.size >= ZONES_MAX) zones.clear();
  const zone = makeZone(name);
  zones.set(name, zone);
  return zone;
};

export const isZone = (name: string): boolean => zoneOf(name) !== undefined;

/** The abbreviations that are names of IANA. */
const ABBREVIATIONS = /^(CET|EET|EST|GMT|HST|MET|MST|PRC|ROC|ROK|UCT|UTC|WET)$/i;
/** Names of old platforms; among the abbreviations BST is Dhaka there, and IST Kolkata. */
const NOT_OF_IANA = /^([A-Z]{3}|SystemV\/.*|US\/Pacific-New)$/i;

/**
 * Returns whether a name is a zone or a link of IANA: Intl also accepts offsets such as +02:00, without
 * daylight saving, and abbreviations that mean several places.
 */
export const isIanaName = (name: string): boolean =>
  /^[A-Za-z]/.test(name) && (ABBREVIATIONS.test(name) || !NOT_OF_IANA.test(name)) && isZone(name);

/** Returns the first of `names` that is a time zone, else UTC. */
export const firstZone = (...names: (string | null | undefined)[]): string =>
  names.find((name) => typeof name === "string" && isZone(name)) ?? "UTC";

const exactOffset = ({ format }: Zone, ms: number): number => {
  const at = Math.floor(Math.max(ms, OLDEST_MS) / 1_000) * 1_000;
  const part: Record<string, number> = {};
  for (const { type, value } of format.formatToParts(at)) part[type] = Number(value);
  return (
    Date.UTC(part["year"]!, part["month"]! - 1, part["day"], part["hour"], part["minute"], part["second"]) -
    at
  );
};

/**
 * Returns the zone's offset from UTC in ms at an instant; 0 for an unknown zone. Formatting is slow, so
 * quarter hours with the same offset at both ends are cached; one that contains a change is computed each
 * time.
 */
export const offsetAt = (name: string, ms: number): number => {
  const zone = zoneOf(name);
  if (!zone) return 0;
  const slot = Math.floor(ms / SLOT_MS);
  let offset = zone.slots.get(slot);
  if (offset === undefined) {
    const start = exactOffset(zone, slot * SLOT_MS);
    offset = start === exactOffset(zone, (slot + 1) * SLOT_MS - 1) ? start : Number.NaN;
    if (zone.slots.size >= SLOTS_MAX) zone.slots.clear();
    zone.slots.set(slot, offset);
  }
  return Number.isNaN(offset) ? exactOffset(zone, ms) : offset;
};

/** A wall-clock reading. `dayNumber` counts local days from 1970-01-01; `weekday` is 1 for Monday to 7. */
export type LocalTime = {
  dayNumber: number;
  weekday: number;
  day: number;
  month: number;
  year: number;
  minute: number;
};

export const localTime = (zone: string, ms: number): LocalTime => {
  const local = ms + offsetAt(zone, ms);
  const dayNumber = Math.floor(local / DAY_MS);
  const date = new Date(dayNumber * DAY_MS);
  return {
    dayNumber,
    weekday: ((((dayNumber + 3) % 7) + 7) % 7) + 1,
    day: date.getUTCDate(),
    month: date.getUTCMonth() + 1,
    year: date.getUTCFullYear(),
    minute: Math.floor((local - dayNumber * DAY_MS) / 60_000),
  };
};

export const CALENDAR_UNITS = ["DAY", "WEEK", "MONTH"] as const;
export type CalendarUnit = (typeof CALENDAR_UNITS)[number];

/** The first day of a week: 1 for Monday, 7 for Sunday. */
export const WEEK_DAYS = [1, 7] as const;
export type WeekDay = (typeof WEEK_DAYS)[number];

/** How a zone's time is divided: days begin so long after midnight, and months and weeks with their first day. */
export type Calendar = { zone: string; weekStartsOn: WeekDay; dayStartsMs: number };

/** A project as far as it decides about calendars. */
export type CalendarProject = {
  timezone: string;
  settings: { weekStartsOn: WeekDay; dayStartsAtMinutes: number };
};

/** Returns the calendar of a project, in the first of `names` that is a zone, else in the project's own zone. */
export const calendarOf = (
  { timezone, settings }: CalendarProject,
  ...names: (string | null | undefined)[]
): Calendar => ({
  zone: firstZone(...names, timezone),
  weekStartsOn: settings.weekStartsOn,
  dayStartsMs: settings.dayStartsAtMinutes * MINUTE_MS,
});

/** Returns the calendar whose days begin at midnight, and weeks on Monday. */
export const plainCalendar = (zone: string): Calendar => ({ zone, weekStartsOn: 1, dayStartsMs: 0 });

/** Returns the first day of a window, in days from 1970-01-01. */
export const firstDayOf = (unit: CalendarUnit, number: number, weekStartsOn: WeekDay = 1): number => {
  if (unit === "DAY") return number;
  return unit === "WEEK" ? number * 7 - WEEK_SHIFT[weekStartsOn] : firstDayOfMonth(number);
};

/** 1970-01-01 was a Thursday. */
const WEEK_SHIFT: Record<WeekDay, number> = { 1: 3, 7: 4 };

/**
 * Returns the number of the local day, week or month that contains an instant; numbers increase with time, and
 * a week from Sunday has the number of its Monday's week.
 */
export const windowNumber = (
  unit: CalendarUnit,
  { zone, weekStartsOn, dayStartsMs }: Calendar,
  ms: number,
): number => {
  const { dayNumber, month, year } = localTime(zone, ms - dayStartsMs);
  if (unit === "DAY") return dayNumber;
  return unit === "WEEK" ? Math.floor((dayNumber + WEEK_SHIFT[weekStartsOn]) / 7) : year * 12 + month - 1;
};

/** Starts of days by zone: finding one takes a search, and most players need the same few. */
const starts = new Map<string, Map<number, number>>();

/**
 * Returns the instant at which a window begins: its local midnight, or the first moment after it where that
 * was skipped, and then as long as days begin after it.
 */
export const windowStart = (
  unit: CalendarUnit,
  { zone, weekStartsOn, dayStartsMs }: Calendar,
  number: number,
): number => {
  const day = firstDayOf(unit, number, weekStartsOn);
  let known = starts.get(zone);
  if (!known) {
    if (starts.size >= ZONES_MAX) starts.clear();
    starts.set(zone, (known = new Map()));
  }
  let start = known.get(day);
  if (start === undefined) {
    if (known.size >= STARTS_MAX) known.clear();
    known.set(day, (start = searchMidnight(zone, day)));
  }
  return start + dayStartsMs;
};

/** The result lies within a day and a half of the reading taken as UTC. */
const searchMidnight = (zone: string, day: number): number => {
  const isThere = (ms: number): boolean => localTime(zone, ms).dayNumber >= day;
  return firstWhere((day - 1.5) * DAY_MS, (day + 1.5) * DAY_MS, isThere);
};

/** Returns the first whole number from `from` to `to` for which something holds, as it does from there on. */
const firstWhere = (from: number, to: number, holds: (ms: number) => boolean): number => {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
};

/**
 * Returns the first instant at which the clocks of a zone show a reading, given as if it were UTC; where it
 * was skipped, the first moment after the gap.
 */
export const firstInstant = (zone: string, reading: number): number => {
  const before = offsetAt(zone, reading - DAY_MS);
  const after = offsetAt(zone, reading + DAY_MS);
  const early = reading - before;
  if (offsetAt(zone, early) === before) return early;
  const late = reading - after;
  if (offsetAt(zone, late) === after) return late;
  return firstWhere(Math.min(early, late), Math.max(early, late), (ms) => offsetAt(zone, ms) === after);
};

const firstDayOfMonth = (number: number): number => {
  const date = new Date(0);
  date.setUTCFullYear(Math.floor(number / 12), ((number % 12) + 12) % 12, 1);
  return date.getTime() / DAY_MS;
};
