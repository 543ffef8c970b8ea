import { sql } from "kysely";
import { conflict, notFound } from "../../../kernel/errors.ts";
import type { Work } from "../../../kernel/work.ts";
import { admit, type Viewer } from "../access.ts";
import { lockMessage, removeMessage, publishToReaders } from "../change-message.ts";
import type { Channel, ChannelRef } from "../channel-row.ts";
import { isHidden, type MessageRow, readRows, showMessage } from "../message-view.ts";
import type { ChatMessage, Moderation } from "../../../kernel/events/chat-views.ts";
import { auditModerator, moderatorOf } from "./moderator.ts";

type ChannelKey = Pick<Channel, "projectId" | "id">;

/** Sees everything, without being the author of anything. */
export const MODERATOR: Viewer = { playerId: null, isModerator: true };

/** Flag of a message that is held because of players' reports. */
const REPORTED_FLAG = "reports";

const ofMessage = ({ projectId, id }: ChannelKey, seq: number) => sql`
  project_id = ${projectId} and channel_id = ${id} and seq = ${seq}::bigint`;

/** Holds a locked message that others can read; for them it disappears. */
export const holdMessage = async (work: Work, channel: ChannelKey, row: MessageRow): Promise<void> => {
  if (isHidden(row) || row.deleted_at !== null) return;
  const seq = Number(row.seq);
  const { rows } = await sql<{ flags: string[] }>`
    update chat_messages set moderation = 'HELD', flags = array_append(flags, ${REPORTED_FLAG})
    where ${ofMessage(channel, seq)} returning to_jsonb(flags) as flags`.execute(work.db);
  const moderated = { channelId: channel.id, seq, action: "HELD", by: "AUTO" } as const;
  work.emit(channel.projectId, "chat.message_moderated", { ...moderated, flags: rows[0]!.flags });
  const gone = { channelId: channel.id, seq, by: "MODERATOR" } as const;
  publishToReaders(work, channel, undefined, [{ name: "chat.deleted", data: gone }]);
};

/** Clears a message by a moderator; one that is deleted stays unchanged. @throws DomainError NOT_FOUND */
export const removeReported = async (work: Work, channel: ChannelKey, seq: number): Promise<void> => {
  const row = await lockModerated(work, channel, seq);
  if (row.deleted_at !== null) return;
  const lines = await removeMessage(work, channel, row, "MODERATOR");
  publishToReaders(work, channel, undefined, lines);
  emitModerated(work, channel, { seq, action: "REMOVED" });
};

/** Locks a message for a moderator. @throws DomainError NOT_FOUND */
const lockModerated = (work: Work, channel: ChannelKey, seq: number): Promise<MessageRow> =>
  lockMessage(work, channel as Channel, MODERATOR, seq);

type Moderated = { seq: number; action: "REMOVED" | "RESTORED" };

const emitModerated = (work: Work, { projectId, id }: ChannelKey, { seq, action }: Moderated): void => {
  const data = { channelId: id, seq, action, by: moderatorOf(work), flags: [] as string[] };
  work.emit(projectId, "chat.message_moderated", data);
};

type Restored = { content: string; moderation: Moderation };

/**
 * Releases a HELD message as others were to read it, or shows a MASKED one in its original form. A held
 * message that is masked too stays masked: restoring it again removes the mask.
 * @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE when there is nothing to restore
 */
export const restoreMessage = async (work: Work, ref: ChannelRef, seq: number): Promise<ChatMessage> => {
  const { channel } = await admit(work, ref, { kind: "SERVER", isModerator: true });
  const row = await lockModerated(work, channel, seq);
  const isWaiting = row.moderation === "HELD" || row.moderation === "MASKED";
  if (row.deleted_at !== null || !isWaiting)
    throw conflict("INVALID_STATE", "only messages that are HELD or MASKED can be restored");
  const restored = await writeRestored(work, channel, row);
  emitModerated(work, channel, { seq, action: "RESTORED" });
  const line = { channelId: channel.id, seq, content: restored.content, editedAt: work.now.toISOString() };
  publishToReaders(work, channel, undefined, row.is_shadowed ? [] : [{ name: "chat.edited", data: line }]);
  const { projectId } = ref;
  const data = { channelId: channel.id, seq };
  await auditModerator(work, { action: "chat_message.restored", projectId, id: row.id, data });
  const [shown] = await readRows(work, channel, MODERATOR, sql`m.seq = ${seq}::bigint`);
  if (!shown) throw notFound("message");
  return showMessage(channel.id, shown, MODERATOR);
};

const writeRestored = async (work: Work, channel: ChannelKey, row: MessageRow): Promise<Restored> => {
  const seq = Number(row.seq);
  // All texts before an edit are stored together, so the masked one cannot be recovered.
  if (row.moderation === "MASKED" && row.edited_at !== null)
    throw conflict("INVALID_STATE", "the message was edited since it was masked");
  const values =
    row.moderation === "MASKED"
      ? sql`content = coalesce(original, content), original = null, moderation = 'VISIBLE'`
      : sql`moderation = case when position('*' in content) > 0 and original is not null
          and edited_at is null then 'MASKED' else 'VISIBLE' end`;
  const { rows } = await sql<Restored>`
    update chat_messages set ${values} where ${ofMessage(channel, seq)}
    returning content, moderation`.execute(work.db);
  return rows[0]!;
};
