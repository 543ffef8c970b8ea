import { type RawBuilder, sql } from "kysely";
import { invalid } from "../kernel/errors.ts";
import { atOnce, type Steps } from "../kernel/slices.ts";
import type { Work } from "../kernel/work.ts";
import type { Asked } from "./ask.ts";
import { dateOfDay } from "./calendar.ts";
import { eventsOf, instant, textList } from "./events.ts";
import { eachPlayer, eachPlayerStretches, type PlayerEvents } from "./packed.ts";
import { activeStretches, cutsOf, periodAt, type Periods, periodsOf } from "./periods.ts";
import { propertyText } from "./properties.ts";
import {
  type RetentionQuestion,
  type RetentionCohort,
  type RetentionGroup,
  type RetentionOverall,
  RetentionTally,
} from "./retention-tally.ts";
import { type Column, type Found, judgeReturns, type ReturnTask } from "./returns.ts";
import { eachRolledPlayer } from "./rollups/players.ts";
import { areDivisible } from "./rollups/quarters.ts";
import { openRolled } from "./rollups/rolled.ts";
import { eachRolledTimes, type RolledTimes } from "./rollups/times.ts";
import { FoundPlayers, type Who } from "./who.ts";

export const OFFSETS_MAX = 100;
/** The furthest offset. */
export const OFFSET_MAX = 1_000;

export type RetentionView = Pick<RetentionQuestion, "type" | "unit" | "entry" | "clock"> & {
  cohorts: RetentionCohort[];
  overall: RetentionOverall[];
  breakdown?: RetentionGroup[];
};

/** What is made of the players whom a question finds: a count, or a list. */
type Finding = {
  /** Whether it needs to know who the players are. */
  isNamed: boolean;
  /** Takes what is found of one player. `valueOf`: the breakdown's value of a start. */
  foundOf: (who: Who | null, valueOf: (start: number) => string | null | undefined) => Found;
};
type Judging = { task: ReturnTask; finding: Finding };

const columnsOf = ({ type, offsets }: RetentionQuestion): Column[] =>
  offsets.map(({ offset, until = offset }) => {
    if (type === "unbounded") return { from: offset, until: Infinity };
    return type === "within" ? { from: 1, until: offset } : { from: offset, until };
  });

const START = 1;
const RETURN = 2;

/** A query of the events that may start or be a return, each with its marks. */
const markedEvents = (
  { frame, range }: Asked,
  { startEvent, returnEvents, entry, breakdown }: RetentionQuestion,
): RawBuilder<unknown> => {
  const isStart = startEvent === undefined ? sql`true` : sql`e.event_type = ${startEvent}`;
  const isReturn = returnEvents === undefined ? sql`true` : sql`e.event_type in ${textList(returnEvents)}`;
  const types =
    startEvent !== undefined && returnEvents ? [...new Set([startEvent, ...returnEvents])] : undefined;
  // Of the time before the range, only the first start ever is of interest.
  const since = entry === "recurring" ? { fromMs: range.startMs } : {};
  const where = sql`(${isStart} or e.occurred_at >= ${instant(range.startMs)})`;
  const value = breakdown ? sql`, ${propertyText(breakdown.path)} as value` : sql``;
  return sql`select e.player_id, e.at, e.id,
      (${isStart})::int * ${sql.lit(START)} | (${isReturn})::int * ${sql.lit(RETURN)} as marks${value}
    from (${eventsOf(frame, { ...since, types, where })}) e`;
};

/** Reads events one by one: for times of day, equal times and properties. */
const judgeEvents = async (
  work: Work,
  asked: Asked,
  question: RetentionQuestion,
  { task, finding }: Judging,
): Promise<void> => {
  const { startMs, endMs } = asked.range;
  const isStart = sql`(r.marks & ${sql.lit(START)}) <> 0`;
  const mayStart = sql`${isStart} and r.at >= ${instant(startMs)} and r.at < ${instant(endMs)}`;
  const isNew = sql`not bool_or(${isStart} and r.at < ${instant(startMs)})`;
  const isFirstOnly = question.entry === "first_time";
  const query = {
    events: markedEvents(asked, question),
    fromMs: startMs,
    having: sql`bool_or(${mayStart}) ${isFirstOnly ? sql`and ${isNew}` : sql``}`,
    values: question.breakdown && { where: mayStart, isFirstOnly },
    // Where any event starts, of equal times the first one does: only the others may be returns.
    isInOrder:
      question.breakdown !== undefined ||
      (question.startEvent === undefined && question.returnEvents !== undefined),
    isNamed: finding.isNamed,
  };
  await eachPlayer(work, query, (player, playerId) => {
    const visits = visitsOf(player, endMs);
    return judgeReturns(
      visits,
      task,
      finding.foundOf(playerId, (start) => player.values[start]),
    );
  });
};

/** What events of each type are marked with, and those of other types. */
const marksOf = (startEvent: string | undefined, returnEvents: readonly string[] | undefined) => {
  const marks = new Map<string, number>();
  const [others, start] = [startEvent === undefined ? START : 0, returnEvents === undefined ? RETURN : 0];
  for (const type of returnEvents ?? []) marks.set(type, RETURN | others);
  if (startEvent !== undefined) marks.set(startEvent, START | start | (marks.get(startEvent) ?? 0));
  return { marks, otherMarks: (others | start) === 0 ? undefined : others | start };
};

/**
 * Reads events one by one from rollups, which know neither properties nor the order of equal times.
 * @returns whether they could tell
 */
const judgeRolledEvents = async (
  work: Work,
  { frame, range }: Asked,
  { startEvent, returnEvents, entry, breakdown }: RetentionQuestion,
  { task, finding }: Judging,
): Promise<boolean> => {
  if (breakdown || (startEvent === undefined && returnEvents !== undefined)) return false;
  const rolled = await openRolled(work, frame);
  if (!rolled) return false;
  const isFirstOnly = entry === "first_time";
  const question = {
    fromMs: range.startMs,
    untilMs: frame.asOfMs,
    ...marksOf(startEvent, returnEvents),
    before: isFirstOnly && startEvent !== undefined ? [startEvent] : [],
  };
  const firstStart = ({ firstMs, size, at }: RolledTimes): number => {
    if (startEvent === undefined) return firstMs;
    return size > 0 ? at[0]! : Infinity;
  };
  await eachRolledTimes(work, rolled, question, (player) => {
    if (isFirstOnly && firstStart(player) < range.startMs) return undefined;
    const visits = visitsOf(player, range.endMs);
    if (visits.starts.length === 0) return undefined;
    return judgeReturns(visits, task, finding.foundOf(player.who, noValue));
  });
  return true;
};

const noValue = (): undefined => undefined;

const visitsOf = ({ size, at, marks }: Pick<PlayerEvents, "size" | "at" | "marks">, endMs: number) => {
  const starts: number[] = [];
  const places: number[] = [];
  const returns: number[] = [];
  for (let i = 0; i < size; i++) {
    const isReturn = (marks[i]! & RETURN) !== 0;
    if ((marks[i]! & START) !== 0 && at[i]! < endMs) {
      starts.push(at[i]!);
      places.push(isReturn ? returns.length : -1);
    }
    if (isReturn) returns.push(at[i]!);
  }
  return { starts, returns, places };
};

/** Reads only who was active when: where any event starts and is a return, by the calendar. */
const judgeActivity = async (
  work: Work,
  { frame, range }: Asked,
  periods: Periods,
  { task, finding }: Judging,
): Promise<void> => {
  const cuts = cutsOf(frame, range, periods);
  const { isFirstOnly } = task;
  const rolled = await openRolled(work, frame);
  const spans = { cutsMs: cuts.atMs, untilMs: frame.asOfMs, areCounted: false };
  if (rolled && areDivisible(spans)) {
    await eachRolledPlayer(work, rolled, spans, ({ who, firstMs, size, stretches }) => {
      if ((isFirstOnly && firstMs < range.startMs) || size === 0 || stretches[0]! >= cuts.end) return;
      const [starts, returns, places]: [number[], number[], number[]] = [[], [], []];
      for (let i = 0; i < size; i++) {
        const startMs = cuts.atMs[stretches[i]!]!;
        returns.push(startMs);
        if (stretches[i]! >= cuts.end) continue;
        starts.push(startMs);
        places.push(i);
      }
      const visits = { starts, returns, places };
      atOnce(judgeReturns(visits, task, finding.foundOf(who, noValue)));
    });
    return;
  }
  const wanted = { leastOf: isFirstOnly ? 0 : -1, isNamed: finding.isNamed };
  const judge = function* (active: Int16Array, playerId: string | null): Steps<void> {
    const begin = active.findIndex((stretch) => stretch >= 0);
    if (begin < 0) return;
    const stretches = active.subarray(begin);
    const returns = Float64Array.from(stretches, (stretch) => cuts.atMs[stretch]!);
    const starts = returns.subarray(0, stretches.findLastIndex((stretch) => stretch < cuts.end) + 1);
    const visits = { starts, returns, places: starts.map((_, i) => i) };
    yield* judgeReturns(visits, task, finding.foundOf(playerId, noValue));
  };
  await eachPlayerStretches(work, activeStretches(frame, cuts), wanted, judge);
};

/** @throws DomainError VALIDATION_ERROR for too many cohorts or cells, and clocks that do not fit */
const periodsFor = ({ frame, range }: Asked, { unit, clock, offsets }: RetentionQuestion): Periods => {
  if (clock === "24h" && unit !== "day") throw invalid("clock", "24h is for the unit day");
  const last = offsets.at(-1)!;
  const later = (last.until ?? last.offset) + 1;
  return periodsOf(frame, range, { unit, cellsOfEach: offsets.length, later });
};

/** Finds the players who started in each period, and the columns in which each returned. */
const judge = async (
  work: Work,
  asked: Asked,
  { question, periods, finding }: { question: RetentionQuestion; periods: Periods; finding: Finding },
): Promise<void> => {
  const { entry, clock, breakdown, startEvent, returnEvents } = question;
  const task: ReturnTask = {
    startsMs: clock === "calendar" ? periods.startsMs : undefined,
    cohortOf: (ms) => periodAt(periods, ms),
    isFirstOnly: entry === "first_time",
    isStartReturn: returnEvents === undefined,
    columns: columnsOf(question),
  };
  const isOfActivity =
    startEvent === undefined && returnEvents === undefined && clock === "calendar" && !breakdown;
  if (isOfActivity) await judgeActivity(work, asked, periods, { task, finding });
  else if (!(await judgeRolledEvents(work, asked, question, { task, finding })))
    await judgeEvents(work, asked, question, { task, finding });
};

/**
 * Returns how many of the players who started in each period returned later.
 * @throws DomainError VALIDATION_ERROR for too many cohorts or cells, and clocks that do not fit
 */
export const readRetention = async (
  work: Work,
  asked: Asked,
  question: RetentionQuestion,
): Promise<RetentionView> => {
  const { unit, type, entry, clock } = question;
  const periods = periodsFor(asked, question);
  const tally = new RetentionTally(question, periods, asked.frame.asOfMs);
  const finding: Finding = { isNamed: false, foundOf: (_, valueOf) => tally.foundOf(valueOf) };
  await judge(work, asked, { question, periods, finding });
  const periodNames = periods.days.slice(0, periods.cohorts).map(dateOfDay);
  return { type, unit, entry, clock, ...tally.show(periodNames) };
};

/** A number of `readRetention`: the size of a cohort, or a cell of it; `returned`: false for the others. */
export type RetentionNumber = { cohort: string; offset?: number | undefined; returned: boolean };

/**
 * Finds the players whom `readRetention` counts in a cohort, or in a cell of it.
 * @throws DomainError VALIDATION_ERROR as that, and for a cohort or an offset that the question does not have
 */
export const findRetained = async (
  work: Work,
  asked: Asked,
  question: RetentionQuestion,
  { cohort, offset, returned }: RetentionNumber,
): Promise<FoundPlayers> => {
  const periods = periodsFor(asked, question);
  const wanted = periods.days.slice(0, periods.cohorts).findIndex((day) => dateOfDay(day) === cohort);
  if (wanted < 0)
    throw invalid("cohort", "must be the period of a cohort of the question, such as 2026-01-31");
  const column = offset === undefined ? -1 : question.offsets.findIndex((one) => one.offset === offset);
  if (offset !== undefined && column < 0) throw invalid("offset", "must be one of those of the question");
  const players = new FoundPlayers();
  const foundOf: Finding["foundOf"] = (who) => (found, _, isReturned) => {
    if (found === wanted && (column < 0 || isReturned(column) === returned)) players.add(who!);
  };
  await judge(work, asked, { question, periods, finding: { isNamed: true, foundOf } });
  return players;
};
