import { sql } from "kysely";
import { NIL_ID } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { MENTION_TYPE } from "./mentions.ts";
import { renameIn } from "./text.ts";

/** Number of a project's messages examined per step. */
const LOOKED_AT_ONCE = 5_000;
/** Number of inbox messages deleted per step. */
const INBOX_AT_ONCE = 1_000;
/** Replacement for a name: `@erased`. */
const ERASED = "erased";
const FIRST = [NIL_ID, 0] as const;

type Row = {
  channel_id: string;
  seq: string | number;
  id: string;
  content: string | null;
  original: string | null;
};

/** As a parameter of `unnest()`; the texts may contain any characters. */
const texts = (values: readonly string[]) =>
  sql`array(select json_array_elements_text(${JSON.stringify(values)}::json))`;

/**
 * Removes the names of a person from a page of others' messages that mention them, `@name`; the messages and
 * their events stay.
 * @returns how many have changed, and where the next page begins
 */
export const eraseMentions = async (
  { db }: Work,
  { projectId, names }: { projectId: string; names: readonly string[] },
  after: readonly (string | number)[],
): Promise<{ count: number; after: (string | number)[] | undefined }> => {
  const [channelId, seq] = after.length === 2 ? after : FIRST;
  const found = await sql<Row>`
    with page as materialized (
      select channel_id, seq, id, content, original from chat_messages
      where project_id = ${projectId} and (channel_id, seq) > (${channelId}::uuid, ${seq}::bigint)
      order by channel_id, seq limit ${LOOKED_AT_ONCE})
    select p.channel_id, p.seq, p.id, case when named.it then p.content end as content,
      case when named.it then p.original end as original
    from page p cross join lateral (
      select exists (select 1 from unnest(${texts(names)}) as n(name)
        where position('@' || n.name in p.content || ' ' || coalesce(p.original, '')) > 0) as it) named
    order by p.channel_id, p.seq`.execute(db);
  const isName = (name: string): boolean => names.includes(name);
  const changed = found.rows.flatMap(({ channel_id: c, seq: s, id, content, original }) =>
    content === null
      ? []
      : [
          {
            c,
            s: Number(s),
            i: id,
            t: renameIn(content, isName, ERASED),
            o: original === null ? null : renameIn(original, isName, ERASED),
          },
        ],
  );
  if (changed.length > 0)
    await sql`
      with x as materialized (
        select * from json_to_recordset(${JSON.stringify(changed)}::json)
          as x(c uuid, s bigint, i uuid, t text, o text)),
      told as (
        update outbox o set data = case
            when o.type = 'chat.message_sent' then jsonb_set(o.data, '{content}', to_jsonb(x.t), false)
            else jsonb_set(o.data, '{lines}', coalesce((
              select jsonb_agg(jsonb_set(l, '{data,content}', to_jsonb(x.t), false))
              from jsonb_array_elements(o.data->'lines') as l), '[]')) end
        from x where o.project_id = ${projectId} and o.id = x.i
          and (o.type = 'chat.message_sent' or o.type = 'chat.changed' and o.data ? 'lines'))
      update chat_messages m set content = x.t, original = x.o from x
      where m.project_id = ${projectId} and m.channel_id = x.c and m.seq = x.s`.execute(db);
  const last = found.rows.length === LOOKED_AT_ONCE ? found.rows.at(-1)! : undefined;
  return { count: changed.length, after: last && [last.channel_id, Number(last.seq)] };
};

/**
 * Deletes a page of the inbox messages that the person's mentions have created for others, whose streams keep
 * their seqs.
 * @returns whether there may be more
 */
export const eraseInboxMessages = async (
  { db }: Work,
  { projectId, ids }: { projectId: string; ids: readonly string[] },
): Promise<boolean> => {
  const inboxMessages = await sql`
    delete from inbox_messages where ctid = any(array(
      select ctid from inbox_messages
      where project_id = ${projectId} and type = ${sql.lit(MENTION_TYPE)}
        and data->>'playerId' = any(${texts(ids)}) limit ${INBOX_AT_ONCE})) returning 1`.execute(db);
  const lines = await sql`
    update outbox set data = data || '{"title": "erased", "body": null, "data": {}}'
    where project_id = ${projectId} and id = any(array(
      select id from outbox
      where project_id = ${projectId} and type = 'inbox.message'
        and data->>'type' = ${sql.lit(MENTION_TYPE)}
        and data->'data'->>'playerId' = any(${texts(ids)}) limit ${INBOX_AT_ONCE})) returning 1`.execute(db);
  return Math.max(inboxMessages.rows.length, lines.rows.length) === INBOX_AT_ONCE;
};
