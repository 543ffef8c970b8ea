import { type RawBuilder, sql } from "kysely";
import type { Steps } from "../kernel/slices.ts";
import type { Work } from "../kernel/work.ts";
import type { Asked } from "./ask.ts";
import { dateOfDay } from "./calendar.ts";
import { type CohortCell, type CohortQuestion, CohortTable } from "./cohort-table.ts";
import { effectsOf } from "./effects.ts";
import { eventsOf } from "./events.ts";
import { eachPlayerStretches } from "./packed.ts";
import {
  activeStretches,
  type Cuts,
  cutsOf,
  labelOf,
  type Periods,
  periodsOf,
  stretchOf,
} from "./periods.ts";
import { NONE, OTHER, propertyNumber, propertyText } from "./properties.ts";
import { eachRolledPlayer } from "./rollups/players.ts";
import { areDivisible } from "./rollups/quarters.ts";
import { openRolled } from "./rollups/rolled.ts";
import type { Who } from "./who.ts";

export const SEGMENTATIONS = ["acquisition", "property"] as const;
/** Columns behind the first one. */
export const PERIODS_MAX = 100;

export type CohortView = {
  /** The first local day; null where a property divides players. */
  period: string | null;
  label: string;
  size: number;
  values: number[];
  complete: boolean[];
};

export type CohortsView = {
  cohorts: CohortView[];
  overall: { k: number; eligible: number; players: number; value: number }[];
};

export type CohortParts = Asked & { question: CohortQuestion; periods: Periods; cuts: Cuts };

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
export const cellsOf = (parts: CohortParts): RawBuilder<unknown> => {
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

/** Takes when a player was active, in which stretches how often. `who`: null where nobody asks. */
type Judge = (stretches: ArrayLike<number>, countOf: (i: number) => number, who: Who | null) => void;

/** Finds when each player was active. */
export const eachActive = async (
  work: Work,
  { frame, cuts, question }: CohortParts,
  isNamed: boolean,
  judge: Judge,
): Promise<void> => {
  const judgeNew: Judge = (stretches, countOf, who) => {
    if (stretches.length > 0 && stretches[0]! < cuts.end) judge(stretches, countOf, who);
  };
  const rolled = await openRolled(work, frame);
  const areCounted = question.metric !== "players" && question.metric !== "rate";
  const spans = { cutsMs: cuts.atMs, untilMs: frame.asOfMs, areCounted };
  if (rolled && areDivisible(spans))
    await eachRolledPlayer(work, rolled, spans, ({ who, firstMs, size, stretches, counts }) => {
      if (firstMs >= cuts.atMs[0]!) judgeNew(stretches.subarray(0, size), (i) => counts[i]!, who);
    });
  else
    await eachPlayerStretches(
      work,
      activeStretches(frame, cuts),
      { leastOf: 0, isNamed },
      function* (active, playerId): Steps<void> {
        judgeNew(active, () => 1, playerId);
        yield;
      },
    );
};

/** Reads cells of players and events, of which it is enough to know who was active when. */
const readActivity = async (work: Work, parts: CohortParts): Promise<Cells> => {
  const { cuts, question } = parts;
  // All periods behind the columns are one.
  const columns = question.periods + 2;
  const byCohort = noCells(parts).map(() =>
    Array.from({ length: columns }, (_, k): CohortCell => ({ k, players: 0, last: 0, events: 0, amount: 0 })),
  );
  await eachActive(work, parts, false, (stretches, countOf) => {
    const cohort = cuts.periods[stretches[0]!]!;
    let last: CohortCell | undefined;
    for (let i = 0; i < stretches.length; i++) {
      const cell = byCohort[cohort]![Math.min(cuts.periods[stretches[i]!]! - cohort, columns - 1)]!;
      cell.events += countOf(i);
      if (cell !== last) cell.players++;
      last = cell;
    }
    if (last) last.last++;
  });
  return { byCohort, bySegment: new Map() };
};

/** @throws DomainError VALIDATION_ERROR for too many cohorts or cells */
export const partsOf = ({ frame, range }: Asked, question: CohortQuestion): CohortParts => {
  const cellsOfEach = question.periods + 1;
  const periods = periodsOf(frame, range, { unit: question.unit, cellsOfEach, later: cellsOfEach });
  return { frame, range, question, periods, cuts: cutsOf(frame, range, periods) };
};

/** Whether the database adds up. */
export const isOfSums = ({ metric, segmentBy }: CohortQuestion): boolean =>
  metric === "xp" || metric === "sum" || segmentBy !== undefined;

/**
 * Returns what the players who came in each period did in the periods after. A player comes with the first
 * event ever.
 * @throws DomainError VALIDATION_ERROR for too many cohorts or cells
 */
export const readCohorts = async (
  work: Work,
  asked: Asked,
  question: CohortQuestion,
): Promise<CohortsView> => {
  const { frame } = asked;
  const { unit, segmentBy } = question;
  const parts = partsOf(asked, question);
  const { periods } = parts;
  const read = isOfSums(question) ? readSums : readActivity;
  const { byCohort, bySegment } = await read(work, parts);
  const table = new CohortTable(question, periods, frame.asOfMs);
  const overall = table.overall(byCohort);
  if (segmentBy) return { cohorts: segmentRows(bySegment, table), overall };
  const cohorts = byCohort.map((cells, cohort): CohortView => {
    const day = periods.days[cohort]!;
    return { period: dateOfDay(day), label: labelOf(unit, day), ...table.row(cells, cohort) };
  });
  return { cohorts, overall };
};

/** The largest segments first, of equals by name; what is beyond the limit last. */
const segmentRows = (bySegment: Cells["bySegment"], table: CohortTable): CohortView[] => {
  const rows = [...bySegment].map(([label, { cells, newest }]): CohortView => ({
    period: null,
    label,
    ...table.row(cells, newest),
  }));
  const rank = ({ label, size }: CohortView): number => (label === OTHER ? -1 : size);
  return rows.toSorted((a, b) => rank(b) - rank(a) || (a.label < b.label ? -1 : 1));
};
