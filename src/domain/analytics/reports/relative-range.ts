import { z } from "zod";
import { intervalAfter, intervalOf, dateOfDay, localDay, type WeekStart } from "../calendar.ts";

export const RANGE_UNITS = ["DAY", "WEEK", "MONTH"] as const;

const UNITS_MAX = 1_000;
const INTERVALS = { DAY: "day", WEEK: "week", MONTH: "month" } as const;

/** A range that is another one each day, week or month. */
export const RelativeRange = z.strictObject({
  last: z.int().min(1).max(UNITS_MAX).meta({ description: "How many days, weeks or months" }),
  unit: z.enum(RANGE_UNITS),
  current: z.boolean().default(false).meta({
    description: "Whether the one that is going on is the last of them; else only those that are over",
  }),
});
export type RelativeRange = z.output<typeof RelativeRange>;

/** Where and when a range is asked for. `asOfMs`: what is over then is whole. */
export type RangeFrame = { timezone: string; weekStart: WeekStart; asOfMs: number };

/** Returns the local dates that a relative range has at a moment, both included. */
export const datesOf = (
  { timezone, weekStart, asOfMs }: RangeFrame,
  { last, unit, current }: RelativeRange,
): { from: string; to: string } => {
  const interval = INTERVALS[unit];
  const day = localDay(timezone, asOfMs);
  const running = intervalOf(interval, day, weekStart);
  const first = intervalAfter(interval, running, current ? 1 - last : -last);
  return { from: dateOfDay(first), to: dateOfDay(current ? day : running - 1) };
};
