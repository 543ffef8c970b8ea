import { sql } from "kysely";
import { conflict, notFound } from "../kernel/errors.ts";
import { insertWarehouseChanges } from "../kernel/events/warehouse-changes.ts";
import { isId, partitionOf } from "../kernel/ids.ts";
import type { Work } from "../kernel/work.ts";
import { auditEvent } from "./audit-event.ts";
import { readStatuses } from "./events.ts";

/**
 * Requeues a failed event with all its attempts. Of two concurrent requests, one succeeds.
 * @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE for an event that is not FAILED
 */
export const retryEvent = async (work: Work, projectId: string, eventId: string): Promise<void> => {
  const [found] = isId(eventId) ? await readStatuses(work, projectId, [eventId]) : [];
  if (!found) throw notFound("event");
  const freed = await sql<{ external_user_id: string }>`
    with r as (
      delete from event_results
      where project_id = ${projectId} and event_id = ${eventId} and status = 'FAILED' returning event_id),
    c as (${insertWarehouseChanges(projectId, "CHANGED", sql`select event_id as ref from r`)})
    select e.external_user_id from r
    join tracked_events e on e.project_id = ${projectId} and e.id = r.event_id`.execute(work.db);
  const [event] = freed.rows;
  if (!event)
    throw conflict("INVALID_STATE", `the event is ${found.status}; only a FAILED event can be retried`);
  const part = partitionOf(projectId, event.external_user_id);
  await sql`
    insert into event_q (project_id, part, event_id)
    values (${projectId}, ${part}::smallint, ${eventId})`.execute(work.db);
  work.wakeEvents([part]);
  await auditEvent(work, "event.retried", { id: eventId, projectId });
};
