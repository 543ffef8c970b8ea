import { sql } from "kysely";
import { z } from "zod";
import { conflict, forbidden, invalid, notFound } from "../../kernel/errors.ts";
import { type ChatActor, type ChatMessage, CONTENT_MAX } from "../../kernel/events/social-views.ts";
import type { Work } from "../../kernel/work.ts";
import {
  type Admission,
  admit,
  type Channel,
  type ChannelRef,
  checkActive,
  isModeratorRole,
} from "./channel-row.ts";
import { EMOJI_MAX, readEmoji } from "./context.ts";
import {
  type ChatChange,
  deleteMessage,
  editMessage,
  isHidden,
  isHiddenFrom,
  lockMessage,
  type MessageRow,
  ofMessage,
  publishToReaders,
  readRow,
  showMessage,
} from "./message-view.ts";
import { MENTIONS_MAX } from "./moderation/filters.ts";
import { findSanctions } from "./moderation/moderate.ts";

const CLIENT_MSG_ID_MAX = 64;

/** The seq of a message in its channel. */
export const Seq = z.int().min(1).max(Number.MAX_SAFE_INTEGER);
/** Twice CONTENT_MAX in UTF-16 units can hold as many code points; this also bounds text that is trimmed. */
const Content = z
  .string()
  .max(2 * CONTENT_MAX)
  .meta({ description: "1 to the channel's maxLength characters after trimming" });

export const SendBody = z.strictObject({
  content: Content,
  clientMsgId: z
    .string()
    .min(1)
    .max(CLIENT_MSG_ID_MAX)
    .optional()
    .meta({ description: "Sent again with the same one, it is the message of before" }),
  replyTo: Seq.optional(),
  mentions: z
    .array(z.uuid())
    .max(MENTIONS_MAX)
    .optional()
    .meta({ description: "Ids of players; @externalUserId in the text mentions too" }),
});

export const EditBody = z.strictObject({ seq: Seq, content: Content });
const DeleteBody = z.strictObject({ seq: Seq });
const ReactBody = z.strictObject({
  seq: Seq,
  emoji: z
    .string()
    .min(1)
    .max(2 * EMOJI_MAX),
  op: z.enum(["ADD", "REMOVE"]),
});
export const ReadBody = z.strictObject({ seq: z.int().min(0).max(Number.MAX_SAFE_INTEGER) });

/** Maximum number of different emoji on one message. */
export const REACTIONS_MAX = 20;

type React = { seq: number; emoji: string; op: "ADD" | "REMOVE" };
type Reactions = { seq: number; reactions: ChatMessage["reactions"] };

const checkOpen = ({ channel, role }: Admission): void => {
  const { settings, status, closedMs } = channel;
  const isShut = status === "ARCHIVED" || closedMs !== null || !settings.reactions;
  const isQuiet = status === "LOCKED" && !isModeratorRole(role);
  if (isShut || isQuiet)
    throw forbidden("CHANNEL_RESTRICTED", "reactions are not allowed in this channel now");
};

/** @returns whether the reaction is visible only to the player @throws DomainError FORBIDDEN PLAYER_MUTED */
const isShadowed = async (work: Work, { projectId, id }: Channel, playerId: string): Promise<boolean> => {
  const sanctions = (await findSanctions(work, projectId, [playerId], id)).get(playerId) ?? [];
  if (sanctions.some(({ kind }) => kind === "MUTE")) throw forbidden("PLAYER_MUTED", "the player is muted");
  return sanctions.length > 0;
};

/** @returns whether anything has changed */
const write = async (
  { db, now }: Work,
  channel: Channel,
  playerId: string,
  { seq, emoji, op }: React,
): Promise<boolean> => {
  const changed =
    op === "ADD"
      ? await sql`
        insert into chat_reactions (project_id, channel_id, seq, player_id, emoji, created_at)
        values (${channel.projectId}, ${channel.id}, ${seq}::bigint, ${playerId}, ${emoji},
          ${now.toISOString()}::timestamptz)
        on conflict do nothing returning 1`.execute(db)
      : await sql`
        delete from chat_reactions
        where ${ofMessage(channel, seq)} and player_id = ${playerId} and emoji = ${emoji} returning 1`.execute(
          db,
        );
  return changed.rows.length > 0;
};

const checkReadable = (row: MessageRow, { viewer }: Admission): void => {
  if (isHiddenFrom(row, viewer)) throw notFound("message");
  if (row.deleted_at !== null) throw conflict("INVALID_STATE", "the message was deleted");
};

const countOf = (reactions: ChatMessage["reactions"], emoji: string): number =>
  reactions.find((one) => one.emoji === emoji)?.count ?? 0;

const checkCount = (before: ChatMessage["reactions"], emoji: string): void => {
  if (before.length < REACTIONS_MAX || before.some((one) => one.emoji === emoji)) return;
  throw conflict("LIMIT_REACHED", `a message has at most ${REACTIONS_MAX} different reactions`);
};

/**
 * Adds or removes a player's reaction to a message. Idempotent.
 * @throws DomainError NOT_FOUND, CONFLICT LIMIT_REACHED, INVALID_STATE, FORBIDDEN CHANNEL_RESTRICTED,
 * PLAYER_MUTED, CONFLICT PLAYER_INACTIVE
 */
export const react = async (
  work: Work,
  ref: ChannelRef,
  actor: ChatActor,
  { op, seq, emoji: given }: React,
): Promise<ChatChange<Reactions>> => {
  if (actor.kind !== "PLAYER") throw invalid("playerId", "is required: only players react");
  const emoji = readEmoji(given);
  const admission = await admit(work, ref, actor);
  const { channel, viewer } = admission;
  checkActive(admission);
  checkOpen(admission);
  const row = await lockMessage(work, channel, viewer, seq);
  checkReadable(row, admission);
  const before = row.reactions ?? [];
  if (op === "ADD") checkCount(before, emoji);
  const { playerId } = actor;
  if (await isShadowed(work, channel, playerId)) return { reply: { seq, reactions: before }, lines: [] };
  const hasChanged = await write(work, channel, playerId, { seq, emoji, op });
  const after = await readRow(work, channel, viewer, seq);
  const { reactions } = showMessage(channel.id, after!, viewer);
  if (!hasChanged || isHidden(row)) return { reply: { seq, reactions }, lines: [] };
  const data = { channelId: channel.id, seq, emoji, playerId, op, count: countOf(reactions, emoji) };
  return publishToReaders(work, channel, { seq, reactions }, [{ name: "chat.reaction", data }]);
};

/** How far a player has read. */
type ReadMarker = { lastReadSeq: number; unread: number };

/** Moves a player's marker forward, never back, and no further than the channel's last seq. */
export const markRead = async (
  work: Work,
  ref: ChannelRef,
  actor: ChatActor,
  { seq }: { seq: number },
): Promise<ChatChange<ReadMarker>> => {
  if (actor.kind !== "PLAYER") throw invalid("playerId", "is required: only players have read markers");
  const { channel, role, notify } = await admit(work, ref, actor);
  const read = Math.min(seq, channel.lastSeq);
  const at = sql`${work.now.toISOString()}::timestamptz`;
  const found = await sql<{ last_read_seq: number }>`
    insert into chat_members as m (project_id, channel_id, player_id, role, last_read_seq, notify, joined_at)
    values (${channel.projectId}, ${channel.id}, ${actor.playerId}, ${role}, ${read}::bigint, ${notify},
      ${at})
    on conflict (project_id, channel_id, player_id)
      do update set last_read_seq = greatest(m.last_read_seq, excluded.last_read_seq)
    returning last_read_seq`.execute(work.db);
  const lastReadSeq = found.rows[0]!.last_read_seq;
  return { reply: { lastReadSeq, unread: Math.max(0, channel.lastSeq - lastReadSeq) }, lines: [] };
};

/**
 * A change in a channel other than a send, the same by REST and by room. Throws DomainError if it is not
 * allowed.
 */
type ChatCommand = {
  body: z.ZodType;
  run(work: Work, ref: ChannelRef, actor: ChatActor, body: unknown): Promise<ChatChange>;
};

/** Builds a command, dropping its body's type, which the table does not track. */
const command = <B extends z.ZodType>(
  body: B,
  run: (work: Work, ref: ChannelRef, actor: ChatActor, body: z.output<B>) => Promise<ChatChange>,
): ChatCommand => ({ body, run: (work, ref, actor, value) => run(work, ref, actor, value as z.output<B>) });

/** Every command by its message name. `run` receives the result of `body`. */
export const CHAT_COMMANDS: Readonly<Record<string, ChatCommand>> = {
  "chat.edit": command(EditBody, editMessage),
  "chat.delete": command(DeleteBody, deleteMessage),
  "chat.react": command(ReactBody, react),
  "chat.read": command(ReadBody, markRead),
};
