import { type RawBuilder, sql } from "kysely";
import { type ActivePlayer, eachActivePlayer } from "./active-players.ts";
import type { Asked } from "./ask.ts";
import { rounded } from "./comparison.ts";
import {
  cohortAt,
  type Cuts,
  cutsOf,
  effectsOf,
  eventsOf,
  labelOf,
  type Periods,
  periodsOf,
  stretchOf,
} from "./events.ts";
import { type Breakdown, NONE, OTHER, propertyNumber, propertyText, rateOf } from "./properties.ts";
import { type CalendarInterval, dateOfDay } from "./range.ts";
import { type DayCell, eachCohortCell } from "./rollups/closed-days.ts";
import { FoundPlayers } from "./rollups/rolled.ts";
import { invalid } from "../kernel/errors.ts";
import type { Work } from "../kernel/work.ts";

export const COHORT_METRICS = ["players", "rate", "events", "eventsPerPlayer", "xp", "sum"] as const;

/** What is asked of cohorts. */
export type CohortQuestion = {
  unit: CalendarInterval;
  /** Columns behind the first one. */
  periods: number;
  metric: (typeof COHORT_METRICS)[number];
  /** What is added up by the metric `sum`: numbers of events of a type. */
  sum?: { eventType: string; path: readonly string[] } | undefined;
  isCumulative: boolean;
  /** A property of each player's first event divides players, in place of when it was. */
  segmentBy?: Breakdown | undefined;
};

/** What some players did in the `k`-th period after their own. */
type CohortCell = {
  k: number;
  players: number;
  /** Of those, players who did nothing in any later one. */
  last: number;
  events: number;
  amount: number;
};

/** By period from 0 on, as far as there are columns. */
type Series = { players: number[]; events: number[]; amount: number[] };

/** Turns cells into the rows of a table of cohorts. */
class CohortTable {
  readonly #question: CohortQuestion;
  readonly #periods: Periods;
  readonly #asOfMs: number;
  readonly #columns: number;

  constructor(question: CohortQuestion, periods: Periods, asOfMs: number) {
    this.#question = question;
    this.#periods = periods;
    this.#asOfMs = asOfMs;
    this.#columns = question.periods + 1;
  }

  /**
   * Returns one row.
   * @param newest the latest cohort of its players: where that is old enough, all are
   */
  row(cells: readonly CohortCell[], newest: number): { size: number; values: number[]; complete: boolean[] } {
    const series = this.#seriesOf(cells);
    const size = cells.find(({ k }) => k === 0)?.players ?? 0;
    return {
      size,
      values: this.#each((k) => this.#value(series, k, size)),
      complete: this.#each((k) => this.#isComplete(newest, k)),
    };
  }

  /** Returns the sums over all cohorts that are old enough for each column. */
  overall(byCohort: readonly (readonly CohortCell[])[]) {
    const series = byCohort.map((cells) => this.#seriesOf(cells));
    const sizes = byCohort.map((cells) => cells.find(({ k }) => k === 0)?.players ?? 0);
    return this.#each((k) => {
      const old = series.flatMap((one, cohort) => (this.#isComplete(cohort, k) ? [{ one, cohort }] : []));
      const sum = (pick: (one: Series) => number): number => old.reduce((all, { one }) => all + pick(one), 0);
      const eligible = old.reduce((all, { cohort }) => all + sizes[cohort]!, 0);
      const players = sum((one) => one.players[k]!);
      const added: Series = { players: [], events: [], amount: [] };
      added.players[k] = players;
      added.events[k] = sum((one) => one.events[k]!);
      added.amount[k] = sum((one) => one.amount[k]!);
      return { k, eligible, players, value: this.#value(added, k, eligible) };
    });
  }

  #each<T>(make: (k: number) => T): T[] {
    return Array.from({ length: this.#columns }, (_, k) => make(k));
  }

  #isComplete(cohort: number, k: number): boolean {
    return this.#periods.startsMs[cohort + k + 1]! <= this.#asOfMs;
  }

  #value({ players, events, amount }: Series, k: number, size: number): number {
    switch (this.#question.metric) {
      case "players":
        return players[k]!;
      case "rate":
        return rateOf(players[k]!, size);
      case "events":
        return events[k]!;
      case "eventsPerPlayer":
        return size === 0 ? 0 : rounded(events[k]! / size, 6);
      case "xp":
      case "sum":
        return rounded(amount[k]!, 6);
    }
  }

  /** Cumulative: players of a period or any later one; events and amounts up to a period. */
  #seriesOf(cells: readonly CohortCell[]): Series {
    const { isCumulative } = this.#question;
    const of = (pick: (cell: CohortCell) => number): number[] => {
      const values = this.#each(() => 0);
      for (const cell of cells) if (cell.k < this.#columns) values[cell.k]! += pick(cell);
      return values;
    };
    const [events, amount] = [of(({ events: count }) => count), of((cell) => cell.amount)];
    if (!isCumulative) return { players: of(({ players }) => players), events, amount };
    const upTo = (values: readonly number[]): number[] => {
      let all = 0;
      return values.map((value) => (all += value));
    };
    const players = this.#each((k) => cells.reduce((all, cell) => all + (cell.k >= k ? cell.last : 0), 0));
    return { players, events: upTo(events), amount: upTo(amount) };
  }
}

export const SEGMENTATIONS = ["acquisition", "property"] as const;
/** Columns behind the first one. */
export const PERIODS_MAX = 100;

type CohortParts = Asked & { question: CohortQuestion; periods: Periods; cuts: Cuts };

/** What is added up by stretch: the columns player_id, c, events, amount, and value of the first event. */
const activity = (parts: CohortParts): RawBuilder<unknown> => {
  const { frame, range, cuts, question } = parts;
  const { sum, metric, segmentBy } = question;
  const amount = sum
    ? sql`coalesce(sum(${propertyNumber(sum.path)}) filter (where e.event_type = ${sum.eventType}), 0)`
    : sql`0::numeric`;
  const value = segmentBy
    ? sql`(array_agg(coalesce(${propertyText(segmentBy.path)}, ${NONE}) order by e.at, e.id))[1]`
    : sql`null::text`;
  const ofEvents = sql`
    select e.player_id, ${stretchOf(cuts, sql`e.at`)} as c, count(*) as events, ${amount} as amount,
      ${value} as value
    from (${eventsOf(frame)}) e group by 1, 2`;
  if (metric !== "xp") return ofEvents;
  const granted = { fromMs: range.startMs, untilMs: frame.asOfMs };
  return sql`${ofEvents} union all
    select g.player_id, ${stretchOf(cuts, sql`g.at`)}, 0, sum(g.amount::numeric), null
    from (${effectsOf(frame, ["xpGranted"], granted)}) g group by 1, 2`;
};

/**
 * Begins a query with the table `cells`: what each player did in each period. A player's cohort is
 * that of the first stretch with events; a stretch without any may have an amount. Windows find what belongs
 * to a player: of joins, the planner would guess the numbers wrong.
 */
const cellsOf = (parts: CohortParts): RawBuilder<unknown> => {
  const { cuts, question } = parts;
  const { segmentBy } = question;
  const period = (stretch: string) => sql`(${`{${cuts.periods.join(",")}}`}::int[])[${sql.ref(stretch)} + 1]`;
  return sql`
    with acts as (
      select a.*, min(a.c) filter (where a.events > 0) over (partition by a.player_id) as first,
        max(a.c) filter (where a.events > 0) over (partition by a.player_id) as final
      from (${activity(parts)}) a),
    steps as (
      select player_id, ${period("first")} as cohort, ${period("c")} - ${period("first")} as k,
        ${period("final")} - ${period("first")} as last, sum(events) as events, sum(amount) as amount,
        max(value) filter (where c = first) as value
      from acts where first >= 0 and first < ${cuts.end} and c >= first group by 1, 2, 3, 4),
    ${segmentBy ? segmentsQuery(segmentBy.limit) : sql`cells as (select *, null as segment from steps)`}`;
};

/** A query of the numbers of all cells. */
const countsQuery = (parts: CohortParts): RawBuilder<unknown> => {
  const { segmentBy } = parts.question;
  return sql`
    ${cellsOf(parts)}
    select grouping(cohort) = 0 as is_cohort, cohort, ${segmentBy ? sql`segment` : sql`null`} as segment, k,
      count(*) filter (where events > 0)::float8 as players,
      count(*) filter (where events > 0 and k = last)::float8 as last,
      sum(events)::float8 as events, sum(amount)::float8 as amount, max(cohort) as newest
    from cells
    group by grouping sets ((cohort, k)${segmentBy ? sql`, (segment, k)` : sql``})`;
};

/** Gives each player the value of the first event as segment: null beyond the most frequent ones. */
const segmentsQuery = (limit: number): RawBuilder<unknown> => sql`
  valued as (select *, max(value) over (partition by player_id) as whole from steps),
  sized as (select *, count(*) filter (where k = 0) over (partition by whole) as size from valued),
  ranked as (select *, dense_rank() over (order by size desc, whole collate "C") as place from sized),
  cells as (select *, case when place <= ${limit} then whole end as segment from ranked)`;

type Row = Omit<CohortCell, "k"> & {
  is_cohort: boolean;
  cohort: number | null;
  segment: string | null;
  k: number;
  newest: number;
};

type Segment = { cells: CohortCell[]; newest: number };
type Cells = { byCohort: CohortCell[][]; bySegment: ReadonlyMap<string, Segment> };

const noCells = ({ periods }: CohortParts): CohortCell[][] =>
  Array.from({ length: periods.cohorts }, (): CohortCell[] => []);

/** Reads cells of amounts and of segments, which the database adds up. */
const readSums = async (work: Work, parts: CohortParts): Promise<Cells> => {
  const { rows } = await sql<Row>`${countsQuery(parts)}`.execute(work.db);
  const byCohort = noCells(parts);
  const bySegment = new Map<string, Segment>();
  for (const { is_cohort, cohort, segment, newest, ...cell } of rows) {
    if (is_cohort) {
      byCohort[cohort!]!.push(cell);
      continue;
    }
    const found = bySegment.get(segment ?? OTHER) ?? { cells: [], newest: 0 };
    bySegment.set(segment ?? OTHER, found);
    found.cells.push(cell);
    found.newest = Math.max(found.newest, newest);
  }
  return { byCohort, bySegment };
};

/** Judges each player who came within the range. */
const eachNewPlayer = (
  work: Work,
  { frame, cuts, question }: CohortParts,
  judge: (player: ActivePlayer) => void,
): Promise<void> => {
  const areCounted = question.metric !== "players" && question.metric !== "rate";
  const asked = { cutsMs: cuts.atMs, untilMs: frame.asOfMs, areCounted, sinceMs: cuts.atMs[0]! };
  return eachActivePlayer(work, frame, asked, (player) => {
    if (player.size > 0 && player.stretches[0]! < cuts.end) judge(player);
  });
};

/** Reads cells of players and events, of which it is enough to know who was active when. */
const readActivity = async (work: Work, parts: CohortParts): Promise<Cells> => {
  const { cuts, question } = parts;
  // All periods behind the columns are one.
  const columns = question.periods + 2;
  const byCohort = noCells(parts).map(() =>
    Array.from({ length: columns }, (_, k): CohortCell => ({ k, players: 0, last: 0, events: 0, amount: 0 })),
  );
  const addCell = ({ cohort, k, players, events }: DayCell): void => {
    const cell = byCohort[cohort]![Math.min(k, columns - 1)]!;
    cell.players += players;
    cell.events += events;
  };
  // Who is gone for good is known of players alone.
  if (!question.isCumulative && (await eachCohortCell(work, parts, parts.periods, addCell)))
    return { byCohort, bySegment: new Map() };
  await eachNewPlayer(work, parts, ({ size, stretches, counts }) => {
    const cohort = cuts.periods[stretches[0]!]!;
    let last: CohortCell | undefined;
    for (let i = 0; i < size; i++) {
      const cell = byCohort[cohort]![Math.min(cuts.periods[stretches[i]!]! - cohort, columns - 1)]!;
      cell.events += counts[i]!;
      if (cell !== last) cell.players++;
      last = cell;
    }
    if (last) last.last++;
  });
  return { byCohort, bySegment: new Map() };
};

/** @throws DomainError VALIDATION_ERROR for too many cohorts or cells */
const partsOf = ({ frame, range }: Asked, question: CohortQuestion): CohortParts => {
  const cellsOfEach = question.periods + 1;
  const periods = periodsOf(frame, range, { unit: question.unit, cellsOfEach, later: cellsOfEach });
  return { frame, range, question, periods, cuts: cutsOf(frame, range, periods) };
};

/** Whether the database adds up. */
const isOfSums = ({ metric, segmentBy }: CohortQuestion): boolean =>
  metric === "xp" || metric === "sum" || segmentBy !== undefined;

/**
 * Returns what the players who came in each period did in the periods after. A player comes with the first
 * event ever.
 * @throws DomainError VALIDATION_ERROR for too many cohorts or cells
 */
export const readCohorts = async (work: Work, asked: Asked, question: CohortQuestion) => {
  const { frame } = asked;
  const { unit, segmentBy } = question;
  const parts = partsOf(asked, question);
  const { periods } = parts;
  const read = isOfSums(question) ? readSums : readActivity;
  const { byCohort, bySegment } = await read(work, parts);
  const table = new CohortTable(question, periods, frame.asOfMs);
  const overall = table.overall(byCohort);
  if (segmentBy) return { cohorts: segmentRows(bySegment, table), overall };
  const cohorts = byCohort.map((cells, cohort) => {
    const day = periods.days[cohort]!;
    return { period: dateOfDay(day), label: labelOf(unit, day), ...table.row(cells, cohort) };
  });
  return { cohorts, overall };
};

/** The largest segments first, of equals by name; what is beyond the limit last. */
const segmentRows = (bySegment: Cells["bySegment"], table: CohortTable) => {
  const rows = [...bySegment].map(([label, { cells, newest }]) => ({
    period: null,
    label,
    ...table.row(cells, newest),
  }));
  const rank = ({ label, size }: { label: string; size: number }): number => (label === OTHER ? -1 : size);
  return rows.toSorted((a, b) => rank(b) - rank(a) || (a.label < b.label ? -1 : 1));
};

/** A number of `readCohorts`: the size of a row, which is a cohort or a segment; with `k` a cell of it. */
export type CohortNumber = {
  cohort?: string | undefined;
  segment?: string | undefined;
  k?: number | undefined;
};

/** @throws DomainError VALIDATION_ERROR for a column that the question does not have, or not of players */
const checkColumn = ({ periods, metric }: CohortQuestion, k: number): void => {
  if (k > periods) throw invalid("k", `may be at most ${periods}`);
  if (metric !== "players" && metric !== "rate")
    throw invalid("k", "is for the metrics players and rate: other values are no players");
};

/** @throws DomainError VALIDATION_ERROR. @returns the number of the cohort; -1 of a segment */
const checkNumber = ({ question, periods }: CohortParts, { cohort, segment, k }: CohortNumber): number => {
  if (k !== undefined) checkColumn(question, k);
  if (question.segmentBy) {
    if (segment === undefined || cohort !== undefined)
      throw invalid("segment", "names the row where a property divides players");
    return -1;
  }
  if (segment !== undefined) throw invalid("segment", "is for segmentBy=property");
  return cohortAt(periods, cohort);
};

/**
 * Finds the players whom `readCohorts` counts in a row or a cell.
 * @returns a query of their ids, in the column player_id
 * @throws DomainError VALIDATION_ERROR as that, and for a row or a cell that the question does not have
 */
export const findCohortPlayers = async (
  work: Work,
  asked: Asked,
  question: CohortQuestion,
  number: CohortNumber,
): Promise<RawBuilder<unknown>> => {
  const parts = partsOf(asked, question);
  const wanted = checkNumber(parts, number);
  const { k = 0, segment } = number;
  const { isCumulative } = question;
  const isLater = number.k !== undefined && isCumulative;
  if (isOfSums(question)) {
    const row =
      segment === undefined ? sql`cohort = ${wanted}::int` : sql`coalesce(segment, ${OTHER}) = ${segment}`;
    const column = isLater ? sql`k >= ${k}::int` : sql`k = ${k}::int`;
    return sql`${cellsOf(parts)}
      select distinct player_id from cells where ${row} and ${column} and events > 0`;
  }
  const players = new FoundPlayers();
  await eachNewPlayer(work, parts, ({ who, size, stretches }) => {
    const periodOf = (i: number): number => parts.cuts.periods[stretches[i]!]!;
    if (periodOf(0) !== wanted) return;
    for (let i = size - 1; i >= 0 && periodOf(i) - wanted >= k; i--)
      if (isLater || periodOf(i) - wanted === k) return players.add(who);
  });
  return players.query(asked.frame);
};
