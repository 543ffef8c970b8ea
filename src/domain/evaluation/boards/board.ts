import { createHash } from "node:crypto";
import type { Audience } from "../segments/audience.ts";
import type { Bounds, EntryCost, Sort } from "./definition.ts";
import type { Metric, Operator, Period } from "./period.ts";
import type { Ties } from "./ranks.ts";
import { nextRunMs, runsAround } from "../language/patterns.ts";
import { periodName } from "../streaks/periods.ts";
import type { Json } from "../../kernel/events/events.ts";
import {
  type Calendar,
  type CalendarUnit,
  type WeekDay,
  calendarOf,
  plainCalendar,
  windowNumber,
  windowStart,
} from "../../kernel/zones.ts";

export type BoardStatus = "ACTIVE" | "PAUSED" | "ARCHIVED";

/** A leaderboard in the form that scoring reads. */
export type Board = {
  id: string;
  key: string;
  /** Seed of the ids of its lists; for a board with one ranking, the id of its one list. */
  periodId: string;
  resets: number;
  /** Earlier events are late, in ms. */
  resetAtMs: number | null;
  status: BoardStatus;
  period: Period;
  ties: Ties;
  sort: Sort;
  operator: Operator;
  scoreDecimals: number;
  metric: Metric;
  breakdownAttribute?: string | undefined;
  breakdownProperty?: string | undefined;
  audience?: Audience | undefined;
  bounds?: Bounds | undefined;
  entryCost?: EntryCost | undefined;
  maxSubmissions?: number | undefined;
  /** A first score must be this good or better. */
  minRankScore?: number | undefined;
  /** Whether periods that were over when their first score arrived give prizes. */
  prizesForLate: boolean;
};

/** A window of a board: its time range and key. A null start or end is open. */
export type Window = { key: string; startsAtMs: number | null; endsAtMs: number | null };

export type PeriodKind = Period["kind"];

/** The part of a period that determines its windows. CRON has a `cron`, FIXED its start and end. */
type Timing = {
  kind: PeriodKind;
  timezone: string;
  weekStartsOn?: WeekDay | undefined;
  dayStartsAtMinutes?: number | undefined;
  cron?: string | undefined;
  startsAt?: string | undefined;
  endsAt?: string | undefined;
};

/** The inputs that determine a window. */
export type Timed = { period: Timing; resets: number };

/** Key of the one window of a board without periods. */
export const ALL_TIME_KEY = "all-time";
/** Key of the one window of a FIXED period. */
export const FIXED_KEY = "fixed";

/** Windows cached per board: events of the same time need the same ones. */
const RECENT_MAX = 8;

/** Appends the number of resets to a key, so that keys are unique. */
export const keyWithResets = (key: string, resets: number): string =>
  resets === 0 ? key : `${key}.${resets + 1}`;

type WindowBounds = { name: string; startsAtMs: number | null; endsAtMs: number | null };

/** Keyed by the object of the definition, which lives as long as a plan. */
const recentOf = new WeakMap<Timing, WindowBounds[]>();

/**
 * Returns the window that contains `atMs`, in the board's own zone; undefined outside of a FIXED period.
 * Starts are inclusive, ends exclusive, and every moment is in one window. Keys are `all-time`, `2026-01-10`,
 * `2026-W02` (ISO 8601; a week from Sunday is named after its Monday), `2026-01`, `2026-Q1`, `2026`,
 * `2026-01-10T18:00Z` (CRON: the start, in UTC) and `fixed`, followed by the number of the board's resets.
 */
export const windowAt = ({ period, resets }: Timed, atMs: number): Window | undefined => {
  const bounds = recentBounds(period, atMs);
  if (!bounds) return undefined;
  const { name, startsAtMs, endsAtMs } = bounds;
  return { key: keyWithResets(name, resets), startsAtMs, endsAtMs };
};

const holds = ({ startsAtMs, endsAtMs }: WindowBounds, atMs: number): boolean =>
  (startsAtMs === null || startsAtMs <= atMs) && (endsAtMs === null || atMs < endsAtMs);

const recentBounds = (period: Timing, atMs: number): WindowBounds | undefined => {
  let recent = recentOf.get(period);
  if (!recent) recentOf.set(period, (recent = []));
  const known = recent.find((bounds) => holds(bounds, atMs));
  if (known) return known;
  const bounds = boundsAt(period, atMs);
  if (!bounds) return undefined;
  recent.unshift(bounds);
  if (recent.length > RECENT_MAX) recent.pop();
  return bounds;
};

const boundsAt = (period: Timing, atMs: number): WindowBounds | undefined => {
  const { kind, timezone } = period;
  if (kind === "ALL_TIME") return { name: ALL_TIME_KEY, startsAtMs: null, endsAtMs: null };
  if (kind === "FIXED") return fixedBounds(period, atMs);
  if (kind === "CRON") return cronBounds(period.cron!, timezone, atMs);
  return calendarBounds(SERIES[kind]!, calendarOfBoard(period), atMs);
};

const fixedBounds = ({ startsAt, endsAt }: Timing, atMs: number): WindowBounds | undefined => {
  const bounds = { name: FIXED_KEY, startsAtMs: Date.parse(startsAt!), endsAtMs: Date.parse(endsAt!) };
  return holds(bounds, atMs) ? bounds : undefined;
};

/** Returns no window before the first run of a schedule and after its last one. */
const cronBounds = (cron: string, zone: string, atMs: number): WindowBounds | undefined => {
  const { last: startsAtMs, next: endsAtMs } = runsAround(cron, zone, atMs);
  if (startsAtMs === undefined || endsAtMs === undefined) return undefined;
  return { name: `${new Date(startsAtMs).toISOString().slice(0, 16)}Z`, startsAtMs, endsAtMs };
};

/** Calendar windows, numbered without gaps. */
type Series = {
  numberAt(calendar: Calendar, ms: number): number;
  startOf(calendar: Calendar, number: number): number;
  nameOf(number: number): string;
};

const seriesOfUnit = (unit: CalendarUnit): Series => ({
  numberAt: (calendar, ms) => windowNumber(unit, calendar, ms),
  startOf: (calendar, number) => windowStart(unit, calendar, number),
  nameOf: (number) => periodName(unit, number),
});

const DAYS = seriesOfUnit("DAY");
const WEEKS = seriesOfUnit("WEEK");
const MONTHS = seriesOfUnit("MONTH");

const YEAR_MONTHS = 12;
const QUARTER_MONTHS = 3;
const YEAR_LENGTH = "2026".length;

/** Windows of several months; months are numbered from January of the year 0. */
const seriesOfMonths = (months: number, nameOf: Series["nameOf"]): Series => ({
  numberAt: (calendar, ms) => Math.floor(MONTHS.numberAt(calendar, ms) / months),
  startOf: (calendar, number) => MONTHS.startOf(calendar, number * months),
  nameOf,
});

const yearName = (year: number): string => MONTHS.nameOf(year * YEAR_MONTHS).slice(0, YEAR_LENGTH);
const QUARTERS_PER_YEAR = YEAR_MONTHS / QUARTER_MONTHS;
const YEARS = seriesOfMonths(YEAR_MONTHS, yearName);
const QUARTERS = seriesOfMonths(QUARTER_MONTHS, (number) => {
  const year = Math.floor(number / QUARTERS_PER_YEAR);
  return `${yearName(year)}-Q${number - year * QUARTERS_PER_YEAR + 1}`;
});

const SERIES: Partial<Record<PeriodKind, Series>> = {
  DAILY: DAYS,
  WEEKLY: WEEKS,
  MONTHLY: MONTHS,
  QUARTERLY: QUARTERS,
  YEARLY: YEARS,
};

const calendarOfBoard = ({ timezone, weekStartsOn = 1, dayStartsAtMinutes = 0 }: Timing): Calendar =>
  calendarOf({ timezone, settings: { weekStartsOn, dayStartsAtMinutes } });

/**
 * Windows are bounded by their starts, not by the clock's date: where clocks go back over midnight, a date
 * occurs twice. A day skipped by a zone is empty.
 */
const calendarBounds = (series: Series, calendar: Calendar, atMs: number): WindowBounds => {
  let number = series.numberAt(calendar, atMs);
  while (series.startOf(calendar, number) > atMs) number--;
  while (series.startOf(calendar, number + 1) <= atMs) number++;
  return {
    name: series.nameOf(number),
    startsAtMs: series.startOf(calendar, number),
    endsAtMs: series.startOf(calendar, number + 1),
  };
};

/** Returns when the first window after a moment begins, in ms; undefined when none does. */
export const nextStart = (timed: Timed, atMs: number): number | undefined => {
  const { kind, cron, timezone, startsAt } = timed.period;
  if (kind === "ALL_TIME") return undefined;
  if (kind === "CRON") return nextRunMs(cron!, timezone, atMs);
  if (kind === "FIXED") return Date.parse(startsAt!) > atMs ? Date.parse(startsAt!) : undefined;
  return windowAt(timed, atMs)!.endsAtMs!;
};

/** Returns the window with a key; undefined for a text that is no key of the board since its last reset. */
export const windowOf = (timed: Timed, key: string): Window | undefined => {
  const suffix = keyWithResets("", timed.resets);
  if (!key.endsWith(suffix)) return undefined;
  const atMs = momentOf(timed.period, key.slice(0, key.length - suffix.length));
  const window = atMs === undefined ? undefined : windowAt(timed, atMs);
  return window?.key === key ? window : undefined;
};

const WEEK = /^(\d{4})-W(\d{2})$/;
const DATED = /^\d{4}(-\d{2}){0,2}(T\d{2}:\d{2}Z)?$/;
const QUARTER = /^(\d{4})-Q([1-4])$/;
const DAY_MS = 86_400_000;

/** Returns a moment in the window with a name, if there is one. */
const momentOf = (period: Timing, name: string): number | undefined => {
  const { kind } = period;
  if (kind === "ALL_TIME") return 0;
  if (kind === "FIXED") return Date.parse(period.startsAt!);
  const day = firstDateOf(kind, name);
  if (day === undefined || Number.isNaN(Date.parse(day))) return undefined;
  // Historic local times have seconds, which names omit.
  if (kind === "CRON") return Date.parse(day) + 59_999;
  const series = SERIES[kind]!;
  return series.startOf(calendarOfBoard(period), series.numberAt(plainCalendar("UTC"), Date.parse(day)));
};

const firstDateOf = (kind: PeriodKind, name: string): string | undefined => {
  if (kind === "QUARTERLY") return firstDateOfQuarter(name);
  // A name of another kind is refused by what it is the window of.
  if (kind !== "WEEKLY") return DATED.test(name) ? name : undefined;
  const [, year, week] = WEEK.exec(name) ?? [];
  return year === undefined ? undefined : mondayOf(year, Number(week));
};

const firstDateOfQuarter = (name: string): string | undefined => {
  const [, year, quarter] = QUARTER.exec(name) ?? [];
  if (year === undefined) return undefined;
  const month = (Number(quarter) - 1) * QUARTER_MONTHS + 1;
  return `${year}-${String(month).padStart(2, "0")}-01`;
};

/** Returns the Monday of an ISO week: 4 January is always in the first one. */
const mondayOf = (year: string, week: number): string => {
  const fourth = Date.parse(`${year}-01-04`);
  const monday = fourth - ((new Date(fourth).getUTCDay() + 6) % 7) * DAY_MS;
  return new Date(monday + (week - 1) * 7 * DAY_MS).toISOString().slice(0, 10);
};

export type ListStatus = "OPEN" | "CLOSING" | "CLOSED" | "ARCHIVED";

/** A time in ms, and the properties of the event that happened then, if it was one. */
export type Moment = { at: number; properties?: Json | undefined };

/** One ranking: the entries of one window of a board and one value of its breakdown. */
export type List = { id: string; board: Board; window: Window; value: string };

/** A list with its stored state; `status` is null while it has no row. */
export type LoadedList = List & {
  status: ListStatus | null;
  /** Whether its window was over when its row was created. */
  isLate: boolean;
  writtenMs: number | null;
  /** Whether its window has the maximum number of breakdown values. */
  isFull: boolean;
  /** Whether its window closes or is closed, so that a value without a row is late. */
  isWindowOver: boolean;
  isLoaded: boolean;
};

/** Why a player has no list on a board at a time. */
export type NoList = "LATE" | "OUTSIDE" | "NO_VALUE" | "FULL";

type PeriodSeed = { periodId: string; resets: number };

/**
 * Returns the id of the list of one window and one breakdown value, without a look-up in the database.
 * `seed.periodId` is the board's id for periods, new after each reset; the one window of a board without
 * periods has that id itself.
 */
export const periodIdOf = (seed: PeriodSeed, periodKey: string, board: string): string => {
  if (board === "" && periodKey === keyWithResets(ALL_TIME_KEY, seed.resets)) return seed.periodId;
  const bytes = createHash("sha256").update([seed.periodId, periodKey, board].join("\0")).digest();
  // A name-based UUID (RFC 9562, version 8: custom).
  bytes[6] = (bytes[6]! & 0x0f) | 0x80;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = bytes.toString("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join(
    "-",
  );
};
