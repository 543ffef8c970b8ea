import { runsAround } from "../language/cron.ts";
import { periodAt, periodName, periodStart } from "../streaks/periods.ts";
import type { CalendarUnit } from "../../kernel/zones.ts";
import type { Quest } from "./quest.ts";

/**
 * A cycle of a repeating quest: it is named by a key that follows from a moment and a time zone, so nothing
 * has to happen when one begins. Keys of one mode sort in the order of time.
 */
export type Cycle = {
  key: string;
  /** In [startMs, endMs). */
  startMs: number;
  endMs: number;
};

const UNITS: Partial<Record<Quest["repeat"]["mode"], CalendarUnit>> = {
  DAILY: "DAY",
  WEEKLY: "WEEK",
  MONTHLY: "MONTH",
};

/** The key of the only cycle of a quest that does not repeat. */
export const ONCE = "once";

/**
 * Cycles of schedules by zone, of which one is found by a search of some 300 us. As many as 500 quests have
 * in a hundred zones, some 10 MiB: with fewer, each event of such a project might search for those of its
 * player.
 */
const CRON_CYCLES_MAX = 50_000;
const cronCycles = new Map<string, Cycle>();

const iso = (ms: number): string => new Date(ms).toISOString();

/** Before the first time of a schedule there is no cycle; such a moment belongs to one that ends with it. */
const cronCycle = (cron: string, zone: string, atMs: number): Cycle => {
  const name = `${zone} ${cron}`;
  const known = cronCycles.get(name);
  if (known && known.startMs <= atMs && atMs < known.endMs) return known;
  const { last: startMs = -Infinity, next: endMs = Infinity } = runsAround(cron, zone, atMs);
  const cycle = { key: startMs === -Infinity ? "first" : iso(startMs), startMs, endMs };
  cronCycles.delete(name);
  cronCycles.set(name, cycle);
  if (cronCycles.size > CRON_CYCLES_MAX) cronCycles.delete(cronCycles.keys().next().value!);
  return cycle;
};

const calendarCycle = (unit: CalendarUnit, zone: string, atMs: number): Cycle => {
  const calendar = { unit, dayStartsMs: 0 };
  const period = periodAt(calendar, zone, atMs);
  return {
    key: periodName(unit, period),
    startMs: periodStart(calendar, zone, period),
    endMs: periodStart(calendar, zone, period + 1),
  };
};

/**
 * Returns the cycle of a moment.
 * @param zone the time zone that the quest's cycles follow
 * @param sequence number of the cycle, for quests that repeat UNLIMITED
 */
export const cycleAt = ({ mode, cron }: Quest["repeat"], zone: string, atMs: number, sequence = 1): Cycle => {
  if (mode === "CRON") return cronCycle(cron!, zone, atMs);
  const unit = UNITS[mode];
  if (unit) return calendarCycle(unit, zone, atMs);
  return { key: mode === "NONE" ? ONCE : String(sequence), startMs: -Infinity, endMs: Infinity };
};

/** Returns whether cycles follow from time. */
export const hasPeriods = ({ mode }: Quest["repeat"]): boolean =>
  mode === "CRON" || UNITS[mode] !== undefined;
