import { sql } from "kysely";
import { settledAt, zoneOf } from "../../evaluation/streaks/advance.ts";
import type { CompiledStreak, Streak } from "../../evaluation/streaks/compile.ts";
import {
  isNext,
  periodAt,
  periodName,
  periodsBetween,
  periodsOfRun,
  type StreakCalendar,
} from "../../evaluation/streaks/periods.ts";
import type { Work } from "../../kernel/work.ts";
import type { CalendarUnit } from "../../kernel/zones.ts";
import type { Player } from "../../players/player.ts";
import { readStreaks } from "./player-streaks.ts";

/** A run by the numbers of its periods, and the names of those that freezes have kept. */
type Run = { first: number; last: number; frozen: readonly string[] };
type Range = { first: number; last: number };

/** How long a run was at the last period that it completed in a range; 0 where it completed none. */
const lengthIn = (unit: CalendarUnit, { first, last, frozen }: Run, range: Range): number => {
  const begin = Math.max(first, range.first);
  let end = Math.min(last, range.last);
  while (end >= begin && frozen.includes(periodName(unit, end))) end--;
  if (end < begin) return 0;
  // Names of one unit are in the order of time.
  const name = periodName(unit, end);
  return end - first + 1 - frozen.filter((one) => one <= name).length;
};

/** The runs that are not archived, and the periods that wait for what is between them and a run. */
const latestOf = ({ calendar }: CompiledStreak, { doc: { run, lost, early = [] } }: Streak): Run[] => [
  ...[run, lost].flatMap((one) =>
    one ? [{ ...one, frozen: one.frozen.map((period) => periodName(calendar.unit, period)) }] : [],
  ),
  ...rowsOf(calendar, early),
];

/** Rows of neighbours among ascending periods. */
const rowsOf = (calendar: StreakCalendar, periods: readonly number[]): Run[] => {
  const rows: Run[] = [];
  for (const period of periods) {
    const row = rows.at(-1);
    if (!row || !isNext(calendar, row.last, period)) rows.push({ first: period, last: period, frozen: [] });
    else {
      const off = periodsBetween(row.last, period).map((one) => periodName(calendar.unit, one));
      rows[rows.length - 1] = { ...row, last: period, frozen: [...row.frozen, ...off] };
    }
  }
  return rows;
};

type Row = { key: string; started: string; ended: string; frozen: string[] };

/** Reads the archived runs of a player's streaks that may have been going on in a span, in any zone. */
const readArchived = async (
  { db }: Work,
  { projectId, id }: Player,
  { from, to }: { from: Date; to: Date },
): Promise<Row[]> => {
  const found = await sql<Row>`
    select streak_key as key, started_on::text as started, ended_on::text as ended, frozen_periods as frozen
    from streak_runs where project_id = ${projectId} and player_id = ${id}
      and ended_on >= ${from.toISOString().slice(0, 10)}::date - 2
      and started_on <= ${to.toISOString().slice(0, 10)}::date + 2`.execute(db);
  return found.rows;
};

const rangeOf = (
  { calendar }: CompiledStreak,
  zone: string,
  { from, to }: { from: Date; to: Date },
): Range => ({
  first: periodAt(calendar, zone, from.getTime()),
  last: periodAt(calendar, zone, to.getTime() - 1),
});

/**
 * Returns how long the runs of each streak that counts periods have become in a span, the longest one, as they
 * are known now: what was told when they grew is not in order where events came late. 0 where none grew.
 */
export const longestRunsIn = async (
  work: Work,
  player: Player,
  span: { from: Date; to: Date },
): Promise<Map<string, number>> => {
  const whose = await readStreaks(work, player);
  const archived = Map.groupBy(await readArchived(work, player, span), ({ key }) => key);
  const longest = new Map<string, number>();
  for (const streak of whose.project.streaks.values()) {
    const { key, mode, period: unit } = streak.definition;
    if (mode !== "PERIODIC") continue;
    const { state } = settledAt(streak, whose, work.now.getTime());
    const range = rangeOf(streak, state.doc.zone ?? zoneOf(streak, whose).zone, span);
    const past = (archived.get(key) ?? []).map(({ started, ended, frozen }) => ({
      ...periodsOfRun(unit, started, ended),
      frozen,
    }));
    const runs = [...latestOf(streak, state), ...past];
    longest.set(key, Math.max(0, ...runs.map((run) => lengthIn(unit, run, range))));
  }
  return longest;
};
