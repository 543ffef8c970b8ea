import { type RawBuilder, sql } from "kysely";
import { OUTBOX_LINES } from "../../kernel/outbox-lines.ts";
import { storedBytes } from "../../kernel/stored-bytes.ts";
import type { Work } from "../../kernel/work.ts";
import { EVENT_STATUS } from "../../tracking/events.ts";

/** Records that one statement reads, and the bytes of their properties and effects as stored. */
const RECORDS_AT_ONCE = 500;
const BYTES_AT_ONCE = 4 * 1024 * 1024;

/** A line of a file without its version; `id` is that of its event or merge. */
export type Line = { id: string; text: string };

/** An instant as text: ISO 8601 with ms, in UTC. */
export const iso = (of: string): RawBuilder<string> =>
  sql.raw(`to_char(${of} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`);

/** What players were told, which is what an event shows as its effects. */
const EFFECTS = sql`coalesce((
  select json_agg(json_build_object('id', o.id, 'type', o.type, 'playerId', o.player_id, 'seq', o.player_seq,
    'at', ${iso("o.created_at")}, 'data', o.data) order by o.id)
  from ${OUTBOX_LINES} o
  where o.project_id = e.project_id and o.event_id = e.id and o.player_seq is not null), '[]')`;

const LEDGER = sql`coalesce((
  select json_agg(json_build_object('playerId', l.player_id, 'seq', l.seq, 'asset', l.asset,
    'currency', l.currency_key, 'amount', l.amount, 'balanceAfter', l.balance_after,
    'kind', l.cause->>'kind', 'ruleKey', l.cause->>'ruleKey', 'at', ${iso("l.created_at")})
    order by l.player_id, l.seq)
  from ledger_entries l where l.project_id = e.project_id and l.event_id = e.id), '[]')`;

const LINE = sql`json_build_object(
  'eventId', e.id, 'projectId', e.project_id, 'eventType', e.event_type,
  'playerId', p.id, 'externalUserId', e.external_user_id,
  'occurredAt', ${iso("e.occurred_at")}, 'receivedAt', ${iso("e.received_at")},
  'source', case when e.event_type = 'system.schedule' then 'SCHEDULE'
    when starts_with(e.event_type, 'system.') then 'SYSTEM' else 'API' end,
  'idempotencyKey', e.idempotency_key, 'properties', e.properties,
  'status', ${EVENT_STATUS}, 'error', r.error, 'effects', ${EFFECTS}, 'ledger', ${LEDGER})::text`;

const BYTES = sql`${storedBytes("e.properties")} + coalesce((
  select sum(coalesce(o.bytes, octet_length(o.data::text))) from ${OUTBOX_LINES} o
  where o.project_id = e.project_id and o.event_id = e.id and o.player_seq is not null), 0)`;

/** Reads the records of the events that `where` selects, by id, as many as fit into a page. */
const readLines = async ({ db }: Work, projectId: string, where: RawBuilder<unknown>): Promise<Line[]> => {
  const { rows } = await sql<Line>`
    with page as materialized (
      select e.id, ${BYTES} as bytes from tracked_events e
      where e.project_id = ${projectId}::uuid and ${where}
      order by e.id limit ${sql.lit(RECORDS_AT_ONCE)}),
    summed as (select id, bytes, sum(bytes) over (order by id) as upto from page)
    select e.id::text as id, ${LINE} as text
    from summed s
    join tracked_events e on e.project_id = ${projectId}::uuid and e.id = s.id
    left join players p on p.project_id = e.project_id and p.external_user_id = e.external_user_id
    left join event_q q on q.project_id = e.project_id and q.event_id = e.id
    left join event_due w on w.project_id = e.project_id and w.event_id = e.id
    left join event_results r on r.project_id = e.project_id and r.event_id = e.id
    where s.upto <= ${sql.lit(BYTES_AT_ONCE)} or s.upto = s.bytes
    order by e.id`.execute(db);
  return rows;
};

/** A page of ids: after one and before another. */
export type IdPage = { after: string; until: string };

/** Reads the records of a page of events by id; none: it was the last. */
export const readEventLines = (work: Work, projectId: string, { after, until }: IdPage): Promise<Line[]> =>
  readLines(work, projectId, sql`e.id > ${after}::uuid and e.id < ${until}::uuid`);

/** Reads the records of some of the events; the others are left for the next call. */
export const readLinesOf = (work: Work, projectId: string, eventIds: readonly string[]): Promise<Line[]> =>
  readLines(work, projectId, sql`e.id = any(${`{${eventIds.join(",")}}`}::uuid[])`);

/** Returns the ids behind those that were read; without any, none of the rest exists. */
export const restAfter = (ids: readonly string[], read: readonly Line[]): string[] => {
  const last = read.at(-1)?.id;
  return last === undefined ? [] : ids.filter((id) => id > last);
};

/** Reads the records of merges. */
export const readMergeLines = async (
  { db }: Work,
  projectId: string,
  ids: readonly string[],
): Promise<Line[]> => {
  const { rows } = await sql<Line>`
    select m.id::text as id, json_build_object('mergeId', m.id, 'projectId', m.project_id,
      'sourcePlayerId', m.source_id, 'targetPlayerId', m.target_id,
      'at', ${iso("m.created_at")})::text as text
    from player_merges m
    where m.project_id = ${projectId}::uuid and m.id = any(${`{${ids.join(",")}}`}::uuid[])
    order by m.id`.execute(db);
  return rows;
};
