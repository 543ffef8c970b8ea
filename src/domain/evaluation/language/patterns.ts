import { isReservedType } from "../../kernel/events/event-types.ts";
import { Cron as Schedule, CronPattern } from "croner";
import { z } from "zod";

/** Minimum time between two runs of a schedule, in minutes. */
export const INTERVAL_MIN_MINUTES = 15;

const FIVE_FIELDS = /^[0-9A-Za-z*,/#-]+( [0-9A-Za-z*,/#-]+){4}$/;

const patternOf = (text: string): CronPattern | undefined => {
  if (!FIVE_FIELDS.test(text)) return undefined;
  try {
    return new CronPattern(text, "UTC", { mode: "5-part" });
  } catch {
    return undefined;
  }
};

const setOf = (flags: readonly number[]): number[] => flags.flatMap((flag, at) => (flag ? [at] : []));

/** Returns the minimum number of minutes between two runs, whatever the days. */
const leastGap = (pattern: CronPattern): number => {
  const minutes = setOf(pattern.minute);
  const hours = setOf(pattern.hour);
  const within = minutes.slice(1).map((minute, i) => minute - minutes[i]!);
  const hasNeighbours = hours.some((hour) => hours.includes((hour + 1) % 24));
  return Math.min(...within, hasNeighbours ? 60 - minutes.at(-1)! + minutes[0]! : 60);
};

/**
 * Times of day, also lists of them, fall due once where clocks repeat them, and at the end of the gap where
 * clocks skip them; only wildcards and steps follow each hour that passes.
 */
const scheduleOf = (cron: string, timezone: string): Schedule =>
  new Schedule(cron, { mode: "5-part", timezone, paused: true, fixedTimeRule: "no-wildcard" });

/** Returns the next run of a schedule after a moment, in ms; undefined when there is none. */
export const nextRunMs = (cron: string, timezone: string, afterMs: number): number | undefined =>
  scheduleOf(cron, timezone).nextRun(new Date(afterMs))?.getTime();

const lastOf = (schedule: Schedule, atMs: number): number | undefined =>
  schedule
    .previousRuns(2, new Date(atMs + 1_000))
    .map((run) => run.getTime())
    .find((ms) => ms <= atMs);

/** Returns the last run of a schedule at or before a moment, in ms. */
export const lastRunMs = (cron: string, timezone: string, atMs: number): number | undefined =>
  lastOf(scheduleOf(cron, timezone), atMs);

/** Returns the last run of a schedule at or before a moment, and the next one after it, in ms. */
export const runsAround = (
  cron: string,
  timezone: string,
  atMs: number,
): { last: number | undefined; next: number | undefined } => {
  const schedule = scheduleOf(cron, timezone);
  return { last: lastOf(schedule, atMs), next: schedule.nextRun(new Date(atMs))?.getTime() };
};

/** A moment far from a leap day and from a change of clocks. */
const SOME_MOMENT = Date.UTC(2026, 0, 1);

/** Minute, hour, day of month, month, day of week. */
export const Cron = z
  .string()
  .max(100)
  .superRefine((text, context) => {
    const refuse = (message: string): void => context.addIssue({ code: "custom", message });
    const pattern = patternOf(text);
    if (!pattern) return refuse("must be five cron fields: minute, hour, day of month, month, day of week");
    if (leastGap(pattern) < INTERVAL_MIN_MINUTES)
      return refuse(`must leave at least ${INTERVAL_MIN_MINUTES} minutes between two runs`);
    if (nextRunMs(text, "UTC", SOME_MOMENT) === undefined) refuse("never falls due");
  });

/** Returns why a pattern cannot trigger a rule. */
export const triggerProblem = (pattern: string): string =>
  pattern.startsWith("system.")
    ? `${pattern} is for the service itself`
    : `rules on ${pattern} are not available yet`;

/** The event that runs a scheduled rule for a player. */
export const SCHEDULE_TYPE = "system.schedule";

/**
 * Matching of event types by listeners: exact types, prefixes and the star, as used by rules, metrics and
 * boards.
 */

/**
 * Returns the patterns that match a type: itself, `a.*` and `a.b.*` of `a.b.c`, and `*` for a custom event.
 */
export const patternsOf = (eventType: string): string[] => {
  const patterns = [eventType];
  for (let dot = eventType.indexOf("."); dot !== -1; dot = eventType.indexOf(".", dot + 1)) {
    patterns.push(`${eventType.slice(0, dot)}.*`);
  }
  return isReservedType(eventType) ? patterns : [...patterns, "*"];
};

/** Maximum event types whose listeners are cached; integrators may send any number of types. */
const TYPES_REMEMBERED_MAX = 2_000;

/**
 * Creates an index of the listeners of event types.
 * @param listeners in the order in which they are passed to `make`
 * @param make builds the cached value from the listeners of one type
 */
export const createTypeIndex = <L extends { patterns: readonly string[] }, T>(
  listeners: readonly L[],
  make: (found: readonly L[]) => T,
): ((eventType: string) => T) => {
  const byPattern = new Map<string, number[]>();
  listeners.forEach(({ patterns }, place) => {
    for (const pattern of new Set(patterns)) {
      const places = byPattern.get(pattern);
      if (places) places.push(place);
      else byPattern.set(pattern, [place]);
    }
  });
  const known = new Map<string, T>();
  const nothing = make([]);
  return (eventType) => {
    const found = known.get(eventType);
    if (found !== undefined) return found;
    const places = new Set(patternsOf(eventType).flatMap((pattern) => byPattern.get(pattern) ?? []));
    const inOrder = [...places].toSorted((a, b) => a - b).map((place) => listeners[place]!);
    const made = inOrder.length === 0 ? nothing : make(inOrder);
    if (known.size >= TYPES_REMEMBERED_MAX) known.delete(known.keys().next().value!);
    known.set(eventType, made);
    return made;
  };
};
