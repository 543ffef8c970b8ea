import { type RawBuilder, sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { hasRoomForJob } from "../../long-work/project-jobs.ts";
import type { SavedKindName, StoredQuestion } from "./kinds.ts";
import type { RelativeRange } from "./relative-range.ts";
import { queueRun } from "./runs.ts";
import { lastDueMs, nextDueMs, type Schedule } from "./schedule.ts";
import { UNTOLD } from "./tell.ts";

/** Reports that are due: those of tenants that may use the service, before a moment. */
const dueBefore = (at: Date): RawBuilder<unknown> => sql`
  from analytics_reports r
  join projects p on p.id = r.project_id and p.deleted_at is null
  join tenants t on t.id = p.tenant_id and t.approval_status = 'APPROVED' and t.deleted_at is null
  where r.next_at < ${at.toISOString()}::timestamptz`;

/** Whether a report is due, or a run has ended that nobody was told of. */
export const areReportsDue = (at: Date): RawBuilder<unknown> =>
  sql`(exists (select ${dueBefore(at)}) or exists (select ${UNTOLD}))`;

/** Position in a walk over due reports; undefined at its beginning. */
export type DueCursor = { projectId: string; id: string };

type Row = {
  report: SavedKindName;
  question: StoredQuestion;
  range: RelativeRange | null;
  schedule: Schedule;
  next_at: Date | string;
  created_by: string;
};

/** Returns the next due report after `cursor`; undefined when there is none. */
export const findDueReport = async (
  { db, serverNow }: Work,
  cursor: DueCursor | undefined,
): Promise<DueCursor | undefined> => {
  const after = cursor
    ? sql`and (r.project_id, r.id) > (${cursor.projectId}::uuid, ${cursor.id}::uuid)`
    : sql``;
  const { rows } = await sql<{ project_id: string; id: string }>`
    select r.project_id, r.id ${dueBefore(serverNow)} ${after}
    order by r.project_id, r.id limit 1`.execute(db);
  return rows[0] && { projectId: rows[0].project_id, id: rows[0].id };
};

/**
 * Queues the run of a due report, unless another process has done so. A report that was due several times
 * runs once, for the latest of them. One whose project has no room for a job stays due.
 */
export const queueDueReport = async (work: Work, { projectId, id }: DueCursor): Promise<void> => {
  const now = work.serverNow;
  const { rows } = await sql<Row>`
    select r.report, r.question, r."range", r.schedule, r.next_at, r.created_by
    ${dueBefore(now)} and r.project_id = ${projectId}::uuid and r.id = ${id}::uuid
    for update of r skip locked`.execute(work.db);
  const [row] = rows;
  if (!row || !(await hasRoomForJob(work, projectId))) return;
  const { schedule } = row;
  const dueMs = Math.max(new Date(row.next_at).getTime(), lastDueMs(schedule, now.getTime() - 1));
  const { report, question, range, created_by: createdBy } = row;
  await queueRun(work, {
    projectId,
    reportId: id,
    cause: "SCHEDULE",
    dueMs,
    report,
    question,
    range,
    createdBy,
  });
  await sql`
    update analytics_reports set next_at = ${new Date(nextDueMs(schedule, dueMs)).toISOString()}::timestamptz
    where project_id = ${projectId}::uuid and id = ${id}::uuid`.execute(work.db);
};
