import { type RawBuilder, sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import type { ChatLine } from "../../kernel/events/social-views.ts";

const MESSAGES_AT_ONCE = 1_000;

type Erased = { channel_id: string; seq: number };

/**
 * Clears and anonymizes a page of a person's messages, in channels and in events about them; the rows stay,
 * so that the seqs of a channel have no gap.
 */
export const eraseChat = async (
  work: Work,
  { projectId, ids }: { projectId: string; ids: readonly string[] },
): Promise<{ count: number; isMore: boolean }> => {
  const found = await sql<Erased>`
    with page as materialized (
      select project_id, channel_id, seq, id from chat_messages
      where project_id = ${projectId} and sender_id = any(${`{${ids.join(",")}}`}::uuid[])
      limit ${MESSAGES_AT_ONCE} for update),
    told as (
      update outbox o set data = '{}' from page p where o.project_id = p.project_id and o.id = p.id)
    update chat_messages m set sender_id = null, content = '', original = null, mentions = '{}', flags = '{}',
      client_msg_id = null, deleted_by = coalesce(m.deleted_by, 'SENDER'),
      deleted_at = coalesce(m.deleted_at, ${work.now.toISOString()}::timestamptz)
    from page p
    where m.project_id = p.project_id and m.channel_id = p.channel_id and m.seq = p.seq
    returning m.channel_id, m.seq`.execute(work.db);
  for (const [channelId, rows] of Map.groupBy(found.rows, (row) => row.channel_id)) {
    const lines = rows.map((row): ChatLine => {
      return { name: "chat.deleted", data: { channelId, seq: row.seq, by: "SENDER" } };
    });
    work.emit(projectId, "chat.changed", { channelId, lines });
  }
  return { count: found.rows.length, isMore: found.rows.length === MESSAGES_AT_ONCE };
};

export type Merging = { projectId: string; targetId: string; sourceId: string };

/** Moves the messages and chat settings of a merge's source to the target. */
export const mergeChat = async (work: Work, merging: Merging): Promise<void> => {
  const { projectId, targetId, sourceId } = merging;
  // A clientMsgId that both have used in one channel stays with the target's own message.
  await sql`
    with mine as materialized (
      select channel_id, seq, channel_id::text || ${targetId} || client_msg_id as key from chat_messages
      where project_id = ${projectId} and sender_id = ${sourceId})
    update chat_messages m set sender_id = ${targetId}, client_msg_id = case when exists (
        select 1 from chat_messages x where x.project_id = ${projectId} and x.client_key = mine.key)
      then null else m.client_msg_id end
    from mine where m.project_id = ${projectId} and m.channel_id = mine.channel_id
      and m.seq = mine.seq`.execute(work.db);
  await sql`
    with gone as (
      delete from chat_reactions where project_id = ${projectId} and player_id = ${sourceId} returning *)
    insert into chat_reactions (project_id, channel_id, seq, player_id, emoji, created_at)
    select project_id, channel_id, seq, ${targetId}::uuid, emoji, created_at from gone
    on conflict do nothing`.execute(work.db);
  await renameDirect(work, merging);
  await sql`
    with gone as (
      delete from chat_members where project_id = ${projectId} and player_id = ${sourceId} returning *)
    insert into chat_members as m (project_id, channel_id, player_id, role, last_read_seq, notify, joined_at,
      left_at)
    select project_id, channel_id, ${targetId}::uuid, role, last_read_seq, notify, joined_at, left_at
    from gone
    on conflict (project_id, channel_id, player_id) do update set
      last_read_seq = greatest(m.last_read_seq, excluded.last_read_seq),
      left_at = case when excluded.left_at is null then null else m.left_at end`.execute(work.db);
};

/** Direct channels are found by both ids. If the target has one with the same player, that one stays. */
const renameDirect = async ({ db }: Work, { projectId, targetId, sourceId }: Merging): Promise<void> => {
  await sql`
    update chat_channels c set direct_key = n.key
    from (
      select m.channel_id as id, least(o.player_id::text collate "C", ${targetId}::text) || ':'
          || greatest(o.player_id::text collate "C", ${targetId}::text) as key
      from chat_members m
      join chat_members o on o.project_id = m.project_id and o.channel_id = m.channel_id
        and o.player_id not in (${sourceId}::uuid, ${targetId}::uuid)
      where m.project_id = ${projectId} and m.player_id = ${sourceId}) n
    where c.project_id = ${projectId} and c.id = n.id and c.kind = 'DIRECT'
      and not exists (
        select 1 from chat_channels x where x.project_id = ${projectId} and x.direct_key = n.key)`.execute(
    db,
  );
};

/** Moves sanctions and reports of a merge's source to the target: a merge must not evade a ban. */
export const mergeModeration = async (
  { db }: Work,
  { projectId, targetId, sourceId }: Merging,
): Promise<void> => {
  await sql`
    update chat_sanctions set player_id = ${targetId}
    where project_id = ${projectId} and player_id = ${sourceId}`.execute(db);
  await sql`
    update chat_reports set sender_id = ${targetId}
    where project_id = ${projectId} and sender_id = ${sourceId}`.execute(db);
  // If both have reported the same message, it counts once.
  await sql`
    delete from chat_reports r
    where r.project_id = ${projectId} and r.reporter_id = ${sourceId} and exists (
      select 1 from chat_reports x where x.project_id = r.project_id and x.channel_id = r.channel_id
        and x.seq = r.seq and x.reporter_id = ${targetId})`.execute(db);
  await sql`
    update chat_reports set reporter_id = ${targetId}
    where project_id = ${projectId} and reporter_id = ${sourceId}`.execute(db);
};

type Ids = RawBuilder<unknown>;

/** Erases the texts of reports made by a person or about them; `ids` is an array of UUIDs. */
export const eraseReports = (projectId: string, ids: Ids): RawBuilder<unknown> => sql`
  with about as (
    update chat_reports set note = null
    where project_id = ${projectId} and sender_id = any(${ids}) and note is not null
      and (reporter_id is null or reporter_id <> all(${ids})))
  update chat_reports set note = null where project_id = ${projectId} and reporter_id = any(${ids})
  returning 1`;
