import type { RawBuilder } from "kysely";
import type { Asked } from "../ask.ts";
import { type CohortQuestion, readCohorts } from "../cohorts.ts";
import { comparedWith } from "../comparison.ts";
import {
  type Against,
  playerValue,
  type Population,
  readExperiment,
  readGroups,
} from "../experiments/experiment.ts";
import type { Stretch } from "./stretches.ts";
import { type FunnelQuestion, readFunnel } from "../funnels.ts";
import { readRetention, type RetentionQuestion } from "../retention.ts";
import { readSegments, SEGMENT_GROUPS, type SegmentGroup, type SegmentsQuestion } from "../segments.ts";
import { readBreakdown, readFilters, readMetrics } from "../trend-query.ts";
import {
  type MetricView,
  type OverviewQuery,
  planTrends,
  readOverview,
  readTrends,
  type TrendQuery,
  type TrendSeries,
} from "../trends.ts";
import { invalid } from "../../kernel/errors.ts";
import { isJsonObject } from "../../kernel/json.ts";
import type { Work } from "../../kernel/work.ts";

const text = (name: string): ReportColumn => ({ name, type: "text" });
const number = (name: string): ReportColumn => ({ name, type: "number" });

/**
 * What the cells of a column hold. `time`: ms since 1970. `json`: JSON text. `any`: a value in one
 * of JSON, of whatever type.
 */
export type CellType = "text" | "number" | "boolean" | "time" | "json" | "any";

/** A column that a report has. */
type ReportColumn = {
  name: string;
  type: CellType;
  /** Only written where `columns` names it. */
  isExtra?: true;
};

/** A column of a file: one of the report, or, with `path`, a value within one that holds JSON. */
export type FileColumn = {
  name: string;
  type: CellType;
  of: string;
  path?: readonly string[] | undefined;
};

export type Row = Readonly<Record<string, unknown>>;

/** Most columns of a file. */
export const COLUMNS_MAX = 200;
/** Levels of objects that become columns; what is deeper stays JSON. */
const DEPTH_MAX = 8;

const named = ({ name, type }: ReportColumn): FileColumn => ({ name, type, of: name });

/** Names of properties may have dots: those are written as `\.`. */
const escaped = (key: string): string => key.replaceAll("\\", "\\\\").replaceAll(".", "\\.");

/** The name of a value's column: `properties.match.score`. */
const nameOf = (of: string, path: readonly string[]): string => [of, ...path.map(escaped)].join(".");

const pathOf = (value: string): string[] => {
  const parts = value.match(/(?:\\.|[^\\.])+/gs) ?? [];
  return parts.map((part) => part.replaceAll(/\\(.)/gs, "$1"));
};

const columnNamed = (columns: readonly ReportColumn[], name: string): FileColumn => {
  const own = columns.find((column) => column.name === name);
  if (own) return named(own);
  const outer = columns.find(({ type, name: of }) => type === "json" && name.startsWith(`${of}.`));
  const path = outer ? pathOf(name.slice(outer.name.length + 1)) : [];
  if (!outer || path.length === 0 || nameOf(outer.name, path) !== name)
    throw invalid(
      "columns",
      `the report has no ${name}: it has ${columns.map((one) => one.name).join(", ")}`,
    );
  return { name, type: "any", of: outer.name, path };
};

/**
 * Returns the columns of a file: those named, in that order, or all of the report's but its extra ones.
 * @throws DomainError VALIDATION_ERROR for a name that the report does not have, or has twice
 */
export const columnsOf = (
  columns: readonly ReportColumn[],
  names: readonly string[] | undefined,
): FileColumn[] => {
  if (names === undefined) return columns.filter(({ isExtra }) => !isExtra).map(named);
  if (names.length > COLUMNS_MAX) throw invalid("columns", `at most ${COLUMNS_MAX} columns`);
  if (new Set(names).size < names.length) throw invalid("columns", "each column is named once");
  return names.map((name) => columnNamed(columns, name));
};

/** Finds the values within columns of JSON that rows have: one column for each. */
export class FoundPaths {
  readonly #columns: readonly FileColumn[];
  readonly #paths = new Map<string, FileColumn>();

  /** @param found columns that `columns` has returned, of earlier rows */
  constructor(columns: readonly FileColumn[], found: readonly FileColumn[] = []) {
    this.#columns = columns;
    for (const column of found) this.#paths.set(column.name, column);
  }

  /** Looks through rows. @throws DomainError VALIDATION_ERROR for more columns than a file has */
  add(rows: readonly Row[]): void {
    for (const column of this.#columns) {
      if (column.type !== "json") continue;
      for (const row of rows) this.#addValue(column.of, [], jsonOf(row[column.of]));
    }
    if (this.#paths.size > COLUMNS_MAX)
      throw invalid("flatten", `gives more than ${COLUMNS_MAX} columns: name those that you want in columns`);
  }

  #addValue(of: string, path: readonly string[], value: unknown): void {
    if (this.#paths.size > COLUMNS_MAX) return;
    const isInner = isJsonObject(value) && Object.keys(value).length > 0 && path.length < DEPTH_MAX;
    if (isInner) {
      for (const [key, inner] of Object.entries(value)) this.#addValue(of, [...path, key], inner);
      return;
    }
    if (path.length === 0) return;
    const name = nameOf(of, path);
    if (!this.#paths.has(name)) this.#paths.set(name, { name, type: "any", of, path });
  }

  /** Everything found, by name. */
  get found(): FileColumn[] {
    return [...this.#paths.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** The columns of the file: each of JSON is replaced by those found within it. */
  get columns(): FileColumn[] {
    const { found } = this;
    return this.#columns.flatMap((column) =>
      column.type === "json" ? found.filter(({ of }) => of === column.of) : [column],
    );
  }
}

const jsonOf = (value: unknown): unknown => (typeof value === "string" ? JSON.parse(value) : undefined);

/** Returns what reads the cells of rows in the order of columns; JSON is parsed once a row. */
export const cellReader = (columns: readonly FileColumn[]): ((row: Row) => unknown[]) => {
  const isParsed = columns.some(({ path }) => path !== undefined);
  if (!isParsed) return (row) => columns.map(({ of }) => row[of]);
  return (row) => {
    const parsed = new Map<string, unknown>();
    return columns.map(({ of, path }) => {
      if (path === undefined) return row[of];
      if (!parsed.has(of)) parsed.set(of, jsonOf(row[of]));
      return valueAt(parsed.get(of), path);
    });
  };
};

const valueAt = (value: unknown, path: readonly string[]): unknown => {
  let at = value;
  for (const key of path) {
    if (!isJsonObject(at) || !Object.hasOwn(at, key)) return undefined;
    at = at[key];
  }
  return at;
};

/** What a file is made from: the range, and the report's own parameters as its operation has parsed them. */
export type ReportQuestion<Q> = {
  asked: Asked;
  query: Q;
  /** Rows with a later id do not exist: they came afterwards. Undefined: those of the snapshot do. */
  uptoId?: string | undefined;
  /** What `find` of the report has found. */
  found?: Found | undefined;
  /** A part of the report's span alone. */
  stretch?: Stretch | undefined;
};

/** Queries of players: those who are listed, and the events and the segments of all. */
export type Found = Record<"listed" | "events" | "segments", RawBuilder<unknown> | undefined>;

/** A column that a statement selects. `select`: gives ms for a time, text for JSON, float8 for a number. */
type SelectedColumn = ReportColumn & { select: RawBuilder<unknown> };

/** What rows are ordered by, and read on from. */
type RowKey = { select: RawBuilder<unknown>; type: "timestamptz" | "uuid" };

/** A report of as many rows as there are, which are read in pages. */
export type RowReport<Q> = {
  kind: "rows";
  /** Whose ids `uptoId` is one of. */
  table: "tracked_events" | "players";
  columns: readonly SelectedColumn[];
  keys: readonly RowKey[];
  /** Finds what takes more than a query. @param names of the columns that are read */
  find?(
    work: Work,
    question: Pick<ReportQuestion<Q>, "asked" | "query">,
    names: ReadonlySet<string>,
  ): Promise<Found>;
  /** Of rows that are ordered by their time first: within which times they are. */
  span?(question: ReportQuestion<Q>): Stretch;
  /** Returns `from … where …`. */
  from(question: ReportQuestion<Q>): RawBuilder<unknown>;
};

/** A report whose answer is computed at once, and is its rows; a column of JSON gets its text. */
export type ComputedReport<Q = unknown, A = unknown> = {
  kind: "computed";
  columns: readonly ReportColumn[];
  /** Refuses, before anything is read, what `read` would. @throws DomainError VALIDATION_ERROR */
  check?(asked: Asked, query: Q): void;
  /** Computes the answer, as the report's own operation has it. */
  read(work: Work, asked: Asked, query: Q): Promise<A>;
  /** Returns the rows of an answer, also of one that was JSON meanwhile. */
  rows(answer: A): Iterable<Row>;
};

/** A report that can be exported. To add one, add a line to `reports.ts`, and one to its operations. */
export type Report<Q = unknown> = RowReport<Q> | ComputedReport<Q>;

/**
 * Puts a report of rows into the list. The parameters of a question are parsed by the operation that asks it,
 * and come back here as they were.
 */
export const rowReport = <Q>(one: Omit<RowReport<Q>, "kind">): Report => ({ kind: "rows", ...one });

/** As `rowReport`, for a report whose answer is computed at once. */
const computed = <Q, A>(one: Omit<ComputedReport<Q, A>, "kind">): ComputedReport => ({
  kind: "computed",
  ...one,
});

const metricRow = (metric: string, view: MetricView): Row => ({ metric, ...view });

/** The metrics of an overview: a row each, and one for each currency. */
export const overviewReport = computed({
  columns: [
    text("metric"),
    ...["value", "previous", "change", "changePct", "changePoints"].map(number),
    text("trend"),
    text("goodDirection"),
  ],
  check: ({ frame, range }: Asked, query: OverviewQuery) => void comparedWith(frame, range, query),
  read: (work: Work, asked: Asked, query: OverviewQuery) => readOverview(work, asked, query),
  rows: ({ metrics: { currencyGranted, ...metrics } }) => [
    ...Object.entries(metrics).map(([name, view]) => metricRow(name, view)),
    ...Object.entries(currencyGranted).map(([key, view]) => metricRow(`currencyGranted:${key}`, view)),
  ],
});

/** The parameters of GET /analytics/trends. */
type TrendParameters = Omit<TrendQuery, "metrics" | "breakdown" | "cumulative" | "types" | "filters"> & {
  metric: readonly string[];
  breakdown?: string | undefined;
  cumulative?: boolean | undefined;
};

/** Returns the points of series, a row each. */
function* trendRows(series: readonly TrendSeries[]): Generator<Row> {
  for (const { metric, breakdown, points, previous } of series) {
    for (const [i, point] of points.entries()) {
      const before = previous?.points[i];
      yield {
        metric,
        breakdown,
        ...point,
        start: Date.parse(point.start),
        partial: point.partial ?? false,
        previousDate: before?.date,
        previousValue: before?.value,
      };
    }
  }
}

/** What is asked by the parameters of trends. @throws DomainError VALIDATION_ERROR */
export const asTrendQuery = (query: TrendParameters): TrendQuery => ({
  ...query,
  metrics: readMetrics(query.metric),
  breakdown: readBreakdown(query.breakdown),
  cumulative: query.cumulative ?? false,
  ...readFilters(query),
});

export const trendReport = computed({
  columns: [
    text("metric"),
    text("breakdown"),
    text("date"),
    { name: "start", type: "time" },
    number("value"),
    { name: "complete", type: "boolean" },
    { name: "partial", type: "boolean" },
    text("previousDate"),
    number("previousValue"),
  ],
  check: (asked: Asked, query: TrendParameters) => void planTrends(asked, asTrendQuery(query)),
  read: (work: Work, asked: Asked, query: TrendParameters) => readTrends(work, asked, asTrendQuery(query)),
  rows: ({ series }) => trendRows(series),
});

type SegmentParameters = Readonly<Record<string, unknown>> & {
  group: SegmentGroup | "all";
  averages?: boolean | undefined;
};

/** What is asked by the parameters of segments. @throws DomainError VALIDATION_ERROR for filters that are none */
export const asSegmentsQuestion = (query: SegmentParameters): SegmentsQuestion => ({
  groups: query.group === "all" ? SEGMENT_GROUPS : [query.group],
  averages: query.averages ?? true,
  ...readFilters(query),
});

export const segmentReport = computed({
  columns: [
    text("group"),
    text("segment"),
    text("label"),
    text("definition"),
    ...["players", "share", "previousPlayers", "change", "avgXp", "avgLevel"].map(number),
  ],
  check: (_asked: Asked, query: SegmentParameters) => void asSegmentsQuestion(query),
  read: (work: Work, asked: Asked, query: SegmentParameters) =>
    readSegments(work, asked, asSegmentsQuestion(query)),
  rows: ({ groups }) =>
    groups.flatMap(({ key: name, segments }) =>
      segments.map(({ key: segment, ...rest }) => ({ group: name, segment, ...rest })),
    ),
});

/** The parameters of GET /analytics/experiments/{ruleId}, with the rule among them. */
type ExperimentParameters = {
  ruleId: string;
  metric: readonly string[];
  against?: Against | undefined;
  population: Population;
};

/** The metrics of an experiment: a row each, with both groups. */
export const experimentReport = computed({
  columns: [
    ...["metric", "kind", "method"].map(text),
    ...["treatedPlayers", "treatedValue", "controlPlayers", "controlValue"].map(number),
    ...["difference", "low", "high", "confidence"].map(number),
  ],
  check: (asked: Asked, { metric }: ExperimentParameters) => {
    for (const one of readMetrics(metric)) playerValue(asked, one);
  },
  read: async (work: Work, asked: Asked, query: ExperimentParameters) => {
    const { ruleId: ruleRef, metric, against, population } = query;
    const groups = await readGroups(work, asked.frame.projectId, { ruleRef, against });
    return readExperiment(work, asked, { groups, metrics: readMetrics(metric), population });
  },
  rows: ({ metrics }) =>
    metrics.map(({ metric, kind, method, treated, control, difference }): Row => ({
      metric,
      kind,
      method,
      treatedPlayers: treated.players,
      treatedValue: treated.value,
      controlPlayers: control.players,
      controlValue: control.value,
      difference: difference?.value,
      low: difference?.low,
      high: difference?.high,
      confidence: difference?.confidence,
    })),
});

const flag = (name: string): ReportColumn => ({ name, type: "boolean" });

/** The cells of retention: a row each. */
export const retentionReport = computed({
  columns: [text("period"), ...["size", "offset", "until", "players", "rate"].map(number), flag("complete")],
  read: (work: Work, asked: Asked, question: RetentionQuestion) => readRetention(work, asked, question),
  rows: ({ cohorts }) =>
    cohorts.flatMap(({ period, size, cells }) => cells.map((cell): Row => ({ period, size, ...cell }))),
});

/** The values of cohorts: a row for each and its k-th period. */
export const cohortReport = computed({
  columns: [text("period"), text("label"), ...["size", "k", "value"].map(number), flag("complete")],
  read: (work: Work, asked: Asked, question: CohortQuestion) => readCohorts(work, asked, question),
  rows: ({ cohorts }) =>
    cohorts.flatMap(({ period, label, size, values, complete }) =>
      values.map((value, k): Row => ({ period, label, size, k, value, complete: complete[k]! })),
    ),
});

/** The steps of a funnel: a row each, and one for each value of its breakdown. */
export const funnelReport = computed({
  columns: [
    text("breakdown"),
    number("index"),
    text("eventType"),
    text("label"),
    ...["players", "fromStart", "fromPrevious", "dropOff", "medianSecondsFromPrevious"].map(number),
  ],
  read: (work: Work, asked: Asked, question: FunnelQuestion) => readFunnel(work, asked, question),
  rows: ({ steps, breakdown = [] }) => {
    const ofValues = breakdown.flatMap(({ value, players }) =>
      steps.map(({ index, eventType, label }, i): Row => ({
        breakdown: value,
        index,
        eventType,
        label,
        players: players[i]!,
      })),
    );
    return [...steps.map((step): Row => ({ breakdown: null, ...step })), ...ofValues];
  },
});
