import { z } from "zod";
import type { Turn } from "../turn.ts";
import { Zone } from "../language/syntax.ts";
import { firstZone, type LocalTime, localTime } from "../../kernel/zones.ts";
import { conditionKind, readsTimed } from "./condition.ts";

const TIME = /^([01]\d|2[0-3]):[0-5]\d$/;
const MIDNIGHT_END = "24:00";

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
    dates: z
      .strictObject({ from: z.iso.date(), until: z.iso.date() })
      .refine(({ from, until }) => from <= until, "until must not be before from")
      .optional(),
  })
  .refine((window) => window.daysOfWeek ?? window.daysOfMonth ?? window.between ?? window.dates, {
    message: "needs at least one of daysOfWeek, daysOfMonth, between, dates",
  });
type TimeWindow = z.output<typeof schema>;

/** Steps of reading the wall clock of a zone. */
const LOCAL_TIME_STEPS = 20;

type Part = (local: LocalTime) => boolean;

const minuteOf = (text: string): number => Number(text.slice(0, 2)) * 60 + Number(text.slice(3));
const dayNumberOf = (date: string): number => Date.parse(date) / 86_400_000;

/** From inclusive, to exclusive; a window that ends before it begins wraps around midnight. */
const between = ({ from, to }: { from: string; to: string }): Part => {
  const start = minuteOf(from);
  const end = minuteOf(to);
  return start < end
    ? ({ minute }) => minute >= start && minute < end
    : ({ minute }) => minute >= start || minute < end;
};

const partsOf = ({ daysOfWeek, daysOfMonth, between: times, dates }: TimeWindow): Part[] => {
  const parts: Part[] = [];
  if (daysOfWeek) parts.push(({ weekday }) => daysOfWeek.includes(weekday));
  if (daysOfMonth) parts.push(({ day }) => daysOfMonth.includes(day));
  if (times) parts.push(between(times));
  if (dates) {
    const first = dayNumberOf(dates.from);
    const last = dayNumberOf(dates.until);
    parts.push(({ dayNumber }) => dayNumber >= first && dayNumber <= last);
  }
  return parts;
};

const zoneOf = (timezone: string, { player, project }: Turn): string => {
  if (timezone === "PLAYER") return firstZone(player.timezone, project.timezone);
  return timezone === "PROJECT" ? firstZone(project.timezone) : timezone;
};

const localOf = ({ timezone, clock }: TimeWindow, turn: Turn): LocalTime =>
  localTime(zoneOf(timezone, turn), clock === "NOW" ? turn.nowMs : turn.event.at);

const two = (value: number): string => String(value).padStart(2, "0");

/** Tests whether the wall clock lies within all given parts; each part is tested on its own. */
export const timeWindow = conditionKind({
  type: "time_window",
  summary: "Local days, dates and times of day",
  schema,
  steps: () => LOCAL_TIME_STEPS,
  isExpensive: false,
  mentions: () => [],
  metrics: () => [],
  inputs: () => readsTimed("field:timezone"),
  compile: (condition) => {
    const parts = partsOf(condition);
    return (turn) => {
      const local = localOf(condition, turn);
      return parts.every((holds) => holds(local));
    };
  },
  explain: (condition, turn) => {
    const { year, month, day, minute, weekday } = localOf(condition, turn);
    const { daysOfWeek, daysOfMonth, between: times, dates } = condition;
    const time = `${two(Math.floor(minute / 60))}:${two(minute % 60)}`;
    return {
      expected: { daysOfWeek, daysOfMonth, between: times, dates },
      actual: {
        date: `${year}-${two(month)}-${two(day)}`,
        time,
        dayOfWeek: weekday,
        zone: zoneOf(condition.timezone, turn),
      },
    };
  },
});
