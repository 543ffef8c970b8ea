import { sql } from "kysely";
import type { Json } from "../events.ts";
import type { Work } from "../work.ts";

/** A tracked event of a player as it was processed; `at` as evaluation takes it, no later than its arrival. */
export type HistoryEvent = { id: string; type: string; at: number; properties: Json };

/** Rows of one statement. */
const PAGE = 2_000;
const FIRST_ID = "00000000-0000-0000-0000-000000000000";

export type HistorySpan = {
  /** By the event's time: from inclusive, to exclusive. */
  fromMs?: number;
  toMs?: number;
};

type Row = { id: string; event_type: string; properties: Json; at: Date | string };

/**
 * A player's processed events in the order of their arrival, in pages; those of players who were merged into
 * this one are the player's own. Events that wait, have failed, were rejected or taken back are not among them.
 */
export async function* playerHistory(
  { db }: Work,
  { projectId, playerId }: { projectId: string; playerId: string },
  { fromMs, toMs }: HistorySpan = {},
): AsyncGenerator<HistoryEvent[]> {
  const bound = (ms: number | undefined): string | null => (ms === undefined ? null : new Date(ms).toISOString());
  for (let after: string | undefined = FIRST_ID; after !== undefined;) {
    const found: { rows: Row[] } = await sql<Row>`
      select e.id, e.event_type, e.properties, least(e.occurred_at, e.received_at) as at
      from tracked_events e
      where e.project_id = ${projectId} and e.id > ${after}::uuid
        and e.external_user_id in (
          select p.external_user_id from players p
          where p.project_id = ${projectId} and (p.id = ${playerId} or p.merged_into = ${playerId}))
        and (${bound(fromMs)}::timestamptz is null or e.occurred_at >= ${bound(fromMs)}::timestamptz)
        and (${bound(toMs)}::timestamptz is null or e.occurred_at < ${bound(toMs)}::timestamptz)
        and e.event_type not like 'system.%'
        and not exists (select 1 from event_q q where q.project_id = e.project_id and q.event_id = e.id)
        and not exists (select 1 from event_due d where d.project_id = e.project_id and d.event_id = e.id)
        and not exists (select 1 from event_results r where r.project_id = e.project_id and r.event_id = e.id)
      order by e.id limit ${PAGE}`.execute(db);
    after = found.rows.length < PAGE ? undefined : found.rows.at(-1)!.id;
    yield found.rows.map(({ id, event_type, properties, at }) => ({
      id,
      type: event_type,
      at: new Date(at).getTime(),
      properties,
    }));
  }
}
