import { sql } from "kysely";
import { CHANNEL_KINDS, type ChannelKind, type ChannelSettings } from "../../kernel/events/social-views.ts";
import { NIL_ID } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";

const COMMON: ChannelSettings = {
  slowModeSeconds: 0,
  maxLength: 500,
  links: "BLOCK",
  allowedDomains: [],
  profanity: "MASK",
  reactions: true,
  mentions: "ALL",
  readOnly: false,
  minLevelToPost: 0,
  minAccountAgeSeconds: 0,
  retentionDays: 90,
  editWindowSeconds: 900,
  burstMessages: 5,
  minuteMessages: 30,
};

const BY_KIND: Readonly<Record<ChannelKind, Partial<ChannelSettings>>> = {
  PROJECT: { slowModeSeconds: 2 },
  LOBBY: {},
  DIRECT: { links: "ALLOW_LIST", retentionDays: 365 },
  GROUP: { retentionDays: 365 },
};

/** Merges explicit settings with the defaults of the kind. */
export const settingsFor = (kind: ChannelKind, given: Partial<ChannelSettings>): ChannelSettings => ({
  ...COMMON,
  ...BY_KIND[kind],
  ...given,
});

/** Returns the default retention of a kind, in days. */
const retentionDaysOf = (kind: ChannelKind): number => settingsFor(kind, {}).retentionDays;

/** Number of channels per transaction. */
const CHANNELS_AT_ONCE = 500;
/** Maximum number of messages deleted from one channel per transaction. */
const MESSAGES_AT_ONCE = 200;

/** Position of a sweep over all channels. */
export type RetentionCursor = { projectId: string; channelId: string };
export const FIRST_CHANNEL: RetentionCursor = {
  projectId: NIL_ID,
  channelId: NIL_ID,
};

type Row = { project_id: string; channel_id: string; is_over: boolean; gone: number };

/** Retention days of a channel `c`: its own setting, otherwise that of its kind. */
const days = () => {
  const kinds = CHANNEL_KINDS.map((kind) => sql`when ${kind} then ${retentionDaysOf(kind)}::int`);
  return sql`coalesce((c.settings->>'retentionDays')::int, case c.kind ${sql.join(kinds, sql` `)} end)`;
};

/** A message `m` with an open report is kept until the report is closed. */
const isReported = sql`exists (select 1 from chat_reports r
  where r.project_id = m.project_id and r.channel_id = m.channel_id and r.seq = m.seq
    and r.status in ('OPEN', 'IN_REVIEW'))`;

/**
 * Deletes expired messages of a page of channels, with their reactions and outbox rows: by `retentionDays`,
 * and everything in a closed lobby's channel after its period, the channel last.
 * @returns where to continue; undefined after the last channel
 */
export const pruneChannels = async (
  { db, now }: Work,
  after: RetentionCursor,
): Promise<RetentionCursor | undefined> => {
  const at = sql`${now.toISOString()}::timestamptz`;
  const found = await sql<Row>`
    with page as materialized (
      select c.project_id, c.id, c.delete_at is not null and c.delete_at <= ${at} as is_over,
        ${at} - make_interval(days => ${days()}) as oldest
      from chat_channels c
      where (c.project_id, c.id) > (${after.projectId}::uuid, ${after.channelId}::uuid)
      order by c.project_id, c.id limit ${CHANNELS_AT_ONCE}),
    old as materialized (
      select m.project_id, m.channel_id, m.seq, m.id from page p
      cross join lateral (
        select m.created_at from chat_messages m
        where m.project_id = p.project_id and m.channel_id = p.id and not ${isReported}
        order by m.seq limit 1) first
      cross join lateral (
        select m.project_id, m.channel_id, m.seq, m.id, m.created_at from chat_messages m
        where m.project_id = p.project_id and m.channel_id = p.id and not ${isReported}
        order by m.seq limit ${MESSAGES_AT_ONCE}) m
      where p.is_over or (first.created_at < p.oldest and m.created_at < p.oldest)),
    reactions as (
      delete from chat_reactions r using old o
      where r.project_id = o.project_id and r.channel_id = o.channel_id and r.seq = o.seq),
    told as (
      delete from outbox x using old o where x.project_id = o.project_id and x.id = o.id),
    messages as (
      delete from chat_messages m using old o
      where m.project_id = o.project_id and m.channel_id = o.channel_id and m.seq = o.seq
      returning m.channel_id)
    select p.project_id, p.id as channel_id, p.is_over,
      (select count(*) from messages d where d.channel_id = p.id) as gone
    from page p order by p.project_id, p.id`.execute(db);
  // A separate statement, because only it sees which channels are empty now.
  const over = found.rows.filter((row) => row.is_over);
  if (over.length > 0) await deleteEmpty(db, over);
  const full = found.rows.find(({ gone }) => gone === MESSAGES_AT_ONCE);
  if (full) return before(found.rows, full, after);
  const last = found.rows.length === CHANNELS_AT_ONCE ? found.rows.at(-1)! : undefined;
  return last && cursorOf(last);
};

const cursorOf = (row: Row): RetentionCursor => ({ projectId: row.project_id, channelId: row.channel_id });

/** Returns the position before a channel that has more messages to delete. */
const before = (rows: readonly Row[], row: Row, after: RetentionCursor): RetentionCursor => {
  const previous = rows[rows.indexOf(row) - 1];
  return previous ? cursorOf(previous) : after;
};

const deleteEmpty = async (db: Work["db"], channels: readonly Row[]): Promise<void> => {
  const keys = JSON.stringify(channels.map((row) => ({ p: row.project_id, c: row.channel_id })));
  await sql`
    with gone as (
      delete from chat_channels c
      using json_to_recordset(${keys}::json) as k(p uuid, c uuid)
      where c.project_id = k.p and c.id = k.c and not exists (
        select 1 from chat_messages m where m.project_id = k.p and m.channel_id = k.c)
      returning c.project_id, c.id)
    delete from chat_members m using gone g
    where m.project_id = g.project_id and m.channel_id = g.id`.execute(db);
};
