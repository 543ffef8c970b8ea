import { type RawBuilder, sql } from "kysely";
import { countRows, type Total } from "../../kernel/counting.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import { orderBy, type Ordered, type SortOf } from "../../kernel/sorting.ts";
import type { Work } from "../../kernel/work.ts";
import { CLOSED_READABLE_MS, isPrivate, type Viewer } from "./access.ts";
import {
  type Channel,
  channelOf,
  type ChannelRow,
  ensureGlobal,
  globalChannelId,
  showChannel,
} from "./channel-row.ts";
import { readNewest } from "./message-view.ts";
import {
  type ChannelKind,
  type ChannelStatus,
  type ChatActor,
  type ChatChannel,
  PUBLIC_KINDS,
} from "../../kernel/events/chat-views.ts";

/** Orders of the list. */
export const CHANNEL_ORDERS = {
  by: { updatedAt: sql`c.updated_at`, createdAt: sql`c.created_at` },
  usual: "desc",
} as const;

export type ListChannels = PageQuery &
  Ordered<SortOf<typeof CHANNEL_ORDERS>> & {
    kind?: ChannelKind | undefined;
    status?: ChannelStatus | undefined;
  };

type Row = ChannelRow & { last_read_seq: string | number | null };

/**
 * Channels of a player: those of the project, those that list them as a member, and those of their lobbies.
 */
const ofPlayer = (projectId: string, playerId: string, now: Date): RawBuilder<unknown> => {
  const readable = sql`${new Date(now.getTime() - CLOSED_READABLE_MS).toISOString()}::timestamptz`;
  return sql`
    c.id in (
      select id from chat_channels
        where project_id = ${projectId} and key is not null and kind = 'PROJECT' and status <> 'ARCHIVED'
      union all
      select m.channel_id from chat_members m
        join chat_channels x on x.project_id = m.project_id and x.id = m.channel_id
        where m.project_id = ${projectId} and m.player_id = ${playerId} and m.left_at is null
          and (x.kind in ('DIRECT', 'GROUP') or x.kind = 'LOBBY' and x.read_only_at > ${readable})
      union all
      select x.id from lobby_members l
        join chat_channels x on x.project_id = l.project_id and x.lobby_id = l.lobby_id
        where l.project_id = ${projectId} and l.player_id = ${playerId} and l.role = 'PLAYER'
          and l.status in ('JOINED', 'READY', 'DISCONNECTED') and x.read_only_at is null)`;
};

/** Channels visible without a player: private ones only for moderators. */
const ofOutsider = (isModerator: boolean): RawBuilder<unknown> =>
  isModerator
    ? sql`true`
    : sql`c.kind in (select json_array_elements_text(${JSON.stringify(PUBLIC_KINDS)}::json))`;

/** In a private channel the newest message is shown to members alone: others must read it explicitly. */
const newestOf = async (
  work: Work,
  projectId: string,
  channels: readonly Channel[],
  viewer: Viewer,
): Promise<(channel: Channel) => Pick<ChatChannel, "lastMessage">> => {
  const open = channels.filter((channel) => viewer.playerId !== null || !isPrivate(channel));
  const newest = await readNewest(work, projectId, open, viewer);
  return (channel) => (open.includes(channel) ? { lastMessage: newest.get(channel.id) ?? null } : {});
};

/**
 * Lists the channels that `actor` may read, the last changed first: for players their own with unread counts,
 * for servers and console users the project's public ones, for moderators all. Spectators find their lobby's
 * channel through the lobby.
 */
export const listChannels = async (
  work: Work,
  projectId: string,
  actor: ChatActor,
  query: ListChannels,
): Promise<Total & { channels: ChatChannel[] }> => {
  const { kind, status } = query;
  const playerId = actor.kind === "PLAYER" ? actor.playerId : null;
  const isModerator = actor.kind === "ADMIN" || (actor.kind === "SERVER" && actor.isModerator);
  await needGlobal(work, projectId);
  const source = sql`chat_channels c
    left join chat_members m on m.project_id = ${projectId} and m.channel_id = c.id
      and m.player_id = ${playerId}::uuid
    where c.project_id = ${projectId}
      and ${playerId === null ? ofOutsider(isModerator) : ofPlayer(projectId, playerId, work.now)}
      and ${kind === undefined ? sql`true` : sql`c.kind = ${kind}`}
      and ${status === undefined ? sql`true` : sql`c.status = ${status}`}`;
  const page = await sql<Row>`
    select c.id, c.kind, c.key, c.name, c.lobby_id, c.settings, c.status, c.last_seq, c.read_only_at,
      c.created_at, m.last_read_seq
    from ${source} order by ${orderBy(CHANNEL_ORDERS, query, sql`c.id`)} limit ${query.limit}
    offset ${offsetOf(query)}`.execute(work.db);
  const channels = page.rows.map((row) => channelOf(projectId, row));
  const newest = await newestOf(work, projectId, channels, { playerId, isModerator });
  return {
    channels: channels.map((channel, i) => {
      const shown = { ...showChannel(channel), ...newest(channel) };
      const read = Number(page.rows[i]!.last_read_seq ?? 0);
      return playerId === null ? shown : { ...shown, unread: Math.max(0, channel.lastSeq - read) };
    }),
    ...(await countRows(work, source)),
  };
};

const needGlobal = async (work: Work, projectId: string): Promise<void> => {
  const found = await sql`
    select 1 from chat_channels
    where project_id = ${projectId} and id = ${globalChannelId(projectId)}`.execute(work.db);
  if (found.rows.length === 0) await ensureGlobal(work, projectId);
};
