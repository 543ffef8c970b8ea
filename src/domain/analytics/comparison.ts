import { invalid } from "../kernel/errors.ts";
import { dateOfDay, DAY_MS, daysOf, type Frame, monthOf, type Range, rangeOf, rangeOfDays } from "./range.ts";

export const COMPARISONS = ["previous_period", "previous_week", "previous_year", "custom", "none"] as const;
export type Comparison = (typeof COMPARISONS)[number];

export type ComparisonQuery = {
  compare: Comparison;
  compareFrom?: string | undefined;
  compareTo?: string | undefined;
};

/** What a range is compared with. `partial`: the range is going on, and so the other one is cut off too. */
export type Compared = { mode: Comparison; range: Range; partial: boolean };

/** The same date a year earlier; the 29th of February becomes the 28th. */
const yearBefore = (day: number): number => {
  const date = new Date(day * DAY_MS).getUTCDate();
  const first = monthOf(day, -12);
  return Math.min(first + date, monthOf(first, 1)) - 1;
};

const otherRange = (
  frame: Frame,
  range: Range,
  { compare, compareFrom, compareTo }: ComparisonQuery,
): Range => {
  const { firstDay, lastDay, startMs, endMs } = range;
  if (compare === "custom") {
    if (compareFrom === undefined) throw invalid("compareFrom", "is needed with compare=custom");
    return rangeOf(frame, { from: compareFrom, to: compareTo });
  }
  if (compare === "previous_year") return rangeOfDays(frame, yearBefore(firstDay), yearBefore(lastDay));
  const days = compare === "previous_week" ? 7 : daysOf(range);
  const whole = rangeOfDays(frame, firstDay, lastDay);
  if (whole.startMs === startMs && whole.endMs === endMs)
    return rangeOfDays(frame, firstDay - days, lastDay - days);
  // A range of instants is as long as the other one, to the millisecond.
  const back = compare === "previous_week" ? 7 * DAY_MS : endMs - startMs;
  return rangeOf(frame, {
    from: new Date(startMs - back).toISOString(),
    to: new Date(endMs - back).toISOString(),
  });
};

/**
 * Returns what a range is compared with; undefined for nothing. While the range is going on, the other one
 * ends after as much time as has passed of it.
 * @throws DomainError VALIDATION_ERROR for a custom range that is none
 */
export const comparedWith = (frame: Frame, range: Range, query: ComparisonQuery): Compared | undefined => {
  const { compare, compareFrom, compareTo } = query;
  if (compare !== "custom" && (compareFrom ?? compareTo) !== undefined)
    throw invalid("compare", "must be custom with compareFrom and compareTo");
  if (compare === "none") return undefined;
  const other = otherRange(frame, range, query);
  const partial = range.endMs > frame.asOfMs;
  if (!partial) return { mode: compare, range: other, partial };
  const passedMs = Math.max(0, frame.asOfMs - range.startMs);
  const endMs = Math.min(other.endMs, other.startMs + passedMs);
  return { mode: compare, range: { ...other, endMs }, partial };
};

/** A comparison as answers show it. */
export const showComparison = ({ mode, range, partial }: Compared) => ({
  mode,
  from: dateOfDay(range.firstDay),
  to: dateOfDay(range.lastDay),
  start: new Date(range.startMs).toISOString(),
  end: new Date(range.endMs).toISOString(),
  partial,
});

export type Trend = "up" | "down" | "flat" | "new";

/** A number beside that of the compared range. Rates have `changePoints`, in percentage points. */
export type Change = {
  previous: number | null;
  change?: number | null;
  changePct?: number | null;
  changePoints?: number | null;
  trend?: Trend | null;
};

export const rounded = (value: number, decimals: number): number => {
  const factor = 10 ** decimals;
  // So large a number has no more decimals than those.
  if (Math.abs(value * factor) > Number.MAX_SAFE_INTEGER) return value;
  // The smallest step above the product, so that what is halfway in decimals is rounded up.
  return Math.round(value * factor * (1 + Number.EPSILON)) / factor;
};

const trendOf = (difference: number): Trend => (difference === 0 ? "flat" : difference > 0 ? "up" : "down");

/** Returns how a number differs from that of the compared range, in per cent with one decimal. */
export const changeOf = (value: number | null, previous: number | null): Change => {
  if (value === null || previous === null) return { previous, change: null, changePct: null, trend: null };
  const change = rounded(value - previous, 6);
  if (previous === 0)
    return value === 0
      ? { previous, change, changePct: 0, trend: "flat" }
      : { previous, change, changePct: null, trend: "new" };
  const changePct = rounded(((value - previous) / previous) * 100, 1);
  return { previous, change, changePct, trend: trendOf(changePct) };
};

/** Returns how a rate differs from that of the compared range, in percentage points with one decimal. */
export const pointsOf = (value: number | null, previous: number | null): Change => {
  if (value === null || previous === null) return { previous, changePoints: null, trend: null };
  const changePoints = rounded((value - previous) * 100, 1);
  return { previous, changePoints, trend: trendOf(changePoints) };
};
