import {
  type CalendarInterval,
  type DayFrame,
  type WeekStart,
  dayFrame,
  localDay,
  monthOf,
  weekOf,
} from "../../../src/domain/analytics/range.ts";

/** An event of a history, with its time in ms; in the order of arrival. */
export type NaiveVisit = { user: string; type: string; at: number };

export type NaiveQuestion = {
  zone: string;
  weekStart: WeekStart;
  unit: CalendarInterval;
  type: "nday" | "unbounded" | "within";
  entry: "first_time" | "recurring";
  clock: "calendar" | "24h";
  offsets: readonly number[];
  startEvent?: string | undefined;
  returnEvent?: string | undefined;
  /** First and last local day of the range. */
  firstDay: number;
  lastDay: number;
};

/** Days of a zone from midnight to midnight. */
export const daysIn = (zone: string): DayFrame => dayFrame({ timezone: zone, settings: {} }, {});

const DAY_MS = 86_400_000;

/** The number of the day, week or month of an instant, so that neighbours differ by one. */
const periodOf = ({ zone, unit, weekStart }: NaiveQuestion, at: number): number => {
  const day = localDay(daysIn(zone), at);
  if (unit === "day") return day;
  if (unit === "week") return Math.round(weekOf(day, weekStart) / 7);
  const date = new Date(monthOf(day) * DAY_MS);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
};

const isIn = (type: NaiveQuestion["type"], distance: number, offset: number): boolean => {
  if (type === "nday") return distance === offset;
  return type === "unbounded" ? distance >= offset : distance >= 1 && distance <= offset;
};

const startsOf = (events: readonly NaiveVisit[], question: NaiveQuestion): NaiveVisit[] => {
  const { startEvent, entry, zone, firstDay, lastDay } = question;
  const all = events
    .filter(({ type }) => startEvent === undefined || type === startEvent)
    .toSorted((a, b) => a.at - b.at);
  const inRange = (one: NaiveVisit): boolean => {
    const day = localDay(daysIn(zone), one.at);
    return day >= firstDay && day <= lastDay;
  };
  if (entry === "first_time") return all.slice(0, 1).filter(inRange);
  const taken = new Set<number>();
  return all.filter(inRange).filter((one) => {
    const period = periodOf(question, one.at);
    return !taken.has(period) && taken.add(period);
  });
};

/** By period of the start: its players, and for each offset those who returned, by plain loops. */
export const naiveRetention = (
  history: readonly NaiveVisit[],
  question: NaiveQuestion,
): Map<number, number[]> => {
  const { offsets, type, clock, returnEvent } = question;
  const cohorts = new Map<number, number[]>();
  for (const user of new Set(history.map((one) => one.user))) {
    const events = history.filter((one) => one.user === user);
    for (const start of startsOf(events, question)) {
      const cohort = periodOf(question, start.at);
      const counts = cohorts.get(cohort) ?? [0, ...offsets.map(() => 0)];
      cohorts.set(cohort, counts);
      counts[0]! += 1;
      const returns = events.filter((one) => returnEvent === undefined || one.type === returnEvent);
      const later = returns.filter((one) => one !== start && one.at >= start.at);
      const distances = (returnEvent === undefined ? [start, ...later] : later).map(({ at }) =>
        clock === "24h" ? Math.floor((at - start.at) / DAY_MS) : periodOf(question, at) - cohort,
      );
      for (const [i, offset] of offsets.entries())
        if (distances.some((distance) => isIn(type, distance, offset))) counts[i + 1]! += 1;
    }
  }
  return cohorts;
};

/** The number of a period by its first local day. */
export const periodOfDay = (question: NaiveQuestion, day: number): number =>
  periodOf({ ...question, zone: "UTC" }, day * DAY_MS);
