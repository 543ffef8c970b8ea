import { sql } from "kysely";
import { invalid } from "../../kernel/errors.ts";
import type { Player } from "../../players/player.ts";
import type { CalendarUnit } from "../../kernel/zones.ts";
import type { Work } from "../../kernel/work.ts";
import { settledAt, zoneOf } from "../../evaluation/streaks/advance.ts";
import { runOf } from "../../evaluation/streaks/announce.ts";
import { firstDate, lastDate, periodAt, periodName, periodOfDate } from "../../evaluation/streaks/periods.ts";
import { readStreaks, streakOf } from "./player-streaks.ts";
import type { Streak } from "../../evaluation/streaks/state.ts";
import type { Streak as Definition } from "../../evaluation/streaks/streak.ts";

/** Maximum number of periods per response, and the default. */
export const HISTORY_PERIODS_MAX = 366;
const HISTORY_PERIODS_DEFAULT = 30;
const RUNS_MAX = 400;

export const RUN_ENDS = ["MISSED", "BREAK_EVENT", "RESET", "REPAIRED", "MERGED"] as const;

/** A run of a streak; `endedBy` and `endedOn` are null for the current one. */
export type HistoricRun = {
  startedOn: string;
  endedOn: string | null;
  length: number;
  frozenPeriods: string[];
  endedBy: (typeof RUN_ENDS)[number] | null;
};

export type StreakHistory = {
  /** Oldest first; empty for CONSECUTIVE. */
  data: { period: string; done: boolean; frozen: boolean }[];
  /** Newest first, starting with the current one. */
  runs: HistoricRun[];
};

/** Dates, inclusive. */
export type HistoryQuery = { from?: string | undefined; to?: string | undefined };

/**
 * Returns the state of each period of a player's streak in a range of dates, and the overlapping runs.
 * @throws DomainError NOT_FOUND; VALIDATION_ERROR for more than HISTORY_PERIODS_MAX periods
 */
export const streakHistory = async (
  work: Work,
  player: Player,
  { streakKey, ...query }: HistoryQuery & { streakKey: string },
): Promise<StreakHistory> => {
  const whose = await readStreaks(work, player);
  const streak = streakOf(whose.project, streakKey);
  const nowMs = work.now.getTime();
  const { state } = settledAt(streak, whose, nowMs);
  const zone = state.doc.zone ?? zoneOf(streak, whose).zone;
  const unit = streak.definition.period;
  const range = rangeOf(unit, query, periodAt(streak.calendar, zone, nowMs));
  const [from, to] = [firstDate(unit, range.first), lastDate(unit, range.last)];
  const past = await readRuns(work, player, { streakKey, from, to });
  const runs = [...latestRuns(streak.definition, state), ...past].filter(
    ({ startedOn, endedOn }) => startedOn <= to && (endedOn === null || endedOn >= from),
  );
  const isPeriodic = streak.definition.mode === "PERIODIC";
  return { data: isPeriodic ? periodsOf(unit, range, { runs, state }) : [], runs };
};

type Range = { first: number; last: number };

const rangeOf = (unit: CalendarUnit, { from, to }: HistoryQuery, today: number): Range => {
  const given = from === undefined ? undefined : periodOfDate(unit, from);
  const last = to === undefined ? Math.max(today, given ?? today) : periodOfDate(unit, to);
  const first = given ?? last - HISTORY_PERIODS_DEFAULT + 1;
  if (last < first) throw invalid("to", "must not be before from");
  if (last - first >= HISTORY_PERIODS_MAX)
    throw invalid("from", `at most ${HISTORY_PERIODS_MAX} periods can be asked for at once`);
  return { first, last };
};

/** Returns the current run and the last lost one, which are not archived yet. */
const latestRuns = (definition: Definition, { current, doc }: Streak): HistoricRun[] => [
  ...(doc.run ? [{ ...runOf(definition, { ...doc.run, length: current }, null), endedOn: null }] : []),
  ...(doc.lost ? [runOf(definition, doc.lost, doc.lost.by)] : []),
];

type RunRow = {
  started_on: string;
  ended_on: string;
  length: number;
  frozen_periods: string[];
  ended_by: (typeof RUN_ENDS)[number];
};

const readRuns = async (
  { db }: Work,
  { projectId, id }: Player,
  { streakKey, from, to }: { streakKey: string; from: string; to: string },
): Promise<HistoricRun[]> => {
  const { rows } = await sql<RunRow>`
    select started_on::text, ended_on::text, length, frozen_periods, ended_by from streak_runs
    where project_id = ${projectId} and player_id = ${id} and streak_key = ${streakKey}
      and ended_on >= ${from}::date and started_on <= ${to}::date
    order by ended_on desc, id desc limit ${RUNS_MAX}`.execute(db);
  return rows.map((row) => ({
    startedOn: row.started_on,
    endedOn: row.ended_on,
    length: row.length,
    frozenPeriods: row.frozen_periods,
    endedBy: row.ended_by,
  }));
};

const periodsOf = (
  unit: CalendarUnit,
  { first, last }: Range,
  { runs, state }: { runs: readonly HistoricRun[]; state: Streak },
): StreakHistory["data"] => {
  const frozen = new Set(runs.flatMap(({ frozenPeriods }) => frozenPeriods));
  const spans = runs.map(({ startedOn, endedOn }) => ({
    first: periodOfDate(unit, startedOn),
    last: endedOn === null ? state.doc.run!.last : periodOfDate(unit, endedOn),
  }));
  return Array.from({ length: last - first + 1 }, (_, i) => {
    const number = first + i;
    const period = periodName(unit, number);
    const isFrozen = frozen.has(period);
    const isIn = spans.some((span) => span.first <= number && number <= span.last);
    return { period, done: isIn && !isFrozen, frozen: isFrozen };
  });
};
