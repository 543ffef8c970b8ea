import { type RawBuilder, sql } from "kysely";
import { type Read, readWithin, statementOf } from "../../kernel/read.ts";
import type { Work } from "../../kernel/work.ts";
import type { Viewer } from "./access.ts";
import type { Channel } from "./channel-row.ts";
import type { ChatMessage, ChatRole, Moderation } from "../../kernel/events/chat-views.ts";

/** A stored message with its sender and its reactions. */
export type MessageRow = {
  seq: string | number;
  id: string;
  sender_id: string | null;
  type: ChatMessage["type"];
  content: string;
  mentions: string[];
  reply_to: string | number | null;
  client_msg_id: string | null;
  moderation: Moderation;
  is_shadowed: boolean;
  edited_at: Date | string | null;
  deleted_at: Date | string | null;
  created_at: Date | string;
  external_user_id: string | null;
  display_name: string | null;
  role: ChatRole | null;
  reactions: ChatMessage["reactions"] | null;
};

/** A row read for several players at once: `by` names those of them who have reacted. */
export type SharedRow = Omit<MessageRow, "reactions"> & {
  reactions: { emoji: string; count: number; by: string[] }[] | null;
};

/** Reactions to `m`, oldest first. */
const reactionsOf = (playerIds: readonly string[]) => sql`
  (select json_agg(json_build_object('emoji', r.emoji, 'count', r.n, 'by', r.by)
      order by r.first, r.emoji)
    from (select emoji, count(*)::int as n, min(created_at) as first,
        coalesce(json_agg(player_id) filter (where player_id = any(${`{${playerIds.join(",")}}`}::uuid[])),
          '[]'::json) as by
      from chat_reactions x
      where x.project_id = m.project_id and x.channel_id = m.channel_id and x.seq = m.seq
      group by emoji) r)`;

/** The columns of SharedRow, of `m` in a project. */
const rowsOf = (projectId: string, playerIds: readonly string[]) => sql`
    select m.seq, m.id, m.sender_id, m.type, m.content, to_jsonb(m.mentions) as mentions, m.reply_to,
      m.client_msg_id, m.moderation, m.is_shadowed, m.edited_at, m.deleted_at, m.created_at,
      p.external_user_id, p.display_name, cm.role, ${reactionsOf(playerIds)} as reactions
    from chat_messages m
    left join players p on p.project_id = m.project_id and p.id = m.sender_id
    left join chat_members cm on cm.project_id = m.project_id and cm.channel_id = m.channel_id
      and cm.player_id = m.sender_id
    where m.project_id = ${projectId}`;

/** Reads rows of a channel for several players; `where` refers to `m`, and ends with order and limit. */
export const readSharedRows = (
  read: Read,
  { projectId, id }: Pick<Channel, "projectId" | "id">,
  playerIds: readonly string[],
  where: RawBuilder<unknown>,
): Promise<SharedRow[]> =>
  read<SharedRow>(statementOf(sql`${rowsOf(projectId, playerIds)} and m.channel_id = ${id} and ${where}`));

const listOf = ({ playerId }: Viewer): string[] => (playerId === null ? [] : [playerId]);

/** Returns a row as one of those players sees it. */
export const rowFor = ({ reactions, ...row }: SharedRow, { playerId }: Viewer): MessageRow => {
  const mine = (by: readonly string[]): boolean => playerId !== null && by.includes(playerId);
  const own = reactions?.map(({ emoji, count, by }) => ({ emoji, count, mine: mine(by) })) ?? null;
  return { ...row, reactions: own };
};

/** Reads rows of a channel; `where` refers to `m`, and ends with order and limit. */
export const readRows = async (
  work: Work,
  channel: Pick<Channel, "projectId" | "id">,
  viewer: Viewer,
  where: RawBuilder<unknown>,
): Promise<MessageRow[]> => {
  const rows = await readSharedRows(readWithin(work), channel, listOf(viewer), where);
  return rows.map((row) => rowFor(row, viewer));
};

/** Returns the newest message of each channel, as `viewer` may see it, in one statement; by channel id. */
export const readNewest = async (
  work: Work,
  projectId: string,
  channels: readonly { id: string; lastSeq: number }[],
  viewer: Viewer,
): Promise<Map<string, ChatMessage>> => {
  if (channels.length === 0) return new Map();
  const asked = JSON.stringify(channels.map(({ id, lastSeq }) => ({ c: id, s: lastSeq })));
  const found = await sql<SharedRow & { channel_id: string }>`
    select x.*, r.c as channel_id from json_to_recordset(${asked}::json) as r(c uuid, s bigint)
    join lateral (${rowsOf(projectId, listOf(viewer))} and m.channel_id = r.c and m.seq = r.s) x
      on true`.execute(work.db);
  return new Map(
    found.rows.map((row) => [row.channel_id, showMessage(row.channel_id, rowFor(row, viewer), viewer)]),
  );
};

const timeOf = (value: Date | string | null): string | null =>
  value === null ? null : new Date(value).toISOString();

type Shown = Pick<MessageRow, "sender_id" | "moderation" | "is_shadowed">;

/** Whether only the sender and moderators may see a message's content. */
export const isHidden = ({ moderation, is_shadowed: isShadowed }: Shown): boolean =>
  isShadowed || moderation === "HELD";

/** Whether `viewer` may not see the message's content. */
export const isHiddenFrom = (row: Shown, { playerId, isModerator }: Viewer): boolean =>
  isHidden(row) && !isModerator && (playerId === null || row.sender_id !== playerId);

const senderOf = (row: MessageRow): ChatMessage["sender"] =>
  row.sender_id === null || row.external_user_id === null
    ? null
    : {
        playerId: row.sender_id,
        externalUserId: row.external_user_id,
        displayName: row.display_name,
        role: row.role ?? "MEMBER",
      };

/** Builds the placeholder of a message that not everybody may see: its seq, without any content. */
export const tombstoneOf = (message: ChatMessage, isShadowed: boolean): ChatMessage => {
  const { clientMsgId: _, ...shared } = message;
  return {
    ...shared,
    content: "",
    mentions: [],
    replyTo: null,
    reactions: [],
    // A shadowed one looks like a message deleted by its sender.
    moderation: isShadowed ? "VISIBLE" : "HELD",
    editedAt: null,
    deletedAt: isShadowed ? message.createdAt : null,
  };
};

/** Returns a message as `viewer` may see it. */
export const showMessage = (channelId: string, row: MessageRow, viewer: Viewer): ChatMessage => {
  const isOwn = viewer.playerId !== null && row.sender_id === viewer.playerId;
  const message: ChatMessage = {
    id: row.id,
    channelId,
    seq: Number(row.seq),
    sender: senderOf(row),
    type: row.type,
    content: row.deleted_at === null ? row.content : "",
    mentions: row.deleted_at === null ? row.mentions : [],
    replyTo: row.reply_to === null ? null : Number(row.reply_to),
    reactions: row.reactions ?? [],
    moderation: row.moderation,
    editedAt: timeOf(row.edited_at),
    deletedAt: timeOf(row.deleted_at),
    createdAt: timeOf(row.created_at)!,
    ...(isOwn && row.client_msg_id !== null ? { clientMsgId: row.client_msg_id } : {}),
  };
  return isHiddenFrom(row, viewer) ? tombstoneOf(message, row.is_shadowed) : message;
};
