import { sql } from "kysely";
import { NIL_ID } from "../../kernel/ids.ts";
import type { Json } from "../../kernel/events/events.ts";
import type { Work } from "../../kernel/work.ts";

/** A processed tracked event of a player; `at` is the time used by evaluation, no later than its arrival. */
export type HistoryEvent = { id: string; type: string; at: number; properties: Json };

/** Number of rows per statement. */
const PAGE = 2_000;

export type HistorySpan = {
  /** By the event's time: from inclusive, to exclusive. */
  fromMs?: number;
  toMs?: number;
  /** Only events that arrived after this one. */
  afterId?: string;
};

type Row = { id: string; event_type: string; properties: Json; at: Date | string };

const bound = (ms: number | undefined, otherwise: number): string => {
  if (ms !== undefined) return new Date(ms).toISOString();
  return otherwise < 0 ? "-infinity" : "infinity";
};

/** The limit makes the planner use one look-up per event. */
const rowOf = (table: "event_q" | "event_due" | "event_results") =>
  sql`select 1 from ${sql.ref(table)} x where x.project_id = e.project_id and x.event_id = e.id limit 1`;

const IS_PROCESSED = sql`e.event_type not like 'system.%'
  and (${rowOf("event_q")}) is null and (${rowOf("event_due")}) is null
  and (${rowOf("event_results")}) is null`;

/** Identifies a set of events: their number, and the combination of their ids. */
export type HistoryDigest = { count: number; xor: number };

export const NO_EVENTS: HistoryDigest = { count: 0, xor: 0 };

const HASHED_DIGITS = 8;

/** Returns the digest extended by further events. */
export const withEvents = (
  { count, xor }: HistoryDigest,
  events: readonly Pick<HistoryEvent, "id">[],
): HistoryDigest => ({
  count: count + events.length,
  xor: events.reduce((sum, { id }) => sum ^ Number.parseInt(id.slice(-HASHED_DIGITS), 16), xor),
});

/**
 * Returns the digest of a player's processed events up to `upTo`, as `playerHistory` would return them now.
 */
export const readDigest = async (
  { db }: Work,
  { projectId, playerId, upTo }: { projectId: string; playerId: string; upTo: string },
): Promise<HistoryDigest> => {
  const found = await sql<{ count: string | number; xor: number | null }>`
    select count(*) as count,
      bit_xor(('x' || right(e.id::text, ${sql.lit(HASHED_DIGITS)}))::bit(32)::int) as xor
    from players p
    join tracked_events e on e.project_id = p.project_id and e.external_user_id = p.external_user_id
    where p.project_id = ${projectId} and (p.id = ${playerId} or p.merged_into = ${playerId})
      and e.id <= ${upTo}::uuid and ${IS_PROCESSED}`.execute(db);
  const { count, xor } = found.rows[0]!;
  return { count: Number(count), xor: xor ?? 0 };
};

/**
 * Yields a player's processed events in the order of their arrival, in pages; those of players merged into
 * this one are the player's own. Waiting, failed, rejected and reverted events are left out. Read by the
 * index of players: in the order of ids alone the planner would read every event of the project.
 */
export async function* playerHistory(
  { db }: Work,
  { projectId, playerId }: { projectId: string; playerId: string },
  { fromMs, toMs, afterId = NIL_ID }: HistorySpan = {},
): AsyncGenerator<HistoryEvent[]> {
  for (let after: string | undefined = afterId; after !== undefined;) {
    const found: { rows: Row[] } = await sql<Row>`
      with names as materialized (
        select p.external_user_id as u from players p
        where p.project_id = ${projectId} and (p.id = ${playerId} or p.merged_into = ${playerId}))
      select e.* from names cross join lateral (
        select e.id, e.event_type, e.properties, least(e.occurred_at, e.received_at) as at
        from tracked_events e
        where e.project_id = ${projectId} and e.external_user_id = names.u and e.id > ${after}::uuid
          and e.occurred_at >= ${bound(fromMs, -Infinity)}::timestamptz
          and e.occurred_at < ${bound(toMs, Infinity)}::timestamptz
          and ${IS_PROCESSED}
        order by e.external_user_id, e.id limit ${PAGE}) e
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
