import { sql } from "kysely";
import { z } from "zod";
import { adjustCurrency } from "../../evaluation/currencies/adjust.ts";
import { checkActive, type PlayerState } from "../../evaluation/player-state.ts";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import type { CompiledDefinitions } from "../../evaluation/project-settings.ts";
import {
  announce,
  grantFreezes,
  missedPeriods,
  repair,
  repairable,
  repairableUntil,
  reset,
  runOf,
  settledAt,
  storeStreak,
  zoneOf,
} from "../../evaluation/streaks/advance.ts";
import {
  type CompiledStreak,
  type LostRun,
  NO_STEPS,
  type Run,
  type Settled,
  statesOf,
  type Streak,
} from "../../evaluation/streaks/compile.ts";
import {
  type Dates,
  firstDate,
  lastDate,
  periodAt,
  periodName,
  periodOfDate,
  periodsOfRun,
} from "../../evaluation/streaks/periods.ts";
import type { Turn } from "../../evaluation/turn.ts";
import { conflict, invalid, notFound } from "../../kernel/errors.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import type { Work } from "../../kernel/work.ts";
import type { CalendarUnit } from "../../kernel/zones.ts";
import type { Player } from "../../players/player.ts";
import { changePlayer, type PlayerKey } from "../../progression/change.ts";
import { loadStates } from "../../progression/load-states.ts";
import { dueIn, type PlayersOf, settleDueRows } from "../../progression/moved-ends.ts";
import { streaks as streaksPart } from "../../progression/parts/part.ts";
import { projectPlans, readPlan } from "../../progression/plan.ts";
import { stateOfPlayer } from "../../progression/load.ts";

/** The table whose due rows are processed: see findDue. */
export const DUE_STREAKS = dueIn("player_streaks");

/** Warns players whose runs end soon, once per period, and settles the runs that are over. Idempotent. */
export const settlePlayersStreaks = (work: Work, players: PlayersOf): Promise<void> =>
  settleDueRows(work, DUE_STREAKS, players, (turn) => {
    for (const key of turn.player.streaks.keys()) settleDue(turn, key);
  });

/** Settles one streak of a player up to now. */
export const settleDue = (turn: Turn, key: string): void => {
  const { player, project, nowMs } = turn;
  const stored = player.streaks.get(key) as Streak;
  if (stored.doc.dueMs === undefined || stored.doc.dueMs > nowMs) return;
  const streak = project.streaks.get(key);
  if (!streak || player.status === "ERASED") {
    const { dueMs: _over, ...doc } = stored.doc;
    player.streaks.set(key, { ...stored, doc });
    player.dirty.streaks.add(key);
    return;
  }
  const { state, steps } = settledAt(streak, turn, nowMs);
  const isWarned = isAtRisk(streak, state, nowMs) && state.doc.warned !== state.deadlineMs;
  storeStreak(
    turn,
    streak,
    isWarned ? { ...state, doc: { ...state.doc, warned: state.deadlineMs! } } : state,
  );
  announce(turn, streak, steps);
  if (!isWarned) return;
  turn.emit("player.streak_at_risk", {
    playerId: player.id,
    externalUserId: player.externalUserId,
    streakKey: key,
    current: state.current,
    deadlineAt: new Date(state.deadlineMs!).toISOString(),
    freezes: state.freezes,
  });
};

/** Whether a run ends soon unless its player acts: the current period is not completed. */
const isAtRisk = ({ riskMs }: CompiledStreak, { deadlineMs }: Streak, nowMs: number): boolean =>
  deadlineMs !== null && deadlineMs > nowMs && deadlineMs - nowMs <= riskMs;

/** Maximum number of frozen periods shown, the newest. */
const FROZEN_SHOWN = 100;

const STREAK_STATUSES = ["NONE", "ACTIVE", "AT_RISK", "BROKEN"] as const;

/** A player's streak as the API shows it. */
export const PlayerStreakBody = z
  .object({
    streakKey: z.string(),
    name: z.string(),
    current: z.int().meta({ description: "Periods, or events of a CONSECUTIVE streak, in a row" }),
    longest: z.int(),
    status: z
      .enum(STREAK_STATUSES)
      .meta({ description: "AT_RISK: the last 4 hours of a day, 24 of a week, 72 of a month are left" }),
    doneThisPeriod: z.boolean(),
    periodProgress: z.array(z.object({ value: z.number(), target: z.number() })).meta({
      description: "Progress of the current period, for each part of `qualify`; stops once done",
    }),
    deadlineAt: z.iso.datetime().nullable().meta({ description: "When the run ends unless it is extended" }),
    freezes: z.int(),
    maxFreezes: z.int(),
    startedOn: z.iso.date().nullable(),
    lastPeriod: z.string().nullable(),
    frozenPeriods: z.array(z.string()).meta({
      description: "Periods of the current run that a freeze, a repair or a day off has kept: the newest 100",
    }),
    repairableUntil: z.iso.datetime().nullable(),
    lostLength: z.int().nullable().meta({ description: "Of the run that was lost" }),
  })
  .meta({
    id: "PlayerStreak",
    example: {
      streakKey: "daily-lesson",
      name: "Daily lesson",
      current: 12,
      longest: 30,
      status: "ACTIVE",
      doneThisPeriod: true,
      periodProgress: [{ value: 1, target: 1 }],
      deadlineAt: "2026-01-14T00:00:00.000Z",
      freezes: 1,
      maxFreezes: 2,
      startedOn: "2026-01-01",
      lastPeriod: "2026-01-12",
      frozenPeriods: [],
      repairableUntil: null,
      lostLength: null,
    },
  });
export type PlayerStreak = z.output<typeof PlayerStreakBody>;

/**
 * Returns the API form of a streak that was settled at `nowMs`; `zone` is the player's, for one that has not
 * begun.
 */
const showStreak = (
  streak: CompiledStreak,
  state: Streak,
  { nowMs, zone }: { nowMs: number; zone: string },
): PlayerStreak => {
  const { key, name, mode, freeze } = streak.definition;
  const period = periodAt(streak.calendar, state.doc.zone ?? zone, nowMs);
  const isPeriodic = mode === "PERIODIC";
  return {
    streakKey: key,
    name,
    current: state.current,
    longest: state.longest,
    status: statusOf(streak, state, nowMs),
    doneThisPeriod: isPeriodic && (state.doc.run?.last ?? -Infinity) >= period,
    periodProgress: isPeriodic ? progressOf(streak, state, period) : [],
    deadlineAt: isoOf(state.deadlineMs),
    freezes: state.freezes,
    maxFreezes: freeze?.enabled ? freeze.max : 0,
    ...showRun(streak, state.doc.run),
    ...showLost(streak, state, nowMs),
  };
};

const showRun = ({ calendar, definition: { period } }: CompiledStreak, run: Run | undefined) => ({
  startedOn: run ? firstDate(calendar, run.first) : null,
  lastPeriod: run ? periodName(period, run.last) : null,
  frozenPeriods: (run?.frozen ?? []).slice(-FROZEN_SHOWN).map((one) => periodName(period, one)),
});

/** Returns a lost run, as long as it can be repaired or no new one has begun. */
const showLost = (streak: CompiledStreak, state: Streak, nowMs: number) => {
  const mendable = repairable(streak, state, nowMs);
  const lost = mendable ?? (state.doc.run ? undefined : state.doc.lost);
  return {
    repairableUntil: isoOf(mendable && repairableUntil(streak, mendable)),
    lostLength: lost?.length ?? null,
  };
};

const statusOf = (streak: CompiledStreak, state: Streak, nowMs: number): PlayerStreak["status"] => {
  if (state.current > 0) return isAtRisk(streak, state, nowMs) ? "AT_RISK" : "ACTIVE";
  return state.doc.lost ? "BROKEN" : "NONE";
};

const progressOf = (streak: CompiledStreak, { doc }: Streak, period: number) => {
  const states = statesOf(streak, doc.progress, period);
  return streak.parts.map((part, i) => ({ value: part.valueOf(states[i] ?? null), target: part.threshold }));
};

type StreakHolder = { player: PlayerState; project: CompiledDefinitions };

/** Reads a player's streaks without changing them. */
export const readStreaks = async (work: Work, player: Player): Promise<StreakHolder> => {
  const project = await readPlan(work, player.projectId, projectPlans);
  const state = stateOfPlayer(player);
  await loadStates(work, [state], [project], [streaksPart]);
  return { player: state, project };
};

/** Returns one streak as of now. */
const showNow = (whose: StreakHolder, streak: CompiledStreak, nowMs: number): PlayerStreak => {
  const { state } = settledAt(streak, whose, nowMs);
  return showStreak(streak, state, { nowMs, zone: zoneOf(streak, whose).zone });
};

/** Lists all streaks of the player's project as of now, by key, including those that have not begun. */
export const listStreaks = async (work: Work, player: Player): Promise<PlayerStreak[]> => {
  const whose = await readStreaks(work, player);
  return shownStreaks(whose, work.now.getTime());
};

/** Returns the streaks of a player whose streaks are loaded, as `listStreaks` does. */
export const shownStreaks = (whose: StreakHolder, nowMs: number): PlayerStreak[] =>
  [...whose.project.streaks.values()].map((streak) => showNow(whose, streak, nowMs));

/** @throws DomainError NOT_FOUND */
const streakOf = ({ streaks }: Pick<CompiledDefinitions, "streaks">, key: string): CompiledStreak => {
  const streak = streaks.get(key);
  if (!streak) throw notFound("streak");
  return streak;
};

/** Changes one streak of a player after settling it, and returns its new state. */
const changeStreak = async (
  work: Work,
  player: PlayerKey,
  streakKey: string,
  change: (turn: Turn, streak: CompiledStreak, settled: Streak) => Settled,
): Promise<PlayerStreak> => {
  const applied = (turn: PlanTurn) => {
    const streak = streakOf(turn.project, streakKey);
    const settled = settledAt(streak, turn, turn.nowMs);
    const { state, steps } = change(turn, streak, settled.state);
    storeStreak(turn, streak, state);
    announce(turn, streak, [...settled.steps, ...steps]);
    return () => showNow(turn, streak, turn.nowMs);
  };
  return (await changePlayer(work, player, applied)).value;
};

/**
 * Grants freezes to a player, up to the streak's maximum.
 * @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE for a streak without freezes, PLAYER_INACTIVE
 */
export const giveFreezes = async (
  work: Work,
  player: PlayerKey,
  { streakKey, amount }: { streakKey: string; amount: number },
): Promise<PlayerStreak> => {
  const { value } = await changePlayer(work, player, (turn) => {
    const streak = streakOf(turn.project, streakKey);
    if (!streak.definition.freeze?.enabled) throw conflict("INVALID_STATE", "the streak has no freezes");
    checkActive(turn.player);
    grantFreezes(turn, streakKey, amount);
    return () => showNow(turn, streak, turn.nowMs);
  });
  return value;
};

/**
 * Restores a player's lost run within the streak's repair period. `pay`: charges a freeze for each missed
 * period if freezes are not applied automatically and the player has enough, otherwise the streak's price;
 * without it the repair is free.
 * @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE when there is nothing to repair or no price,
 * INSUFFICIENT_FUNDS, PLAYER_INACTIVE
 */
export const repairStreak = (
  work: Work,
  ref: PlayerKey,
  { streakKey, pay, cause }: { streakKey: string; pay: boolean; cause: Cause },
): Promise<PlayerStreak> =>
  changeStreak(work, ref, streakKey, (turn, streak, settled) => {
    checkActive(turn.player);
    const lost = repairable(streak, settled, turn.nowMs);
    if (!lost) throw conflict("INVALID_STATE", "the streak has no lost run that can still be repaired");
    const paid = pay ? payFor(turn, streak, { settled, lost, cause }) : settled;
    return repair(streak, paid, { lost, atMs: turn.nowMs, by: pay ? "PURCHASE" : "ADMIN" });
  });

const payFor = (
  turn: Turn,
  streak: CompiledStreak,
  { settled, lost, cause }: { settled: Streak; lost: LostRun; cause: Cause },
): Streak => {
  const { key, freeze, repairCost } = streak.definition;
  const missed = missedPeriods(streak, settled, { lost, atMs: turn.nowMs }).filter(
    (period) => !streak.calendar.isOff(period),
  ).length;
  if (freeze?.enabled && !freeze.autoUse && missed > 0 && settled.freezes >= missed)
    return { ...settled, freezes: settled.freezes - missed };
  if (!repairCost) throw conflict("INVALID_STATE", "the streak has no price for a repair");
  const { currencyKey, amount } = repairCost;
  const change = {
    currencyKey,
    amount: -amount,
    cause,
    key: `api:${newId()}`,
    reason: `streak:${key}:repair`,
  };
  const { problem } = adjustCurrency(turn, change);
  if (problem !== undefined) throw conflict(problem, `the repair costs ${amount} ${currencyKey}`);
  return settled;
};

/**
 * Ends a player's run, which cannot be repaired then; longest and freezes stay.
 * @throws DomainError NOT_FOUND
 */
export const resetStreak = (work: Work, ref: PlayerKey, streakKey: string): Promise<PlayerStreak> =>
  changeStreak(work, ref, streakKey, (turn, streak, settled) =>
    settled.doc.run || settled.doc.lost || settled.doc.progress
      ? reset(streak, settled, turn.nowMs)
      : { state: settled, steps: NO_STEPS },
  );

/** Maximum number of periods per response, and the default. */
const HISTORY_PERIODS_MAX = 366;
const HISTORY_PERIODS_DEFAULT = 30;
const RUNS_MAX = 400;

const RUN_ENDS = ["MISSED", "BREAK_EVENT", "RESET", "REPAIRED", "MERGED"] as const;

export const HistoryBody = z.object({
  data: z
    .array(z.object({ period: z.string(), done: z.boolean(), frozen: z.boolean() }))
    .meta({ description: "Every period from `from` to `to`, oldest first; none of a CONSECUTIVE streak" }),
  runs: z
    .array(
      z.object({
        startedOn: z.iso.date(),
        endedOn: z.iso.date().nullable().meta({ description: "Null for the current run" }),
        length: z.int(),
        frozenPeriods: z.array(z.string()),
        endedBy: z.enum(RUN_ENDS).nullable(),
      }),
    )
    .meta({ description: "Newest first" }),
});
type StreakHistory = z.output<typeof HistoryBody>;
type HistoricRun = StreakHistory["runs"][number];

/** Dates, inclusive. */
type HistoryQuery = { from?: string | undefined; to?: string | undefined };

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
  const range = rangeOf(streak.calendar, query, periodAt(streak.calendar, zone, nowMs));
  const [from, to] = [firstDate(streak.calendar, range.first), lastDate(streak.calendar, range.last)];
  const past = await readRuns(work, player, { streakKey, from, to });
  const runs = [...latestRuns(streak, state), ...past].filter(
    ({ startedOn, endedOn }) => startedOn <= to && (endedOn === null || endedOn >= from),
  );
  const isPeriodic = streak.definition.mode === "PERIODIC";
  return { data: isPeriodic ? periodsOf(unit, range, { runs, state }) : [], runs };
};

type Range = { first: number; last: number };

const rangeOf = ({ unit, weekStartsOn }: Dates, { from, to }: HistoryQuery, today: number): Range => {
  const given = from === undefined ? undefined : periodOfDate(unit, from, weekStartsOn);
  const last = to === undefined ? Math.max(today, given ?? today) : periodOfDate(unit, to, weekStartsOn);
  const first = given ?? last - HISTORY_PERIODS_DEFAULT + 1;
  if (last < first) throw invalid("to", "must not be before from");
  if (last - first >= HISTORY_PERIODS_MAX)
    throw invalid("from", `at most ${HISTORY_PERIODS_MAX} periods can be asked for at once`);
  return { first, last };
};

/** Returns the current run and the last lost one, which are not archived yet. */
const latestRuns = (streak: CompiledStreak, { current, doc }: Streak): HistoricRun[] => [
  ...(doc.run ? [{ ...runOf(streak, { ...doc.run, length: current }, null), endedOn: null }] : []),
  ...(doc.lost ? [runOf(streak, doc.lost, doc.lost.by)] : []),
];

const readRuns = async (
  { db }: Work,
  { projectId, id }: Player,
  { streakKey, from, to }: { streakKey: string; from: string; to: string },
): Promise<HistoricRun[]> => {
  const { rows } = await sql<HistoricRun>`
    select started_on::text as "startedOn", ended_on::text as "endedOn", length,
      frozen_periods as "frozenPeriods", ended_by as "endedBy"
    from streak_runs
    where project_id = ${projectId} and player_id = ${id} and streak_key = ${streakKey}
      and ended_on >= ${from}::date and started_on <= ${to}::date
    order by ended_on desc, id desc limit ${RUNS_MAX}`.execute(db);
  return rows;
};

const periodsOf = (
  unit: CalendarUnit,
  { first, last }: Range,
  { runs, state }: { runs: readonly HistoricRun[]; state: Streak },
): StreakHistory["data"] => {
  const frozen = new Set(runs.flatMap(({ frozenPeriods }) => frozenPeriods));
  const spans = runs.map(({ startedOn, endedOn }) => {
    const span = periodsOfRun(unit, startedOn, endedOn ?? startedOn);
    return endedOn === null ? { ...span, last: state.doc.run!.last } : span;
  });
  return Array.from({ length: last - first + 1 }, (_, i) => {
    const number = first + i;
    const period = periodName(unit, number);
    const isFrozen = frozen.has(period);
    const isIn = spans.some((span) => span.first <= number && number <= span.last);
    return { period, done: isIn && !isFrozen, frozen: isFrozen };
  });
};
