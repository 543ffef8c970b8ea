import { z } from "zod";
import { firstInstant, isIanaName, localTime } from "../../kernel/zones.ts";
import { monthOf } from "../calendar.ts";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** Members who are told of a run. */
export const MAIL_TO_MAX = 20;
/** No two due days of a schedule are further apart. */
const DAYS_MAX = 32;

export const SCHEDULE_UNITS = ["DAY", "WEEK", "MONTH"] as const;

/** When a report is run by itself, and who is told. */
export const ScheduleFields = z.strictObject({
  every: z.enum(SCHEDULE_UNITS),
  hour: z.int().min(0).max(23).meta({ description: "Of the clocks of the zone" }),
  weekday: z.int().min(1).max(7).optional().meta({ description: "With every=WEEK: 1 is Monday" }),
  day: z
    .int()
    .min(1)
    .max(31)
    .optional()
    .meta({ description: "With every=MONTH: of the month; shorter months have it on their last day" }),
  timezone: z
    .string()
    .min(1)
    .max(64)
    .refine(isIanaName, { error: "must be an IANA time zone, such as Europe/Berlin" })
    .optional()
    .meta({ description: "IANA name. Default: that of the report's parameters, else the project's" }),
  mailTo: z.array(z.uuid()).max(MAIL_TO_MAX).default([]).meta({
    description: "Ids of members of the team, who get a mail with a link after each run, and no data",
  }),
});

const MISPLACED = "is for another every";

const refuse = (context: z.RefinementCtx, field: string, message: string): void =>
  context.addIssue({ code: "custom", path: [field], message });

type Days = Pick<z.output<typeof ScheduleFields>, "every" | "weekday" | "day">;

/** Refuses a schedule without the day that its `every` needs, or with another. */
const checkDays = ({ every, weekday, day }: Days, context: z.RefinementCtx): void => {
  if (every === "WEEK" && weekday === undefined) refuse(context, "weekday", "is needed with every=WEEK");
  if (every === "MONTH" && day === undefined) refuse(context, "day", "is needed with every=MONTH");
  if (every !== "WEEK" && weekday !== undefined) refuse(context, "weekday", MISPLACED);
  if (every !== "MONTH" && day !== undefined) refuse(context, "day", MISPLACED);
};

/** As `ScheduleFields`, with the day that `every` needs. */
export const CheckedSchedule = ScheduleFields.superRefine((schedule, context) => {
  checkDays(schedule, context);
  const { mailTo } = schedule;
  if (new Set(mailTo).size < mailTo.length) refuse(context, "mailTo", "must not repeat");
});

/** The same without those to be told: people belong to a team, and not to a project. */
export const ScheduleTimes = ScheduleFields.omit({ mailTo: true }).superRefine(checkDays);
export type ScheduleTimes = z.output<typeof ScheduleTimes>;

/** A schedule as it was given: its zone may be that of something else. */
export type GivenSchedule = z.output<typeof ScheduleFields>;
/** A schedule as it is stored: its zone is known. */
export type Schedule = GivenSchedule & { timezone: string };

/** The times of a schedule. */
export type Times = Pick<Schedule, "every" | "hour" | "weekday" | "day" | "timezone">;

/** Whether a run is due on a local day, given in days since 1970-01-01. */
const isOn = ({ every, weekday, day }: Times, date: number): boolean => {
  if (every === "DAY") return true;
  // 1970-01-01 was a Thursday.
  if (every === "WEEK") return ((((date + 3) % 7) + 7) % 7) + 1 === weekday;
  const first = monthOf(date);
  const days = monthOf(date, 1) - first;
  return date - first + 1 === Math.min(day!, days);
};

/** An hour that the clocks skip is due at the end of the gap, and one that comes twice the first time. */
const dueOn = ({ hour, timezone }: Times, date: number): number =>
  firstInstant(timezone, date * DAY_MS + hour * HOUR_MS);

/** Returns the next time after a moment at which a schedule is due, in ms: once for each of its days. */
export const nextDueMs = (times: Times, afterMs: number): number => {
  const today = localTime(times.timezone, afterMs).dayNumber;
  // Clocks that skip a day put its hour into the next one.
  for (let date = today - 2; date <= today + DAYS_MAX; date++) {
    if (!isOn(times, date)) continue;
    const due = dueOn(times, date);
    if (due > afterMs) return due;
  }
  throw new Error("a schedule has a due day in every month");
};

/** Returns the last time at or before a moment at which a schedule was due, in ms. */
export const lastDueMs = (times: Times, atMs: number): number => {
  const today = localTime(times.timezone, atMs).dayNumber;
  for (let date = today + 1; date >= today - DAYS_MAX; date--) {
    if (!isOn(times, date)) continue;
    const due = dueOn(times, date);
    if (due <= atMs) return due;
  }
  throw new Error("a schedule has a due day in every month");
};
