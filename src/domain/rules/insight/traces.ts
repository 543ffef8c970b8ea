import { sql } from "kysely";
import { DomainError, notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import type { EventTrace } from "../../evaluation/trace/trace.ts";

const NO_TRACE =
  "the event has no trace: it was not sampled (settings.traceSampling), waits to be processed, or is too old";

/**
 * Returns the stored trace of an event. @throws DomainError NOT_FOUND: no such event, or it was not sampled
 */
export const getTrace = async (
  { db, now }: Work,
  projectId: string,
  eventId: string,
): Promise<EventTrace> => {
  if (!isId(eventId)) throw notFound("event");
  const found = await sql<{ trace: EventTrace | null }>`
    select t.trace from tracked_events e
    left join event_traces t on t.project_id = e.project_id and t.event_id = e.id
      and t.expires_at > ${now.toISOString()}::timestamptz
    where e.project_id = ${projectId} and e.id = ${eventId}`.execute(db);
  const [row] = found.rows;
  if (!row) throw notFound("event");
  if (!row.trace) throw new DomainError("NOT_FOUND", NO_TRACE);
  return row.trace;
};
