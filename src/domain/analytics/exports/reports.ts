import { type RawBuilder, sql } from "kysely";
import { ask, type Asked } from "../ask.ts";
import { eventsOf } from "../events.ts";
import {
  cellReader,
  type CellType,
  cohortReport,
  columnsOf,
  experimentReport,
  type FileColumn,
  FoundPaths,
  funnelReport,
  overviewReport,
  type Report,
  type ReportQuestion,
  retentionReport,
  type Row,
  rowReport,
  type RowReport,
  segmentReport,
  trendReport,
} from "./columns.ts";
import { findEvents } from "./player-events.ts";
import { pagesByStretch, type Stretch } from "./stretches.ts";
import { findListed, type ListQuestion } from "../lists/list-segment.ts";
import { dateOfDay, untilAsOf } from "../range.ts";
import { findPlaces, SEGMENTS } from "../segments.ts";
import { type PropertyFilter, whereOf } from "../properties.ts";
import { readFilters } from "../trend-query.ts";
import type { Scope } from "../../kernel/caller.ts";
import { type CursorParts, type Pages, readPages, SNAPSHOT } from "../../kernel/cursor.ts";
import { invalid } from "../../kernel/errors.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import { asOneMessage } from "../../kernel/statements.ts";
import type { Work } from "../../kernel/work.ts";

/** Parameters `filter[eventType]` and `filter[properties.x]`. */
type EventQuery = Readonly<Record<string, unknown>>;

const msOf = (column: string) => sql`(extract(epoch from ${sql.ref(column)}) * 1000)::float8`;

const conditionsOf = (filters: readonly PropertyFilter[], uptoId: string | undefined) => {
  const conditions = [
    ...(filters.length > 0 ? [whereOf(filters)!] : []),
    ...(uptoId === undefined ? [] : [sql`e.id <= ${uptoId}::uuid`]),
  ];
  return conditions.length === 0 ? {} : { where: sql.join(conditions, sql` and `) };
};

const spanOf = ({ asked: { frame, range } }: ReportQuestion<EventQuery>): Stretch => untilAsOf(frame, range);

/**
 * Events as they were sent: a file of NDJSON is what POST /events/batch takes. One without a key gets its id
 * as such, so that taking it in twice stores it once.
 */
const eventReport = rowReport<EventQuery>({
  table: "tracked_events",
  columns: [
    { name: "externalUserId", type: "text", select: sql`e.external_user_id` },
    { name: "eventType", type: "text", select: sql`e.event_type` },
    { name: "timestamp", type: "time", select: msOf("e.at") },
    { name: "idempotencyKey", type: "text", select: sql`coalesce(e.idempotency_key, e.id::text)` },
    { name: "properties", type: "json", select: sql`e.properties::text` },
    { name: "eventId", type: "text", select: sql`e.id::text`, isExtra: true },
    { name: "playerId", type: "text", select: sql`e.player_id::text`, isExtra: true },
    { name: "receivedAt", type: "time", select: msOf("e.received_at"), isExtra: true },
  ],
  keys: [
    { select: sql`e.at`, type: "timestamptz" },
    { select: sql`e.id`, type: "uuid" },
  ],
  span: spanOf,
  from: (question) => {
    const { asked, query, uptoId, stretch } = question;
    const { frame } = asked;
    const { types, filters } = readFilters(query);
    const { startMs, endMs } = stretch ?? spanOf(question);
    const selection = { fromMs: startMs, untilMs: endMs, types, ...conditionsOf(filters, uptoId) };
    return sql`from (${eventsOf(frame, selection)}) e where true`;
  },
});

export const EXPORT_FORMATS = ["csv", "json", "ndjson"] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

export const MEDIA_TYPES: Readonly<Record<ExportFormat, string>> = {
  csv: "text/csv; charset=utf-8",
  json: "application/json; charset=utf-8",
  ndjson: "application/x-ndjson; charset=utf-8",
};

/** How a file is written. `bom`: for Excel, which else takes UTF-8 for something else. */
type FileStyle = { format: ExportFormat; bom: boolean; raw: boolean };

/** Writes a file piece by piece: `head`, then rows, then `tail`. */
type FileWriter = {
  head: string;
  /** @param isFirst whether no row was written before */
  rows(rows: readonly Row[], isFirst: boolean): string;
  tail: string;
};

const BOM = "\uFEFF";

/** Spreadsheets take such texts for formulas. */
const FORMULA = /^[=+\-@\t\r]/;
const QUOTED = /[",\r\n]|^\s|\s$/;

/** Returns a text as a cell of CSV (RFC 4180): an empty one is quoted, because an empty cell is no value. */
const quoted = (text: string): string =>
  text === "" || QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

/** A leading apostrophe makes spreadsheets show the text. */
const guarded = (text: string): string => (FORMULA.test(text) ? `'${text}` : text);

const csvCell = (value: unknown, type: CellType, isRaw: boolean): string => {
  if (value === null || value === undefined) return "";
  if (type === "time") return isoOf(Number(value));
  if (typeof value === "string") return quoted(isRaw ? value : guarded(value));
  const text = JSON.stringify(value);
  return typeof value === "object" ? quoted(text) : text;
};

const csvWriter = (columns: readonly FileColumn[], { bom, raw }: FileStyle): FileWriter => {
  const read = cellReader(columns);
  const line = (cells: readonly string[]): string => `${cells.join(",")}\r\n`;
  const header = line(columns.map(({ name }) => csvCell(name, "text", raw)));
  return {
    head: bom ? BOM + header : header,
    rows: (rows) =>
      rows.map((row) => line(read(row).map((value, i) => csvCell(value, columns[i]!.type, raw)))).join(""),
    tail: "",
  };
};

const jsonCell = (value: unknown, type: CellType): string => {
  if (value === null || value === undefined) return "null";
  if (type === "time") return JSON.stringify(isoOf(Number(value)));
  if (type === "json" && typeof value === "string") return value;
  return JSON.stringify(value);
};

const objectWriter = (columns: readonly FileColumn[]): ((row: Row) => string) => {
  const read = cellReader(columns);
  const names = columns.map(({ name }) => `${JSON.stringify(name)}:`);
  return (row) => {
    const cells = read(row).map((value, i) => names[i]! + jsonCell(value, columns[i]!.type));
    return `{${cells.join(",")}}`;
  };
};

/** Returns what writes rows in a format. */
export const fileWriter = (columns: readonly FileColumn[], style: FileStyle): FileWriter => {
  if (style.format === "csv") return csvWriter(columns, style);
  const write = objectWriter(columns);
  if (style.format === "ndjson")
    return { head: "", rows: (rows) => rows.map((row) => `${write(row)}\n`).join(""), tail: "" };
  return {
    head: "[",
    rows: (rows, isFirst) =>
      rows.length === 0 ? "" : (isFirst ? "" : ",\n") + rows.map((row) => write(row)).join(",\n"),
    tail: "]",
  };
};

/** The groups of segments that a player can be selected by: those of analytics that a column shows. */
const GROUPS = ["lifecycle", "engagement"] as const;

/** Everything that `segment` may be, such as `lifecycle:at_risk`. */
export const PLAYER_SEGMENTS: readonly string[] = GROUPS.flatMap((group) =>
  SEGMENTS[group].map(({ key }) => `${group}:${key}`),
);

/** `list`: those behind a number. */
type PlayerQuery = { segment?: string | undefined; list?: ListQuestion | undefined };

const OF_EVENTS = ["firstEventAt", "lastEventAt", "events"] as const;

/**
 * Players with what analytics know of them: those of whom none was merged into another. XP, level and profile
 * are of when the row is read; events and segments of `asOf`.
 */
const playerReport = rowReport<PlayerQuery>({
  table: "players",
  columns: [
    { name: "playerId", type: "text", select: sql`p.id::text` },
    { name: "externalUserId", type: "text", select: sql`p.external_user_id` },
    { name: "displayName", type: "text", select: sql`p.display_name` },
    { name: "status", type: "text", select: sql`p.status` },
    { name: "level", type: "number", select: sql`p.level::float8` },
    { name: "xp", type: "number", select: sql`p.xp::float8` },
    { name: "country", type: "text", select: sql`p.country` },
    { name: "locale", type: "text", select: sql`p.locale` },
    { name: "timezone", type: "text", select: sql`p.timezone` },
    { name: "tags", type: "json", select: sql`to_jsonb(p.tags)::text` },
    { name: "attributes", type: "json", select: sql`p.attributes::text` },
    { name: "createdAt", type: "time", select: msOf("p.created_at") },
    { name: "lastSeenAt", type: "time", select: msOf("p.last_seen_at") },
    { name: "firstEventAt", type: "time", select: sql`a.first_ms` },
    { name: "lastEventAt", type: "time", select: sql`a.last_ms` },
    { name: "events", type: "number", select: sql`coalesce(a.n, 0)::float8` },
    { name: "lifecycle", type: "text", select: sql`s.lifecycle` },
    { name: "engagement", type: "text", select: sql`s.engagement` },
    { name: "avatarUrl", type: "text", select: sql`p.avatar_url`, isExtra: true },
    { name: "metadata", type: "json", select: sql`p.metadata::text`, isExtra: true },
    { name: "deletedAt", type: "time", select: msOf("p.deleted_at"), isExtra: true },
  ],
  keys: [{ select: sql`p.id`, type: "uuid" }],
  find: async (work, { asked, query: { list, segment } }, names) => ({
    listed: list && (await findListed(work, asked, list)),
    events: OF_EVENTS.some((name) => names.has(name)) ? await findEvents(work, asked.frame) : undefined,
    segments:
      segment !== undefined || GROUPS.some((group) => names.has(group))
        ? await findPlaces(work, asked.frame)
        : undefined,
  }),
  from: ({ asked: { frame }, query: { segment }, uptoId, found }) => {
    const [group, key] = segment?.split(":") ?? [];
    const { listed, events, segments } = found!;
    return sql`
      from players p
        ${events ? sql`left join (${events}) a on a.player_id = p.id` : sql``}
        ${segments ? sql`left join (${segments}) s on s.player_id = p.id` : sql``}
      where p.project_id = ${frame.projectId}::uuid
        and ${listed ? sql`p.id in (select player_id from (${listed}) l)` : sql`p.merged_into is null`}
        ${uptoId === undefined ? sql`` : sql`and p.id <= ${uptoId}::uuid`}
        ${group === undefined ? sql`` : sql`and s.${sql.ref(group)} = ${key}`}`;
  },
});

/** Every report that can be exported. `scope`: what a key needs beside analytics:read. */
export const REPORTS = {
  events: { report: eventReport, scope: "events:read" },
  players: { report: playerReport, scope: "players:read" },
  overview: { report: overviewReport, scope: undefined },
  trends: { report: trendReport, scope: undefined },
  segments: { report: segmentReport, scope: undefined },
  retention: { report: retentionReport, scope: undefined },
  cohorts: { report: cohortReport, scope: undefined },
  funnels: { report: funnelReport, scope: undefined },
  experiments: { report: experimentReport, scope: undefined },
} as const satisfies Record<string, { report: Report; scope: Scope | undefined }>;
export type ReportName = keyof typeof REPORTS;
export const REPORT_NAMES = Object.keys(REPORTS) as ReportName[];

/** What is asked for beside the parameters of the report. */
export type ExportFields = {
  report: ReportName;
  format: ExportFormat;
  columns?: readonly string[] | undefined;
  flatten: boolean;
  bom: boolean;
  raw: boolean;
};

/** A file that can be written: resolved, so that it is the same whenever that is done. */
export type ExportPlan = {
  report: ReportName;
  /** The report's own parameters, as its operation has parsed them. */
  query: Readonly<Record<string, unknown>>;
  asked: Asked;
  columns: readonly FileColumn[];
  flatten: boolean;
  style: FileStyle;
  /** Such as `laurel-my-game-events-2026-01-01-2026-01-31.csv`. */
  fileName: string;
};

/** Returns the report of a plan, whose parameters its operation has parsed. */
export const reportOf = ({ report }: Pick<ExportPlan, "report">): Report => REPORTS[report].report;

/** @throws DomainError VALIDATION_ERROR for what only CSV has */
export const checkFormat = ({ format, flatten, bom, raw }: Omit<ExportFields, "report">): void => {
  const [wrong] = Object.entries({ flatten, bom, raw }).filter(([, isAsked]) => isAsked && format !== "csv");
  if (wrong) throw invalid(wrong[0], "is for format=csv");
};

/** Returns a name as part of a file's: letters without accents, digits and dashes. */
export const slugOf = (name: string): string =>
  name
    .normalize("NFKD")
    .replaceAll(/\p{M}/gu, "")
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "")
    .slice(0, 60);

const fileNameOf = async (
  { db }: Work,
  { report, format }: ExportFields,
  { frame: { projectId }, range }: Asked,
): Promise<string> => {
  const found = await sql<{ name: string }>`
    select name from projects where id = ${projectId}::uuid`.execute(db);
  const project = slugOf(found.rows[0]?.name ?? "") || projectId;
  const dates = [range.firstDay, range.lastDay].map(dateOfDay).join("-");
  return `laurel-${project}-${report}-${dates}.${format}`;
};

/**
 * Resolves what a file is made of.
 * @throws DomainError VALIDATION_ERROR, PAYMENT_REQUIRED for a range before what the plan shows
 */
export const planExport = async (
  work: Work,
  { projectId, fields, query }: { projectId: string; fields: ExportFields; query: ExportPlan["query"] },
): Promise<ExportPlan> => {
  checkFormat(fields);
  const { report, format, flatten, bom, raw } = fields;
  const columns = columnsOf(REPORTS[report].report.columns, fields.columns);
  const asked = await ask(work, { projectId, query });
  const fileName = await fileNameOf(work, fields, asked);
  return { report, query, asked, columns, flatten, style: { format, bom, raw }, fileName };
};

/** Where reading goes on: the keys of the last row, as text. */
type After = readonly string[];

const keyName = (i: number): string => `key ${i}`;

/** Returns the keys of a row that was selected with them. */
export const keysOf = (report: RowReport<unknown>, row: Row): After =>
  report.keys.map((_, i) => String(row[keyName(i)]));

const rowAfter = ({ keys }: RowReport<unknown>, after: After): RawBuilder<unknown> => sql`
  and (${sql.join(keys.map(({ select }) => select))}) > (${sql.join(
    keys.map(({ type }, i) => sql`${after[i]}::${sql.raw(type)}`),
  )})`;

/** The names of the report's columns that a file reads. */
export const namesOf = (columns: readonly FileColumn[]): ReadonlySet<string> =>
  new Set(columns.map(({ of }) => of));

/** Selects the rows of a report in their order; with `page` some of them, with their keys. */
export const rowQuery = (
  report: RowReport<unknown>,
  question: ReportQuestion<unknown>,
  columns: readonly FileColumn[],
  page?: { after: After | undefined; limit: number },
): RawBuilder<unknown> => {
  const names = namesOf(columns);
  const selected = report.columns
    .filter(({ name }) => names.has(name))
    .map(({ name, select }) => sql`${select} as ${sql.id(name)}`);
  const keys = page ? report.keys.map(({ select }, i) => sql`${select}::text as ${sql.id(keyName(i))}`) : [];
  const order = sql.join(report.keys.map(({ select }) => select));
  return sql`
    select ${sql.join([...selected, ...keys])} ${report.from(question)}
    ${page?.after === undefined ? sql`` : rowAfter(report, page.after)}
    order by ${order} ${page === undefined ? sql`` : sql`limit ${page.limit}`}`;
};

/** Takes the next piece of a file; resolves when there is room for more. */
export type Put = (piece: string) => Promise<void>;

/** Rows of a computed report that are written at once. */
const ROWS_AT_ONCE = 1_000;

const inSnapshot = <T>({ transact }: CursorParts, run: (work: Work) => Promise<T>): Promise<T> =>
  transact(async (work) => {
    await asOneMessage(work.db, SNAPSHOT);
    return run(work);
  });

/**
 * Writes a file from one snapshot of the database, in pieces. What cannot be written is refused before the
 * first piece.
 * @param signal ends it where nothing is written yet
 * @returns the number of rows
 */
export const writeExport = async (
  parts: CursorParts,
  plan: ExportPlan,
  { put, signal }: { put: Put; signal: AbortSignal },
): Promise<number> => {
  const report = reportOf(plan);
  if (report.kind === "computed") {
    const answer = await inSnapshot(parts, (work) => report.read(work, plan.asked, plan.query));
    return writeComputed(plan, report.rows(answer), put);
  }
  // Of one snapshot, which is that of the number they are behind.
  const found = await inSnapshot(parts, async (work) => report.find?.(work, plan, namesOf(plan.columns)));
  const question = { ...plan, found };
  const span = report.span?.(question);
  // Where there is one session, a cursor is what others can come in between.
  if (span && !parts.hasOneSession)
    return inSnapshot(parts, (work) => {
      const queryOf = (stretch: Stretch) => rowQuery(report, { ...question, stretch }, plan.columns);
      return writePages(plan, pagesByStretch<Row>(work, span, queryOf), { put, signal });
    });
  const query = rowQuery(report, question, plan.columns);
  return readPages<Row, number>(parts, query, (pages) => writePages(plan, pages, { put, signal }));
};

type FilePlan = Pick<ExportPlan, "columns" | "flatten" | "style">;

const findColumns = async (
  { columns }: FilePlan,
  pages: Pages<Row>,
  signal: AbortSignal,
): Promise<ExportPlan["columns"]> => {
  const found = new FoundPaths(columns);
  for (let rows = await pages.next(); rows.length > 0; rows = await pages.next()) {
    signal.throwIfAborted();
    found.add(rows);
  }
  await pages.rewind();
  return found.columns;
};

/**
 * Writes rows as a file. What cannot be read is refused before the first piece.
 * @param next returns the next rows; none at the end
 * @returns their number
 */
const writeRows = async (
  { columns, style }: Omit<FilePlan, "flatten">,
  next: () => Row[] | Promise<Row[]>,
  put: Put,
): Promise<number> => {
  const writer = fileWriter(columns, style);
  let count = 0;
  let rows = await next();
  await put(writer.head);
  for (; rows.length > 0; rows = await next()) {
    await put(writer.rows(rows, count === 0));
    count += rows.length;
  }
  await put(writer.tail);
  return count;
};

/** Writes the rows of pages as a file. @returns their number */
export const writePages = async (
  plan: FilePlan,
  pages: Pages<Row>,
  { put, signal }: { put: Put; signal: AbortSignal },
): Promise<number> => {
  const columns = plan.flatten ? await findColumns(plan, pages, signal) : plan.columns;
  return writeRows({ ...plan, columns }, pages.next, put);
};

/** Writes the answer of a report that is computed at once. @returns the number of rows */
export const writeComputed = (
  plan: Omit<FilePlan, "flatten">,
  rows: Iterable<Row>,
  put: Put,
): Promise<number> => {
  const left = rows[Symbol.iterator]();
  const next = (): Row[] => {
    const some: Row[] = [];
    for (let row = left.next(); !row.done; row = left.next())
      if (some.push(row.value) === ROWS_AT_ONCE) break;
    return some;
  };
  return writeRows(plan, next, put);
};
