import { sql } from "kysely";
import { conflict, forbidden, invalid, notFound } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { unanswered } from "../../kernel/statements.ts";
import { admit, type Admission, type Viewer } from "./access.ts";
import { auditChat } from "./audit-chat.ts";
import type { Channel, ChannelRef } from "./channel-row.ts";
import { checkAuthor, openModeration, passText } from "./moderating.ts";
import { mentionedIn, resolveMentions } from "./mentions.ts";
import { isHidden, type MessageRow, readRows, showMessage } from "./message-view.ts";
import { readContext } from "./context.ts";
import type { ChatActor, ChatLine, ChatMessage } from "../../kernel/events/chat-views.ts";

/** A change's reply to its caller, and the lines for readers, sent once it is committed. */
export type ChatChange<R = unknown> = { reply: R; lines: ChatLine[] };

/** Maximum code points of former texts that are kept per message. */
const ORIGINAL_MAX = 10_000;

/** Locks a message. @throws DomainError NOT_FOUND */
export const lockMessage = async (
  work: Work,
  channel: Channel,
  viewer: Viewer,
  seq: number,
): Promise<MessageRow> => {
  await unanswered(
    work.db,
    sql`
    select 1 from chat_messages
    where project_id = ${channel.projectId} and channel_id = ${channel.id} and seq = ${seq}::bigint
    for update`,
  );
  const [row] = await readRows(work, channel, viewer, sql`m.seq = ${seq}::bigint`);
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
  const isLate = new Date(row.created_at).getTime() + editWindowSeconds * 1_000 < work.now.getTime();
  if (isLate) throw conflict("INVALID_STATE", `a message may be edited for ${editWindowSeconds} seconds`);
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
    where project_id = ${channel.projectId} and channel_id = ${channel.id}
      and seq = ${seq}::bigint`.execute(work.db);
  const [edited] = await readRows(work, channel, viewer, sql`m.seq = ${seq}::bigint`);
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
  const [deleted] = await readRows(work, channel, viewer, sql`m.seq = ${seq}::bigint`);
  return publishToReaders(work, channel, showMessage(channel.id, deleted!, viewer), lines);
};

/** Clears a locked message. @returns the lines for readers */
export const removeMessage = async (
  { db, now }: Work,
  { projectId, id }: Pick<Channel, "projectId" | "id">,
  row: Pick<MessageRow, "seq" | "sender_id" | "moderation" | "is_shadowed">,
  by: "SENDER" | "MODERATOR",
): Promise<ChatLine[]> => {
  const seq = Number(row.seq);
  const moderation = by === "MODERATOR" ? sql`'REMOVED'` : sql`moderation`;
  await sql`
    with r as (
      delete from chat_reactions
      where project_id = ${projectId} and channel_id = ${id} and seq = ${seq}::bigint)
    update chat_messages set original = coalesce(original, content), content = '',
      moderation = ${moderation}, deleted_at = ${now.toISOString()}::timestamptz, deleted_by = ${by}
    where project_id = ${projectId} and channel_id = ${id} and seq = ${seq}::bigint`.execute(db);
  return isHidden(row) ? [] : [{ name: "chat.deleted", data: { channelId: id, seq, by } }];
};
