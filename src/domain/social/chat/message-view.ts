import { type RawBuilder, sql } from "kysely";
import { audit } from "../../accounts/audit/audit.ts";
import { tenantOf } from "../../kernel/caller.ts";
import { conflict, forbidden, invalid, notFound, numbered } from "../../kernel/errors.ts";
import type {
  ChatActor,
  ChatLine,
  ChatMessage,
  ChatRole,
  Moderation,
} from "../../kernel/events/social-views.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import { type Read, readWithin, statementOf } from "../../kernel/read.ts";
import { unanswered } from "../../kernel/statements.ts";
import type { Work } from "../../kernel/work.ts";
import {
  type Admission,
  admit,
  type Channel,
  type ChannelRef,
  isPrivate,
  type Viewer,
} from "./channel-row.ts";
import { checkAuthor, openModeration, passText, readContext } from "./context.ts";
import { mentionedIn, resolveMentions } from "./mentions.ts";

/** Records a moderator's action in the audit log under the caller; rooms see no tenant's users. */
export const auditChat = async (
  work: Work,
  action: string,
  { projectId, channelId }: ChannelRef,
  data: Record<string, unknown> = {},
): Promise<void> => {
  if (!work.by) return;
  const target = { type: "chat_channel", id: channelId };
  await audit(work, { action, target, tenantId: tenantOf(work.by.caller), data: { projectId, ...data } });
};

type PrivateRead = { actor: ChatActor; what: "messages" | "members" | "report"; [more: string]: unknown };

/** Records that somebody who is not a member has read a private channel: who, when, and up to where. */
export const auditPrivateRead = async (
  work: Work,
  channel: Pick<Channel, "projectId" | "id" | "kind">,
  { actor, ...data }: PrivateRead,
): Promise<void> => {
  if (actor.kind === "PLAYER" || !isPrivate(channel)) return;
  const { projectId, id: channelId, kind } = channel;
  await auditChat(work, "chat.private_read", { projectId, channelId }, { kind, ...data });
};

/** A stored message with its sender and its reactions. */
export type MessageRow = {
  seq: number;
  id: string;
  sender_id: string | null;
  type: ChatMessage["type"];
  content: string;
  mentions: string[];
  reply_to: number | null;
  client_msg_id: string | null;
  moderation: Moderation;
  is_shadowed: boolean;
  edited_at: Date | null;
  deleted_at: Date | null;
  created_at: Date;
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
    seq: row.seq,
    sender: senderOf(row),
    type: row.type,
    content: row.deleted_at === null ? row.content : "",
    mentions: row.deleted_at === null ? row.mentions : [],
    replyTo: row.reply_to,
    reactions: row.reactions ?? [],
    moderation: row.moderation,
    editedAt: isoOf(row.edited_at),
    deletedAt: isoOf(row.deleted_at),
    createdAt: row.created_at.toISOString(),
    ...(isOwn && row.client_msg_id !== null ? { clientMsgId: row.client_msg_id } : {}),
  };
  return isHiddenFrom(row, viewer) ? tombstoneOf(message, row.is_shadowed) : message;
};

/** A change's reply to its caller, and the lines for readers, sent once it is committed. */
export type ChatChange<R = unknown> = { reply: R; lines: ChatLine[] };

/** Maximum code points of former texts that are kept per message. */
const ORIGINAL_MAX = 10_000;

/** SQL: the condition for a message's row, or the rows of what belongs to it. */
export const ofMessage = ({ projectId, id }: Pick<Channel, "projectId" | "id">, seq: number) => sql`
  project_id = ${projectId} and channel_id = ${id} and seq = ${seq}::bigint`;

/** Reads one message. */
export const readRow = async (
  work: Work,
  channel: Pick<Channel, "projectId" | "id">,
  viewer: Viewer,
  seq: number,
): Promise<MessageRow | undefined> => (await readRows(work, channel, viewer, sql`m.seq = ${seq}::bigint`))[0];

/** Locks a message. @throws DomainError NOT_FOUND */
export const lockMessage = async (
  work: Work,
  channel: Pick<Channel, "projectId" | "id">,
  viewer: Viewer,
  seq: number,
): Promise<MessageRow> => {
  await unanswered(work.db, sql`select 1 from chat_messages where ${ofMessage(channel, seq)} for update`);
  const row = await readRow(work, channel, viewer, seq);
  if (!row) throw notFound("message");
  return row;
};

/** Sends lines to the channel's readers: immediately through its room, reliably through the outbox. */
export const publishToReaders = <R>(
  work: Work,
  { projectId, id }: Pick<Channel, "projectId" | "id">,
  reply: R,
  lines: ChatLine[],
): ChatChange<R> => {
  if (lines.length > 0) work.emit(projectId, "chat.changed", { channelId: id, lines });
  return { reply, lines };
};

const isOwn = (row: MessageRow, actor: ChatActor): boolean =>
  actor.kind === "PLAYER" ? row.sender_id === actor.playerId : row.type === "SYSTEM";

const checkEditable = (work: Work, { channel }: Admission, row: MessageRow, actor: ChatActor): void => {
  if (!isOwn(row, actor)) throw forbidden("NOT_SENDER", "only its sender may edit a message");
  if (row.deleted_at !== null || row.moderation === "REMOVED" || row.moderation === "HELD")
    throw conflict("INVALID_STATE", "the message was deleted, or waits for a moderator");
  const { editWindowSeconds } = channel.settings;
  const isLate = row.created_at.getTime() + editWindowSeconds * 1_000 < work.now.getTime();
  if (isLate)
    throw conflict("INVALID_STATE", `a message may be edited for ${numbered(editWindowSeconds, "second")}`);
};

/**
 * Changes the text of a message by its sender; it is moderated like a new one, and former texts are kept for
 * moderators. Newly mentioned players get no inbox message.
 * @throws DomainError FORBIDDEN NOT_SENDER, CONFLICT INVALID_STATE, and the errors of a send
 */
export const editMessage = async (
  work: Work,
  ref: ChannelRef,
  actor: ChatActor,
  { seq, content }: { seq: number; content: string },
): Promise<ChatChange<ChatMessage>> => {
  const admission = await admit(work, ref, actor);
  const { channel, viewer } = admission;
  const row = await lockMessage(work, channel, viewer, seq);
  checkEditable(work, admission, row, actor);
  const { playerId } = viewer;
  const context = await readContext(work, ref, {
    senders: [{ playerId, clientMsgId: undefined }],
    replies: [],
    mentionedIds: [],
    mentionedNames: mentionedIn(content),
  });
  const sender = playerId === null ? undefined : context.senders.get(playerId);
  const scope = await openModeration(work, context);
  checkAuthor(scope, { actor, sender });
  const verdict = passText(scope, { actor, sender }, content);
  if (verdict.outcome === "HELD")
    throw invalid(
      "content",
      "a moderator must review this text: send it as a new message",
      "MESSAGE_BLOCKED",
    );
  const mentions = resolveMentions(context, channel, { content }).map(({ id }) => id);
  // The original text stays first; text hidden by a mask follows.
  const hidden = verdict.content === verdict.text ? null : verdict.text;
  await sql`
    update chat_messages set content = ${verdict.content}, moderation = ${verdict.outcome},
      flags = array(select json_array_elements_text(${JSON.stringify(verdict.flags)}::json)),
      mentions = ${`{${mentions.join(",")}}`}::uuid[], is_shadowed = is_shadowed or ${verdict.isShadowed},
      original = left(concat_ws(E'\n', original, content, ${hidden}::text), ${ORIGINAL_MAX}),
      edited_at = ${work.now.toISOString()}::timestamptz
    where ${ofMessage(channel, seq)}`.execute(work.db);
  const edited = await readRow(work, channel, viewer, seq);
  const reply = showMessage(channel.id, edited!, viewer);
  const data = { channelId: channel.id, seq, content: verdict.content, editedAt: reply.editedAt! };
  return publishToReaders(work, channel, reply, isHidden(edited!) ? [] : [{ name: "chat.edited", data }]);
};

/**
 * Deletes a message: by its sender at any time, by a moderator as a removal. Its seq stays; the text is kept
 * for moderators until the retention ends. Idempotent.
 * @throws DomainError FORBIDDEN NOT_SENDER
 */
export const deleteMessage = async (
  work: Work,
  ref: ChannelRef,
  actor: ChatActor,
  { seq }: { seq: number },
): Promise<ChatChange<ChatMessage>> => {
  const { channel, viewer } = await admit(work, ref, actor);
  const row = await lockMessage(work, channel, viewer, seq);
  const own = isOwn(row, actor);
  if (!own && !viewer.isModerator) throw forbidden("NOT_SENDER", "only its sender may delete a message");
  if (row.deleted_at !== null) return { reply: showMessage(channel.id, row, viewer), lines: [] };
  const by = own ? "SENDER" : "MODERATOR";
  const lines = await removeMessage(work, channel, row, by);
  if (!own) {
    const who = actor.kind === "ADMIN" ? "ADMIN" : "MODERATOR";
    const data = { channelId: channel.id, seq, action: "REMOVED", by: who, flags: [] } as const;
    work.emit(channel.projectId, "chat.message_moderated", { ...data, flags: [] });
    await auditChat(work, "chat_message.removed", ref, { seq });
  }
  const deleted = await readRow(work, channel, viewer, seq);
  return publishToReaders(work, channel, showMessage(channel.id, deleted!, viewer), lines);
};

/** Clears a locked message. @returns the lines for readers */
export const removeMessage = async (
  { db, now }: Work,
  channel: Pick<Channel, "projectId" | "id">,
  row: Pick<MessageRow, "seq" | "sender_id" | "moderation" | "is_shadowed">,
  by: "SENDER" | "MODERATOR",
): Promise<ChatLine[]> => {
  const { seq } = row;
  const moderation = by === "MODERATOR" ? sql`'REMOVED'` : sql`moderation`;
  await sql`
    with r as (delete from chat_reactions where ${ofMessage(channel, seq)})
    update chat_messages set original = coalesce(original, content), content = '',
      moderation = ${moderation}, deleted_at = ${now.toISOString()}::timestamptz, deleted_by = ${by}
    where ${ofMessage(channel, seq)}`.execute(db);
  return isHidden(row) ? [] : [{ name: "chat.deleted", data: { channelId: channel.id, seq, by } }];
};
