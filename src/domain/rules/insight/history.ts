import { sql } from "kysely";
import { NIL_ID } from "../../kernel/ids.ts";
import type { Json } from "../../kernel/events/events.ts";
import type { Work } from "../../kernel/work.ts";

/** A processed tracked event of a player; `at` is the time used by evaluation, no later than its arrival. */
export type HistoryEvent = { id: string; type: string; at: number; properties: Json };

/** Maximum number of events per statement. */
export const HISTORY_PAGE = 2_000;

export type HistorySpan = {
  /** By the event's time: from inclusive, to exclusive. */
  fromMs?: number;
  toMs?: number;
};

type Row = { o: number; id: string; event_type: string; properties: Json; at: Date | string };

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

/** A player whose history is read, from behind an event on. */
export type HistoryOf = { playerId: string; afterId: string };

/**
 * Returns the processed events of players, in the order of `players` and for each in that of their arrival,
 * `limit` at most; those of players merged into one are the player's own. Waiting, failed, rejected and
 * reverted events are left out. Read by the index of players: in the order of ids alone the planner would
 * read every event of the project. No player's index is read before those of the players before are
 * exhausted.
 * @returns each event with the place of its player in `players`
 */
export const readHistories = async (
  { db }: Work,
  projectId: string,
  players: readonly HistoryOf[],
  { fromMs, toMs, limit }: HistorySpan & { limit: number },
): Promise<{ place: number; event: HistoryEvent }[]> => {
  const wanted = JSON.stringify(players.map(({ playerId, afterId }, o) => ({ o, i: playerId, a: afterId })));
  const { rows } = await sql<Row>`
    with w as materialized (select * from json_to_recordset(${wanted}::json) as w(o int, i uuid, a uuid)),
    names as materialized (
      select w.o, w.a, p.u from w cross join lateral (
        (select p.external_user_id as u from players p
        where p.project_id = ${projectId} and p.id = w.i limit 1)
        union all
        (select p.external_user_id from players p
        where p.project_id = ${projectId} and p.merged_into = w.i offset 0)) p)
    select n.o, e.* from (select * from names order by o) n cross join lateral (
      select e.id, e.event_type, e.properties, least(e.occurred_at, e.received_at) as at
      from tracked_events e
      where e.project_id = ${projectId} and e.external_user_id = n.u and e.id > n.a
        and e.occurred_at >= ${bound(fromMs, -Infinity)}::timestamptz
        and e.occurred_at < ${bound(toMs, Infinity)}::timestamptz
        and ${IS_PROCESSED}
      order by e.external_user_id, e.id limit ${limit}) e
    order by n.o, e.id limit ${limit}`.execute(db);
  return rows.map(({ o, id, event_type, properties, at }) => ({
    place: o,
    event: { id, type: event_type, at: new Date(at).getTime(), properties },
  }));
};

/** Yields a player's processed events in pages, as `readHistories` returns them. */
export async function* playerHistory(
  work: Work,
  { projectId, playerId }: { projectId: string; playerId: string },
  { afterId = NIL_ID, ...span }: HistorySpan & { afterId?: string } = {},
): AsyncGenerator<HistoryEvent[]> {
  for (let after: string | undefined = afterId; after !== undefined;) {
    const of = [{ playerId, afterId: after }];
    const found = await readHistories(work, projectId, of, { ...span, limit: HISTORY_PAGE });
    after = found.length < HISTORY_PAGE ? undefined : found.at(-1)!.event.id;
    yield found.map(({ event }) => event);
  }
}
