import { promisify } from "node:util";
import { constants, gzip } from "node:zlib";
import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import { auditDefinition } from "../../accounts/audit/audit.ts";
import { type ComputedReport, FoundPaths, type ReportQuestion, type Row, type RowReport } from "./columns.ts";
import {
  type ExportFormat,
  type ExportPlan,
  fileWriter,
  keysOf,
  namesOf,
  type ReportName,
  reportOf,
  REPORTS,
  rowQuery,
  writeComputed,
} from "./reports.ts";
import { BUILDERS } from "../../kernel/caller.ts";
import { pagesIn } from "../../kernel/cursor.ts";
import { conflict, DomainError, notFound } from "../../kernel/errors.ts";
import { isId, NIL_ID } from "../../kernel/ids.ts";
import { shown } from "../../kernel/json.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import { countRows, lockRoom, type Total, type Work } from "../../kernel/work.ts";
import { cancelJobs, jobKind, type JobStatus, queueJob, type Step } from "../../long-work/project-jobs.ts";

const compress = promisify(gzip);
/** A job has time: this is a good deal smaller than what is compressed as it is sent. */
const LEVEL = { level: constants.Z_DEFAULT_COMPRESSION };
/** Bytes of a file that are compressed as one piece. */
const PIECE_BYTES = 1024 * 1024;

/** A file in the database: pieces of gzip, which one after the other are gzip as well (RFC 1952, 2.2). */
type FileRef = { projectId: string; id: string };

/** Adds text to the end of a file. */
class PieceWriter {
  readonly #work: Work;
  readonly #file: FileRef;
  #waiting: string[] = [];
  #chars = 0;
  /** Bytes of the file that are stored. */
  bytes: number;

  /** @param bytes of the file that were stored before */
  constructor(work: Work, file: FileRef, bytes: number) {
    this.#work = work;
    this.#file = file;
    this.bytes = bytes;
  }

  async add(text: string): Promise<void> {
    this.#waiting.push(text);
    this.#chars += text.length;
    if (this.#chars >= PIECE_BYTES) await this.flush();
  }

  /** Stores what was added. */
  async flush(): Promise<void> {
    const plain = Buffer.from(this.#waiting.join(""));
    this.#waiting = [];
    this.#chars = 0;
    for (let at = 0; at < plain.length; at += PIECE_BYTES)
      await this.#store(await compress(plain.subarray(at, at + PIECE_BYTES), LEVEL));
  }

  async #store(bytes: Buffer): Promise<void> {
    const { projectId, id } = this.#file;
    await sql`
      insert into analytics_export_pieces (project_id, export_id, starts_at, bytes)
      values (${projectId}::uuid, ${id}::uuid, ${this.bytes}::bigint, ${bytes}::bytea)`.execute(
      this.#work.db,
    );
    this.bytes += bytes.length;
  }
}

/** Returns the bytes of a file from `at` to the end of a piece; undefined where it has none. */
export const readPiece = async (
  { db }: Work,
  { projectId, id }: FileRef,
  at: number,
): Promise<Uint8Array | undefined> => {
  const { rows } = await sql<{ bytes: Uint8Array }>`
    select substring(bytes from (${at}::bigint - starts_at)::int + 1) as bytes from analytics_export_pieces
    where project_id = ${projectId}::uuid and export_id = ${id}::uuid and starts_at <= ${at}::bigint
    order by starts_at desc limit 1`.execute(db);
  const bytes = rows[0]?.bytes;
  return bytes && bytes.length > 0 ? bytes : undefined;
};

/** How long a file is kept, in ms. */
export const EXPORT_KEPT_MS = 7 * 86_400_000;
/** Maximum bytes of a file, compressed. */
export const EXPORT_FILE_MAX_BYTES = 256 * 1024 * 1024;
/** Rows of a step: each step sorts those that are left, or reads all events for the columns of players. */
const STEP_ROWS = 100_000;
/** Characters after which a step ends. */
const STEP_CHARS = 32 * 1024 * 1024;

/** A plan whose rows are all there: `uptoId` is the last of them. */
type StoredPlan = ExportPlan & { uptoId?: string };
/** As a step reads it: with what the report has found. */
type ReadPlan = StoredPlan & Pick<ReportQuestion<unknown>, "found">;

const Column = z.object({
  name: z.string(),
  type: z.enum(["text", "number", "boolean", "time", "json", "any"]),
  of: z.string(),
  path: z.array(z.string()).readonly().optional(),
});

/** Where a job has come to. FIND: it looks for the columns of `flatten`. */
const State = z.object({
  phase: z.enum(["FIND", "WRITE"]),
  /** Rows that there are, and that the phase has read. */
  total: z.number(),
  read: z.number(),
  after: z.array(z.string()).optional(),
  found: z.array(Column).readonly(),
  bytes: z.number(),
});
type State = z.output<typeof State>;

/** Locks an export; undefined for one that was deleted. */
const lockPlan = async ({ db }: Work, { projectId, id }: FileRef): Promise<StoredPlan | undefined> => {
  const { rows } = await sql<{ plan: StoredPlan }>`
    select plan from analytics_exports
    where project_id = ${projectId}::uuid and id = ${id}::uuid for update`.execute(db);
  return rows[0]?.plan;
};

const finish = async (work: Work, file: FileRef, { rows, bytes }: { rows: number; bytes: number }) => {
  const { serverNow } = work;
  const expiresAt = new Date(serverNow.getTime() + EXPORT_KEPT_MS).toISOString();
  await sql`
    update analytics_exports set row_count = ${rows}::bigint, byte_count = ${bytes}::bigint,
      finished_at = ${serverNow.toISOString()}::timestamptz, expires_at = ${expiresAt}::timestamptz
    where project_id = ${file.projectId}::uuid and id = ${file.id}::uuid`.execute(work.db);
  return { result: { exportId: file.id, rows, bytes } };
};

/** Writes the file of a report that is computed at once. */
const writeAtOnce = async (
  work: Work,
  file: FileRef,
  plan: StoredPlan,
  report: ComputedReport,
): Promise<Step> => {
  const pieces = new PieceWriter(work, file, 0);
  const answer = await report.read(work, plan.asked, plan.query);
  const rows = await writeComputed(plan, report.rows(answer), (text) => pieces.add(text));
  await pieces.flush();
  return finish(work, file, { rows, bytes: pieces.bytes });
};

const countExportRows = async ({ db }: Work, report: RowReport<unknown>, plan: ReadPlan): Promise<number> => {
  // What players did adds no row.
  const found = plan.found && { ...plan.found, events: undefined };
  const { rows } = await sql<{ n: number }>`select count(*) as n ${report.from({ ...plan, found })}`.execute(
    db,
  );
  return rows[0]!.n;
};

type Step1 = { work: Work; report: RowReport<unknown>; plan: ReadPlan; state: State };

/** Reads the rows of a step. @returns how many, where it goes on, and whether that was the last of them */
const readStep = async (
  { work, report, plan, state }: Step1,
  visit: (rows: readonly Row[]) => Promise<number>,
): Promise<{ read: number; after: string[] | undefined; isLast: boolean }> => {
  const query = rowQuery(report, plan, plan.columns, { after: state.after, limit: STEP_ROWS });
  const pages = await pagesIn<Row>(work, query);
  let [read, chars] = [0, 0];
  let after = state.after;
  for (;;) {
    const rows = await pages.next();
    if (rows.length === 0) return { read, after, isLast: read < STEP_ROWS };
    chars += await visit(rows);
    read += rows.length;
    after = [...keysOf(report, rows.at(-1)!)];
    if (chars >= STEP_CHARS) return { read, after, isLast: false };
  }
};

/** The share of a phase that is done, in per cent. */
const partOf = ({ read, total }: State): number => (100 * read) / Math.max(1, total);

const findStep = async (step: Step1): Promise<Step> => {
  const { plan, state } = step;
  const found = new FoundPaths(plan.columns, state.found);
  const { read, after, isLast } = await readStep(step, async (rows) => {
    found.add(rows);
    return 0;
  });
  const next: State = { ...state, read: state.read + read, after, found: found.found };
  if (!isLast) return { state: next, progress: partOf(next) / 2 };
  return { state: { ...next, phase: "WRITE", read: 0, after: undefined }, progress: 50 };
};

const writeStep = async (file: FileRef, step: Step1): Promise<Step> => {
  const { work, plan, state } = step;
  const columns = plan.flatten ? new FoundPaths(plan.columns, state.found).columns : plan.columns;
  const writer = fileWriter(columns, plan.style);
  const pieces = new PieceWriter(work, file, state.bytes);
  let before = state.read;
  if (before === 0) await pieces.add(writer.head);
  const { read, after, isLast } = await readStep(step, async (rows) => {
    const text = writer.rows(rows, before === 0);
    before += rows.length;
    await pieces.add(text);
    return text.length;
  });
  if (isLast) await pieces.add(writer.tail);
  await pieces.flush();
  if (pieces.bytes > EXPORT_FILE_MAX_BYTES) throw tooLarge();
  const next: State = { ...state, read: state.read + read, after, bytes: pieces.bytes };
  if (isLast) return finish(work, file, { rows: next.read, bytes: next.bytes });
  return { state: next, progress: plan.flatten ? 50 + partOf(next) / 2 : partOf(next) };
};

const tooLarge = (): DomainError =>
  new DomainError(
    "PAYLOAD_TOO_LARGE",
    `the file has more than ${EXPORT_FILE_MAX_BYTES} bytes: export a shorter range`,
  );

/**
 * Makes the file of an export. Rows that come after it was asked for are not in it, and each row is as it was
 * when its step, a snapshot of its own, read it. A deleted export ends its job.
 */
export const analyticsExport = jobKind({
  kind: "ANALYTICS_EXPORT",
  access: { scope: "analytics:read", roles: BUILDERS },
  params: z.object({ scope: z.string().optional() }),
  // Rollups answer within one snapshot alone.
  isSnapshot: true,
  step: async (work, { id, projectId, state: json }): Promise<Step> => {
    const file = { projectId, id };
    const stored = await lockPlan(work, file);
    if (!stored) return { result: { exportId: id, deleted: true } };
    const report = reportOf(stored);
    if (report.kind === "computed") return writeAtOnce(work, file, stored, report);
    const plan = { ...stored, found: await report.find?.(work, stored, namesOf(stored.columns)) };
    const known = State.safeParse(json);
    const state: State = known.success
      ? known.data
      : {
          phase: plan.flatten ? "FIND" : "WRITE",
          total: await countExportRows(work, report, plan),
          read: 0,
          found: [],
          bytes: 0,
        };
    const step = { work, report, plan, state };
    return state.phase === "FIND" ? findStep(step) : writeStep(file, step);
  },
});

/** Maximum exports of a project that are being made or kept. */
export const EXPORTS_MAX = 10;

/** An export, with how far its job is. */
type ExportRow = {
  id: string;
  report: ReportName;
  format: ExportFormat;
  /** The report's own parameters. */
  parameters: Readonly<Record<string, unknown>>;
  status: JobStatus;
  /** In per cent. */
  progress: number;
  rows: number;
  /** Of the compressed file. */
  bytes: number;
  fileName: string;
  error: string | null;
  createdBy: string;
  createdAt: Date;
  finishedAt: Date | null;
  expiresAt: Date;
};

/** An export outlives its job where that has failed: it was never completed. */
const SHOWN = sql`
  e.id, e.report, e.plan->'style'->>'format' as format, e.plan->'query' as parameters,
  case when e.finished_at is null then coalesce(j.status, 'FAILED') else 'SUCCEEDED' end as status,
  case when e.finished_at is null then coalesce(j.progress, 0) else 100 end as progress,
  e.row_count as rows, e.byte_count as bytes, e.plan->>'fileName' || '.gz' as "fileName",
  case when e.finished_at is null then j.error end as error, e.created_by as "createdBy",
  e.created_at as "createdAt", e.finished_at as "finishedAt", e.expires_at as "expiresAt"
  from analytics_exports e left join project_jobs j on j.project_id = e.project_id and j.id = e.id`;

const show = (row: ExportRow) =>
  shown(row, [
    ...(["id", "report", "format", "parameters", "status", "progress", "rows", "bytes"] as const),
    ...(["fileName", "error", "createdBy", "createdAt", "finishedAt", "expiresAt"] as const),
  ]);

/** An export in the API. */
export type StoredExport = ReturnType<typeof show>;

/** Reference to an export. `reports`: those that the caller may export; others do not exist for it. */
export type ExportRef = { projectId: string; id: string; reports: readonly ReportName[] };

const isVisible = (projectId: string, reports: readonly ReportName[]): RawBuilder<unknown> => sql`
  e.project_id = ${projectId}::uuid
  and e.report in (select json_array_elements_text(${JSON.stringify(reports)}::json))`;

/** @throws DomainError NOT_FOUND */
export const getExport = async (work: Work, { projectId, id, reports }: ExportRef): Promise<StoredExport> => {
  const { rows } = isId(id)
    ? await sql<ExportRow>`
        select ${SHOWN} where ${isVisible(projectId, reports)} and e.id = ${id}::uuid`.execute(work.db)
    : { rows: [] };
  if (!rows[0]) throw notFound("export");
  return show(rows[0]);
};

/** The newest row that an export may have. */
const newestId = async ({ db }: Work, plan: ExportPlan): Promise<string | undefined> => {
  const report = reportOf(plan);
  if (report.kind === "computed") return undefined;
  const { rows } = await sql<{ id: string }>`
    select id::text as id from ${sql.table(report.table)}
    where project_id = ${plan.asked.frame.projectId}::uuid order by id desc limit 1`.execute(db);
  return rows[0]?.id ?? NIL_ID;
};

/** Asks for a file. @throws DomainError CONFLICT EXPORT_LIMIT, JOB_LIMIT */
export const startAnalyticsExport = async (
  work: Work,
  plan: ExportPlan,
  createdBy: string,
): Promise<StoredExport> => {
  const { projectId } = plan.asked.frame;
  await lockRoom(work, projectId, "exports");
  const kept = await sql<{ n: number }>`
    select count(*) as n from analytics_exports where project_id = ${projectId}::uuid`.execute(work.db);
  if (kept.rows[0]!.n >= EXPORTS_MAX)
    throw conflict("EXPORT_LIMIT", `a project keeps ${EXPORTS_MAX} exports: delete one`);
  const { scope } = REPORTS[plan.report];
  const params = scope === undefined ? {} : { scope };
  const job = await queueJob(work, projectId, { kind: analyticsExport, params, createdBy });
  const uptoId = await newestId(work, plan);
  const stored: StoredPlan = { ...plan, ...(uptoId === undefined ? {} : { uptoId }) };
  const now = work.serverNow;
  await sql`
    insert into analytics_exports (project_id, id, report, plan, created_by, created_at, expires_at)
    values (${projectId}::uuid, ${job.id}::uuid, ${plan.report}, ${JSON.stringify(stored)}::jsonb,
      ${createdBy}, ${now.toISOString()}::timestamptz,
      ${new Date(now.getTime() + EXPORT_KEPT_MS).toISOString()}::timestamptz)`.execute(work.db);
  await auditDefinition(work, "analytics.export_started", { projectId, id: job.id });
  return getExport(work, { projectId, id: job.id, reports: [plan.report] });
};

/** Orders of the list. */
export const EXPORT_ORDERS = { by: { createdAt: sql`e.id` }, usual: "desc" } as const;

type ListExports = PageQuery & Ordered<SortOf<typeof EXPORT_ORDERS>> & { reports: readonly ReportName[] };

/** Returns a page of a project's exports. */
export const listExports = async (
  work: Work,
  projectId: string,
  query: ListExports,
): Promise<Total & { exports: StoredExport[] }> => {
  const where = isVisible(projectId, query.reports);
  const { rows } = await sql<ExportRow>`
    select ${SHOWN} where ${where} order by ${orderBy(EXPORT_ORDERS, query, sql`e.id`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  return { exports: rows.map(show), ...(await countRows(work, sql`analytics_exports e where ${where}`)) };
};

/** @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE for a file that is not complete */
export const getCompleteExport = async (work: Work, ref: ExportRef): Promise<StoredExport> => {
  const found = await getExport(work, ref);
  if (found.finishedAt === null)
    throw conflict("INVALID_STATE", `the export is ${found.status} and has no file`);
  return found;
};

/** Deletes an export with its file, and ends its job before its next step. @throws DomainError NOT_FOUND */
export const deleteExport = async (work: Work, ref: ExportRef): Promise<void> => {
  await getExport(work, ref);
  const { projectId, id } = ref;
  // In the order of a step: the job first.
  await cancelJobs(work, sql`project_id = ${projectId}::uuid and id = ${id}::uuid`);
  await sql`
    with gone as (
      delete from analytics_exports where project_id = ${projectId}::uuid and id = ${id}::uuid)
    delete from analytics_export_pieces
    where project_id = ${projectId}::uuid and export_id = ${id}::uuid`.execute(work.db);
  await auditDefinition(work, "analytics.export_deleted", { projectId, id });
};
