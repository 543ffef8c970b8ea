import { sql } from "kysely";
import { conflict, notFound } from "../kernel/errors.ts";
import { isId } from "../kernel/ids.ts";
import { getJob, type ProjectJob, queueJob } from "../long-work/project-jobs.ts";
import type { Work } from "../kernel/work.ts";
import { auditEvent } from "../tracking/audit-event.ts";
import { readStatuses } from "../tracking/events.ts";
import type { Revert } from "./revert-event.ts";
import { eventRevert } from "./revert-job.ts";

/**
 * Queues the revert of an event. A repetition returns the job that has done it or will do it.
 * @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE for an event that has no effects, JOB_LIMIT
 */
export const requestRevert = async (work: Work, projectId: string, revert: Revert): Promise<ProjectJob> => {
  const { eventId, reason, onShortfall, actor } = revert;
  const [found] = isId(eventId) ? await readStatuses(work, projectId, [eventId]) : [];
  if (!found) throw notFound("event");
  const known = await findJob(work, projectId, eventId);
  if (known) return known;
  if (found.status !== "PROCESSED" && found.status !== "PENDING")
    throw conflict("INVALID_STATE", `the event is ${found.status}`);
  await auditEvent(work, "event.revert_requested", { id: eventId, projectId, reason, onShortfall });
  const params = { eventId: eventId.toLowerCase(), reason, onShortfall };
  return queueJob(work, projectId, { kind: eventRevert, params, createdBy: actor });
};

/** Returns the job that has reverted the event, or will do so. */
const findJob = async (work: Work, projectId: string, eventId: string): Promise<ProjectJob | undefined> => {
  const found = await sql<{ id: string }>`
    select id from project_jobs
    where project_id = ${projectId} and kind = ${eventRevert.kind}
      and params->>'eventId' = ${eventId.toLowerCase()} and status in ('QUEUED', 'RUNNING', 'SUCCEEDED')
    order by id desc limit 1`.execute(work.db);
  const [job] = found.rows;
  return job && getJob(work, { projectId, id: job.id, kinds: [eventRevert.kind] });
};
