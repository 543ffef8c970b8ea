import { sql } from "kysely";
import type { Json } from "../kernel/events/events.ts";
import type { Work } from "../kernel/work.ts";
import type { RevertedEvent } from "./record.ts";
import { tooLarge } from "./too-large.ts";

type EventRow = {
  id: string;
  root_id: string;
  event_type: string;
  external_user_id: string;
  properties: Json;
  occurred_at: Date | string;
  received_at: Date | string;
  rows_read: string | number;
};

const eventOf = (row: EventRow): RevertedEvent => {
  const receivedMs = new Date(row.received_at).getTime();
  return {
    id: row.id,
    rootId: row.root_id,
    type: row.event_type,
    at: Math.min(new Date(row.occurred_at).getTime(), receivedMs),
    receivedMs,
    properties: row.properties,
    externalUserId: row.external_user_id,
  };
};

/**
 * Maximum number of events that those reverted together may have sent directly and indirectly; more are too
 * much for one transaction.
 */
export const SENT_EVENTS_MAX = 1_000;

/**
 * Reads events and all events that they have sent to other players or later times, directly and indirectly,
 * in the order of their arrival. An event that another of them has sent has that one as its root.
 * @throws DomainError CONFLICT EVENT_TOO_LARGE
 */
export const readEvents = async (
  { db }: Work,
  projectId: string,
  eventIds: readonly string[],
): Promise<RevertedEvent[]> => {
  const most = SENT_EVENTS_MAX + eventIds.length - 1;
  // An event comes once for each of those that it descends from.
  const rowsMax = 2 * most;
  const found = await sql<EventRow>`
    with recursive sent(id, root, n) as (
      select u.id, u.id, 0 from unnest(${`{${eventIds.join(",")}}`}::uuid[]) as u(id)
      union
      select e.id, s.root, s.n + 1 from sent s cross join lateral (
        select e.id from tracked_events e
        where e.project_id = ${projectId} and e.properties->>'rootEventId' = s.id::text
          and e.event_type in ('system.grant', 'system.delayed_action') limit ${most + 1}) e
      where s.n < 10),
    read as materialized (select id, root from sent limit ${rowsMax + 1}),
    own as (select id, min(root::text)::uuid as root_id from read group by id)
    select e.id, own.root_id, e.event_type, e.external_user_id, e.properties, e.occurred_at, e.received_at,
      (select count(*) from read) as rows_read
    from own join tracked_events e on e.project_id = ${projectId} and e.id = own.id
    order by e.id`.execute(db);
  const [first] = found.rows;
  if (found.rows.length > most || Number(first?.rows_read ?? 0) > rowsMax)
    throw tooLarge(`it has reached more than ${SENT_EVENTS_MAX} others`);
  return found.rows.map(eventOf);
};
