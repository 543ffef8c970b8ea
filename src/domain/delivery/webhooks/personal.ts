import { sql } from "kysely";
import { renameIn } from "../../social/chat/context.ts";
import { type Person, texts, uuids } from "../../players/player-refs.ts";
import type { Work } from "../../kernel/work.ts";
import { deliveryId, ERASED_ERROR, ERASURE_TYPE } from "./plan.ts";

/** Number of a feed's events per page. */
const EVENTS_AT_ONCE = 2_000;
/** Maximum number of deliveries changed per statement. */
const DELIVERIES_AT_ONCE = 5_000;

/**
 * Number of events and deliveries that an erasure has cleared, and where it continues; undefined at the end.
 */
type ErasedPage = { events: number; deliveries: number; after: number | undefined };

/** The erased person, and until when the names were theirs: somebody new may have them since. */
export type Erased = Person & { erasedAt: string };

/**
 * Clears the events of a page of the project's feed that concern a person, by id or name. Their pending
 * deliveries are cancelled, and endpoints' responses are deleted. The lines of the feed stay, so that its
 * seqs have no gap, and so does `player.erased`.
 */
export const eraseWebhookEvents = async (work: Work, person: Erased, after: number): Promise<ErasedPage> => {
  const page = await erasePage(work, person, after);
  if (page.isMore) return { ...page, after: page.last };
  // A transaction that is adding to the feed may have begun before the person was erased: wait for it.
  await sql`
    select from webhook_feeds where project_id = ${person.projectId}::uuid for no key update`.execute(
    work.db,
  );
  const rest = await erasePage(work, person, page.last);
  const [events, deliveries] = [page.events + rest.events, page.deliveries + rest.deliveries];
  return { events, deliveries, after: rest.isMore ? rest.last : undefined };
};

type Found = {
  seq: number;
  id: string;
  at: string;
  /** A chat message that may mention the person; null where the event is theirs in any case. */
  content: string | null;
};
type Page = { events: number; deliveries: number; last: number; isMore: boolean };

const erasePage = async (work: Work, person: Erased, after: number): Promise<Page> => {
  const { found, seen, last } = await readPage(work, person, after);
  const isName = (name: string): boolean => person.names.includes(name);
  const theirs = found.filter(({ content }) => content === null || renameIn(content, isName, "") !== content);
  const deliveries = theirs.length === 0 ? 0 : await emptyEvents(work, person, theirs);
  return { events: theirs.length, deliveries, last: last ?? after, isMore: seen === EVENTS_AT_ONCE };
};

/**
 * Reads a page of the feed, and which of its events are the person's: by the primary key, and without bodies.
 */
const readPage = async (
  { db }: Work,
  { projectId, ids, names, erasedAt }: Erased,
  after: number,
): Promise<{ found: Found[]; seen: number; last: number | undefined }> => {
  const quoted = names.map((name) => JSON.stringify(name));
  const result = await sql<{ found: Found[]; seen: number; last: number | null }>`
    with page as materialized (
      select seq, id, type, players, body, created_at from webhook_events
      where project_id = ${projectId}::uuid and seq > ${after} order by seq limit ${EVENTS_AT_ONCE}),
    looked as (
      select p.seq, p.id, p.created_at as at, p.type, p.body, p.players && ${uuids(ids)} or (
          p.created_at <= ${erasedAt}::timestamptz and exists (
            select from unnest(${texts(quoted)}) as n(name)
            where position(n.name in p.body) > 0)) as is_theirs,
        case when p.type = 'chat.message_sent' and p.created_at <= ${erasedAt}::timestamptz
          then p.body::json #>> '{data,content}' end as content
      from page p where p.body is not null and p.type <> ${ERASURE_TYPE}),
    found as (
      select l.seq, l.id, l.at, case when not l.is_theirs then l.content end as content from looked l
      where l.is_theirs or exists (
        select from unnest(${texts(names)}) as n(name) where position('@' || n.name in l.content) > 0))
    select coalesce((select json_agg(f) from found f), '[]') as found, (select count(*) from page) as seen,
      (select max(seq) from page) as last`.execute(db);
  const { found, seen, last } = result.rows[0]!;
  return { found, seen, last: last ?? undefined };
};

/** @returns the number of their deliveries */
const emptyEvents = async (work: Work, { projectId }: Erased, events: readonly Found[]): Promise<number> => {
  const seqs = `{${events.map(({ seq }) => seq).join(",")}}`;
  await sql`
    update webhook_events set body = null
    where project_id = ${projectId}::uuid and seq = any(${seqs}::bigint[])`.execute(work.db);
  // Including deleted ones: what was sent to them is still kept.
  const webhooks = await sql<{ id: string }>`
    select w.id from webhooks w join projects p on p.tenant_id = w.tenant_id
    where p.id = ${projectId}::uuid`.execute(work.db);
  const rows = webhooks.rows.flatMap(({ id: w }) =>
    events.map(({ id, at }) => ({ w, i: deliveryId(w, { id, createdAt: new Date(at) }) })),
  );
  let count = 0;
  for (let from = 0; from < rows.length; from += DELIVERIES_AT_ONCE)
    count += await endDeliveries(work, rows.slice(from, from + DELIVERIES_AT_ONCE));
  return count;
};

const endDeliveries = async (
  { db, now }: Work,
  rows: readonly { w: string; i: string }[],
): Promise<number> => {
  const ended = await sql`
    update webhook_deliveries d set
      status = case when d.status = 'pending' then 'failed' else d.status end,
      error = case when d.status = 'pending' then ${ERASED_ERROR} else d.error end,
      due_at = null, next_attempt_at = null, updated_at = ${now.toISOString()}::timestamptz,
      log = coalesce((
        select jsonb_agg(a.it || '{"responseBody": null}' order by a.n)
        from jsonb_array_elements(d.log) with ordinality as a(it, n)), '[]')
    from json_to_recordset(${JSON.stringify(rows)}::json) as x(w uuid, i uuid)
    where d.webhook_id = x.w and d.id = x.i
    returning 1`.execute(db);
  return ended.rows.length;
};
