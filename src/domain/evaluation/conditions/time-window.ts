import { z } from "zod";
import { conditionKind, readsTimed } from "./condition.ts";
import { Zone } from "../language/syntax.ts";
import type { Turn } from "../turn.ts";
import { firstInstant, firstZone, type LocalTime, localTime } from "../../kernel/zones.ts";

/** A moment in ms; a local one is a reading of clocks as if it were UTC. */
type Moment = { ms: number; isLocal: boolean };

const MOMENT = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)?)?$/;
const DATE_LENGTH = 10;

/**
 * Reads `2026-03-29`, `2026-03-29T02:30`, or a time with `Z` or an offset; undefined for anything else, and
 * for days that do not exist.
 */
const parseMoment = (text: string): Moment | undefined => {
  const found = MOMENT.exec(text);
  if (!found) return undefined;
  const day = text.slice(0, DATE_LENGTH);
  const dayMs = Date.parse(day);
  // JavaScript takes the 30th of February for the 2nd of March.
  if (Number.isNaN(dayMs) || new Date(dayMs).toISOString().slice(0, DATE_LENGTH) !== day) return undefined;
  const isLocal = found[1] === undefined;
  const ms = Date.parse(isLocal && text.length > DATE_LENGTH ? `${text}Z` : text);
  return Number.isNaN(ms) ? undefined : { ms, isLocal };
};

const isMoment = (text: string): boolean => parseMoment(text) !== undefined;

const TIME = /^([01]\d|2[0-3]):[0-5]\d$/;
const MIDNIGHT_END = "24:00";

const PARTS = ["daysOfWeek", "daysOfMonth", "hours", "between", "dates", "after", "before"] as const;

const Bound = z
  .string()
  .refine(isMoment, "must be a date, a date and time, or one with Z or an offset, such as 2026-03-29T02:30");

/** Whether `after` is earlier than `before`, as far as that does not depend on the zone. */
const isAscending = ({ after, before }: { after?: string | undefined; before?: string | undefined }) => {
  if (after === undefined || before === undefined) return true;
  const [from, to] = [parseMoment(after), parseMoment(before)];
  if (!from || !to || from.isLocal !== to.isLocal) return true;
  return from.ms < to.ms;
};

const schema = z
  .strictObject({
    type: z.literal("time_window"),
    timezone: z.union([z.enum(["PLAYER", "PROJECT"]), Zone]).default("PLAYER"),
    clock: z.enum(["EVENT", "NOW"]).default("EVENT"),
    daysOfWeek: z.array(z.int().min(1).max(7)).min(1).max(7).optional(),
    daysOfMonth: z.array(z.int().min(1).max(31)).min(1).max(31).optional(),
    between: z
      .strictObject({
        from: z.string().regex(TIME, "must be a time HH:MM"),
        to: z
          .string()
          .refine((text) => TIME.test(text) || text === MIDNIGHT_END, "must be a time HH:MM or 24:00"),
      })
      .refine(({ from, to }) => from !== to, "from and to must differ; 00:00 to 24:00 is the whole day")
      .optional(),
    after: Bound.optional().describe("From this moment on; without an offset, of the time zone"),
    before: Bound.optional().describe("Until this moment, exclusive"),
    hours: z.array(z.int().min(0).max(23)).min(1).max(24).optional(),
    dates: z
      .strictObject({ from: z.iso.date(), until: z.iso.date() })
      .refine(({ from, until }) => from <= until, "until must not be before from")
      .optional(),
  })
  .refine((window) => PARTS.some((name) => window[name] !== undefined), {
    message: `needs at least one of ${PARTS.join(", ")}`,
  })
  .refine(isAscending, { path: ["before"], message: "must be later than `after`" });
type TimeWindow = z.output<typeof schema>;

/** `at`: the instant in ms; `zone`: that of the reading. */
type Clock = { local: LocalTime; at: number; zone: string };
type Part = (clock: Clock) => boolean;

const minuteOf = (text: string): number => Number(text.slice(0, 2)) * 60 + Number(text.slice(3));
const dayNumberOf = (date: string): number => Date.parse(date) / 86_400_000;

/** From inclusive, to exclusive; a window that ends before it begins wraps around midnight. */
const between = ({ from, to }: { from: string; to: string }): Part => {
  const start = minuteOf(from);
  const end = minuteOf(to);
  return start < end
    ? ({ local: { minute } }) => minute >= start && minute < end
    : ({ local: { minute } }) => minute >= start || minute < end;
};

/** Maximum zones for which the instant of a local moment is kept. */
const ZONES_MAX = 50;

/** Returns the instant of a moment; a local one comes at its own instant in each zone. */
const instantIn = ({ ms, isLocal }: Moment): ((zone: string) => number) => {
  if (!isLocal) return () => ms;
  const known = new Map<string, number>();
  return (zone) => {
    let instant = known.get(zone);
    if (instant === undefined) {
      if (known.size >= ZONES_MAX) known.clear();
      known.set(zone, (instant = firstInstant(zone, ms)));
    }
    return instant;
  };
};

const partsOf = (window: TimeWindow): Part[] => {
  const { daysOfWeek, daysOfMonth, hours, between: times, dates, after, before } = window;
  const parts: Part[] = [];
  if (daysOfWeek) parts.push(({ local: { weekday } }) => daysOfWeek.includes(weekday));
  if (daysOfMonth) parts.push(({ local: { day } }) => daysOfMonth.includes(day));
  if (hours) parts.push(({ local: { minute } }) => hours.includes(Math.floor(minute / 60)));
  if (times) parts.push(between(times));
  if (after !== undefined) {
    const from = instantIn(parseMoment(after)!);
    parts.push(({ at, zone }) => at >= from(zone));
  }
  if (before !== undefined) {
    const until = instantIn(parseMoment(before)!);
    parts.push(({ at, zone }) => at < until(zone));
  }
  if (dates) {
    const first = dayNumberOf(dates.from);
    const last = dayNumberOf(dates.until);
    parts.push(({ local: { dayNumber } }) => dayNumber >= first && dayNumber <= last);
  }
  return parts;
};

const zoneOf = (timezone: string, { player, project }: Turn): string => {
  if (timezone === "PLAYER") return firstZone(player.timezone, project.timezone);
  return timezone === "PROJECT" ? firstZone(project.timezone) : timezone;
};

const clockOf = ({ timezone, clock }: TimeWindow, turn: Turn): Clock => {
  const zone = zoneOf(timezone, turn);
  const at = clock === "NOW" ? turn.nowMs : turn.event.at;
  return { local: localTime(zone, at), at, zone };
};

const two = (value: number): string => String(value).padStart(2, "0");

/** Tests whether the time lies within all given parts; each part is tested on its own. */
export const timeWindow = conditionKind({
  type: "time_window",
  summary: "The time of the event: moments, local days, dates, hours and times of day",
  schema,
  inputs: () => readsTimed("field:timezone"),
  compile: (condition) => {
    const parts = partsOf(condition);
    return (turn) => {
      const clock = clockOf(condition, turn);
      return parts.every((holds) => holds(clock));
    };
  },
  explain: (condition, turn) => {
    const { local, zone } = clockOf(condition, turn);
    const { year, month, day, minute, weekday } = local;
    const expected = Object.fromEntries(PARTS.map((name) => [name, condition[name]]));
    const time = `${two(Math.floor(minute / 60))}:${two(minute % 60)}`;
    return {
      expected,
      actual: {
        date: `${year}-${two(month)}-${two(day)}`,
        time,
        dayOfWeek: weekday,
        zone,
      },
    };
  },
});
