import { type RawBuilder, sql } from "kysely";
import { eachActivePlayer } from "./active-players.ts";
import type { Asked } from "./ask.ts";
import {
  cohortAt,
  countAtMost,
  cutsOf,
  eventsOf,
  instant,
  periodAt,
  type Periods,
  periodsOf,
  textList,
} from "./events.ts";
import { eachPlayer, type PlayerEvents } from "./packed.ts";
import { type Breakdown, CountsByValue, propertyText, rateOf } from "./properties.ts";
import { type CalendarInterval, dateOfDay, DAY_MS } from "./range.ts";
import { eachRolledTimes, type RolledTimes } from "./rollups/each-player.ts";
import { type DayCell, eachCohortCell } from "./rollups/closed-days.ts";
import { FoundPlayers, openRolled, type Who } from "./rollups/rolled.ts";
import { invalid } from "../kernel/errors.ts";
import { atOnce, type Steps } from "../kernel/slices.ts";
import type { Work } from "../kernel/work.ts";

/** Which part of the time after a start a column is about, in periods from that of the start; inclusive. */
export type Column = { from: number; until: number };

/** What a retention question asks of one player. */
type ReturnTask = {
  /** Where the calendar's periods begin, in ms; undefined: periods are 24 h from each start on. */
  startsMs: readonly number[] | undefined;
  /** The number of the cohort of a start, in ms. */
  cohortOf: (ms: number) => number;
  /** Only the first start counts; otherwise the first one of each cohort. */
  isFirstOnly: boolean;
  /** Whoever starts has returned in the period of the start. */
  isStartReturn: boolean;
  columns: readonly Column[];
};

/** One player: starts within the range, and returns. Both by time, in ms. */
export type Visits = {
  starts: ArrayLike<number>;
  returns: ArrayLike<number>;
  /** By start: its place among the returns; -1: it is none. */
  places: ArrayLike<number>;
};

/** Returns whether a player came back in the time of a column after a start. */
const hasReturned = (
  { startsMs, isStartReturn }: ReturnTask,
  { starts, returns, places }: Visits,
  { start, cohort, from, until }: Column & { start: number; cohort: number },
): boolean => {
  if (from > until) return false;
  if (from === 0 && isStartReturn) return true;
  const startMs = starts[start]!;
  const beginMs = startsMs ? (startsMs[cohort + from] ?? Infinity) : startMs + from * DAY_MS;
  const endMs = startsMs ? (startsMs[cohort + until + 1] ?? Infinity) : startMs + (until + 1) * DAY_MS;
  let place = countAtMost(returns, Math.max(beginMs, startMs) - 1);
  // The event that starts is no return itself, but others of its time are.
  if (place === places[start]) place++;
  return place < returns.length && returns[place]! < endMs;
};

/** Whom a question has found: called for each start that counts, with the columns of a return. */
export type Found = (cohort: number, start: number, isReturned: (column: number) => boolean) => void;

/** Finds the starts of a player that count, and what followed each. */
function* judgeReturns(visits: Visits, task: ReturnTask, found: Found): Steps<void> {
  let last = -1;
  for (let start = 0; start < visits.starts.length; start++) {
    const cohort = task.cohortOf(visits.starts[start]!);
    if (cohort === last) continue;
    last = cohort;
    found(cohort, start, (column) => hasReturned(task, visits, { start, cohort, ...task.columns[column]! }));
    if (task.isFirstOnly) return;
    yield;
  }
}

export const RETENTION_TYPES = ["nday", "unbounded", "within", "bracket"] as const;
export const ENTRIES = ["first_time", "recurring"] as const;
export const CLOCKS = ["calendar", "24h"] as const;

/** What is asked of retention. */
export type RetentionQuestion = {
  unit: CalendarInterval;
  type: (typeof RETENTION_TYPES)[number];
  /** Ascending. `until`: of a bracket, which may be longer than one period. */
  offsets: readonly { offset: number; until?: number | undefined }[];
  /** Default: any event. */
  startEvent?: string | undefined;
  returnEvents?: readonly string[] | undefined;
  entry: (typeof ENTRIES)[number];
  clock: (typeof CLOCKS)[number];
  breakdown?: Breakdown | undefined;
};

/** Adds up who returned. */
class RetentionTally {
  readonly #question: RetentionQuestion;
  readonly #cohorts: number;
  readonly #sizes: Int32Array;
  /** By cohort and column. */
  readonly #players: Int32Array;
  readonly #isComplete: boolean[];
  /** By value: its players; then for each column those old enough, and those of them who returned. */
  readonly #values: CountsByValue;

  constructor(question: RetentionQuestion, periods: Periods, asOfMs: number) {
    const { offsets, clock } = question;
    this.#question = question;
    this.#cohorts = periods.cohorts;
    this.#sizes = new Int32Array(periods.cohorts);
    this.#players = new Int32Array(periods.cohorts * offsets.length);
    this.#values = new CountsByValue(1 + 2 * offsets.length);
    this.#isComplete = Array.from({ length: this.#players.length }, (_, cell) => {
      const cohort = Math.floor(cell / offsets.length);
      const { offset, until = offset } = offsets[cell % offsets.length]!;
      const endMs =
        clock === "calendar"
          ? periods.startsMs[cohort + until + 1]!
          : periods.startsMs[cohort + 1]! + (until + 1) * DAY_MS;
      return endMs <= asOfMs;
    });
  }

  /** Counts what is found of one player. `valueOf`: the breakdown's value of a start. */
  foundOf(valueOf: (start: number) => string | null | undefined): Found {
    const { offsets, breakdown } = this.#question;
    return (cohort, start, isReturned) => {
      this.#sizes[cohort]! += 1;
      const counts = breakdown ? this.#values.of(valueOf(start)) : undefined;
      if (counts) counts[0]! += 1;
      for (let column = 0; column < offsets.length; column++) {
        const cell = cohort * offsets.length + column;
        const returned = isReturned(column) ? 1 : 0;
        this.#players[cell]! += returned;
        if (!counts || !this.#isComplete[cell]) continue;
        counts[1 + 2 * column]! += 1;
        counts[2 + 2 * column]! += returned;
      }
    };
  }

  /** Adds players of a cohort, those of them who returned in each period after it. */
  addCell({ cohort, k, players }: { cohort: number; k: number; players: number }): void {
    if (k === 0) this.#sizes[cohort]! += players;
    const column = this.#question.offsets.findIndex(({ offset }) => offset === k);
    if (column >= 0) this.#players[cohort * this.#question.offsets.length + column]! += players;
  }

  show(periods: readonly string[]) {
    const { breakdown } = this.#question;
    return {
      cohorts: periods.map((period, cohort) => ({
        period,
        size: this.#sizes[cohort]!,
        cells: this.#columns().map((shown, column) => this.#cell(shown, { cohort, column })),
      })),
      overall: this.#columns().map((shown, column) => this.#overall(shown, column)),
      ...(breakdown && { breakdown: this.#groups(breakdown.limit) }),
    };
  }

  /** How answers show each column. `until`: of brackets alone. */
  #columns(): { offset: number; until?: number }[] {
    const { type, offsets } = this.#question;
    return offsets.map(({ offset, until = offset }) => (type === "bracket" ? { offset, until } : { offset }));
  }

  #cell<C>(shown: C, { cohort, column }: { cohort: number; column: number }) {
    const cell = cohort * this.#question.offsets.length + column;
    const players = this.#players[cell]!;
    const rate = rateOf(players, this.#sizes[cohort]!);
    return { ...shown, players, rate, complete: this.#isComplete[cell]! };
  }

  /** Over complete cells. */
  #overall<C>(shown: C, column: number) {
    let [eligible, players, rates, counted] = [0, 0, 0, 0];
    for (let cohort = 0; cohort < this.#cohorts; cohort++) {
      const cell = cohort * this.#question.offsets.length + column;
      const size = this.#sizes[cohort]!;
      if (!this.#isComplete[cell] || size === 0) continue;
      eligible += size;
      players += this.#players[cell]!;
      rates += this.#players[cell]! / size;
      counted++;
    }
    return { ...shown, eligible, players, rate: rateOf(players, eligible), meanRate: rateOf(rates, counted) };
  }

  #groups(limit: number) {
    return this.#values.ranked(limit).map(({ value, counts }) => ({
      value,
      size: counts[0]!,
      overall: this.#columns().map((shown, column) => {
        const [eligible, players] = [counts[1 + 2 * column]!, counts[2 + 2 * column]!];
        return { ...shown, eligible, players, rate: rateOf(players, eligible) };
      }),
    }));
  }
}

export const OFFSETS_MAX = 100;
/** The furthest offset. */
export const OFFSET_MAX = 1_000;

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
  const question = {
    cutsMs: cuts.atMs,
    untilMs: frame.asOfMs,
    areCounted: false,
    ...(isFirstOnly ? { sinceMs: range.startMs } : { isOfActive: true }),
  };
  await eachActivePlayer(work, frame, question, ({ who, size, stretches }) => {
    if (size === 0 || stretches[0]! >= cuts.end) return;
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
};

/** @throws DomainError VALIDATION_ERROR for too many cohorts or cells, and clocks that do not fit */
const periodsFor = ({ frame, range }: Asked, { unit, clock, offsets }: RetentionQuestion): Periods => {
  if (clock === "24h" && unit !== "day") throw invalid("clock", "24h is for the unit day");
  const last = offsets.at(-1)!;
  const later = (last.until ?? last.offset) + 1;
  return periodsOf(frame, range, { unit, cellsOfEach: offsets.length, later });
};

/** Whether it is enough to know who was active when, by the calendar. */
const isOfActivity = ({ startEvent, returnEvents, clock, breakdown }: RetentionQuestion): boolean =>
  startEvent === undefined && returnEvents === undefined && clock === "calendar" && !breakdown;

/** Finds the players who started in each period, and the columns in which each returned. */
const judge = async (
  work: Work,
  asked: Asked,
  { question, periods, finding }: { question: RetentionQuestion; periods: Periods; finding: Finding },
): Promise<void> => {
  const { entry, clock, returnEvents } = question;
  const task: ReturnTask = {
    startsMs: clock === "calendar" ? periods.startsMs : undefined,
    cohortOf: (ms) => periodAt(periods, ms),
    isFirstOnly: entry === "first_time",
    isStartReturn: returnEvents === undefined,
    columns: columnsOf(question),
  };
  if (isOfActivity(question)) await judgeActivity(work, asked, periods, { task, finding });
  else if (!(await judgeRolledEvents(work, asked, question, { task, finding })))
    await judgeEvents(work, asked, question, { task, finding });
};

/** Whether days that are added up know the answer. */
const isOfDays = (question: RetentionQuestion): boolean =>
  isOfActivity(question) && question.type === "nday" && question.entry === "first_time";

/**
 * Returns how many of the players who started in each period returned later.
 * @throws DomainError VALIDATION_ERROR for too many cohorts or cells, and clocks that do not fit
 */
export const readRetention = async (work: Work, asked: Asked, question: RetentionQuestion) => {
  const { unit, type, entry, clock } = question;
  const periods = periodsFor(asked, question);
  const tally = new RetentionTally(question, periods, asked.frame.asOfMs);
  const finding: Finding = { isNamed: false, foundOf: (_, valueOf) => tally.foundOf(valueOf) };
  const addCell = (cell: DayCell): void => tally.addCell(cell);
  if (!isOfDays(question) || !(await eachCohortCell(work, asked, periods, addCell)))
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
  const wanted = cohortAt(periods, cohort);
  const column = offset === undefined ? -1 : question.offsets.findIndex((one) => one.offset === offset);
  if (offset !== undefined && column < 0) throw invalid("offset", "must be one of those of the question");
  const players = new FoundPlayers();
  const foundOf: Finding["foundOf"] = (who) => (found, _, isReturned) => {
    if (found === wanted && (column < 0 || isReturned(column) === returned)) players.add(who!);
  };
  await judge(work, asked, { question, periods, finding: { isNamed: true, foundOf } });
  return players;
};
