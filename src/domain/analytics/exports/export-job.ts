import { sql } from "kysely";
import { z } from "zod";
import { BUILDERS } from "../../kernel/access.ts";
import { pagesIn } from "../../kernel/cursor.ts";
import { DomainError } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { jobKind, type Step } from "../../long-work/job-kind.ts";
import { type FileColumn, FoundPaths, type Row } from "./columns.ts";
import { fileWriter } from "./format.ts";
import { type FileRef, PieceWriter } from "./pieces.ts";
import { type ExportPlan, reportOf } from "./plan.ts";
import type { ReportQuestion, RowReport } from "./report.ts";
import { keysOf, rowQuery } from "./row-query.ts";
import { inParts } from "./write.ts";

/** How long a file is kept, in ms. */
export const EXPORT_KEPT_MS = 7 * 86_400_000;
/** Maximum bytes of a file, compressed. */
export const EXPORT_FILE_MAX_BYTES = 256 * 1024 * 1024;
/** Rows of a step: each step sorts those that are left. */
const STEP_ROWS = 20_000;
/** Characters after which a step ends. */
const STEP_CHARS = 32 * 1024 * 1024;

/** A plan whose rows are all there: `uptoId` is the last of them. */
export type StoredPlan = ExportPlan & { uptoId?: string };
/** As a step reads it: with what the report has found. */
type ReadPlan = StoredPlan & Pick<ReportQuestion<unknown>, "found">;

const Column = z.object({
  name: z.string(),
  type: z.enum(["text", "number", "boolean", "time", "json", "any"]),
  of: z.string(),
  path: z.array(z.string()).optional(),
});

/** Where a job has come to. FIND: it looks for the columns of `flatten`. */
const State = z.object({
  phase: z.enum(["FIND", "WRITE"]),
  /** Rows that there are, and that the phase has read. */
  total: z.number(),
  read: z.number(),
  after: z.array(z.string()).optional(),
  found: z.array(Column),
  bytes: z.number(),
});
type State = z.output<typeof State>;

/** A column comes back from the state of a job as it went in. */
const columnOf = ({ name, type, of, path }: z.output<typeof Column>): FileColumn => ({
  name,
  type,
  of,
  ...(path ? { path } : {}),
});

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
const writeComputed = async (work: Work, file: FileRef, plan: StoredPlan): Promise<Step> => {
  const report = reportOf(plan);
  if (report.kind !== "computed") throw new Error("the report has rows");
  const writer = fileWriter(plan.columns, plan.style);
  const pieces = new PieceWriter(work, file, 0);
  await pieces.add(writer.head);
  let rows = 0;
  for (const some of inParts(report.rows(await report.read(work, plan.asked, plan.query)), 1_000)) {
    await pieces.add(writer.rows(some, rows === 0));
    rows += some.length;
  }
  await pieces.add(writer.tail);
  await pieces.flush();
  return finish(work, file, { rows, bytes: pieces.bytes });
};

const countRows = async ({ db }: Work, report: RowReport<unknown>, plan: ReadPlan): Promise<number> => {
  const { rows } = await sql<{ n: string }>`select count(*) as n ${report.from(plan, new Set())}`.execute(db);
  return Number(rows[0]!.n);
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
  const found = new FoundPaths(plan.columns, state.found.map(columnOf));
  const { read, after, isLast } = await readStep(step, async (rows) => {
    found.add(rows);
    return 0;
  });
  const next: State = { ...state, read: state.read + read, after, found: found.found.map(mutable) };
  if (!isLast) return { state: next, progress: partOf(next) / 2 };
  return { state: { ...next, phase: "WRITE", read: 0, after: undefined }, progress: 50 };
};

const mutable = ({ path, ...column }: FileColumn): z.output<typeof Column> => ({
  ...column,
  ...(path ? { path: [...path] } : {}),
});

const writeStep = async (file: FileRef, step: Step1): Promise<Step> => {
  const { work, plan, state } = step;
  const columns = plan.flatten
    ? new FoundPaths(plan.columns, state.found.map(columnOf)).columns
    : plan.columns;
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
  params: z.object({}),
  // Rollups answer within one snapshot alone.
  isSnapshot: true,
  step: async (work, { id, projectId, state: json }): Promise<Step> => {
    const file = { projectId, id };
    const stored = await lockPlan(work, file);
    if (!stored) return { result: { exportId: id, deleted: true } };
    const report = reportOf(stored);
    if (report.kind === "computed") return writeComputed(work, file, stored);
    const plan = { ...stored, found: await report.find?.(work, stored.asked, stored.query) };
    const known = State.safeParse(json);
    const state: State = known.success
      ? known.data
      : {
          phase: plan.flatten ? "FIND" : "WRITE",
          total: await countRows(work, report, plan),
          read: 0,
          found: [],
          bytes: 0,
        };
    const step = { work, report, plan, state };
    return state.phase === "FIND" ? findStep(step) : writeStep(file, step);
  },
});
