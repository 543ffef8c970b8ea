import { sql } from "kysely";
import { conflict, forbidden, invalid, notFound } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { admit, type Admission, isModeratorRole } from "./access.ts";
import { type ChatChange, lockMessage, publishToReaders } from "./change-message.ts";
import type { Channel, ChannelRef } from "./channel-row.ts";
import { isHidden, isHiddenFrom, type MessageRow, readRows, showMessage } from "./message-view.ts";
import { findSanctions } from "./moderation/sanctions.ts";
import { readEmoji } from "./text.ts";
import type { ChatActor, ChatMessage } from "../../kernel/events/chat-views.ts";

/** Maximum number of different emoji on one message. */
export const REACTIONS_MAX = 20;

export type React = { seq: number; emoji: string; op: "ADD" | "REMOVE" };
export type Reactions = { seq: number; reactions: ChatMessage["reactions"] };

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
  { projectId, id }: Channel,
  playerId: string,
  { seq, emoji, op }: React,
): Promise<boolean> => {
  const changed =
    op === "ADD"
      ? await sql`
        insert into chat_reactions (project_id, channel_id, seq, player_id, emoji, created_at)
        values (${projectId}, ${id}, ${seq}::bigint, ${playerId}, ${emoji},
          ${now.toISOString()}::timestamptz)
        on conflict do nothing returning 1`.execute(db)
      : await sql`
        delete from chat_reactions
        where project_id = ${projectId} and channel_id = ${id} and seq = ${seq}::bigint
          and player_id = ${playerId} and emoji = ${emoji} returning 1`.execute(db);
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
 * PLAYER_MUTED
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
  checkOpen(admission);
  const row = await lockMessage(work, channel, viewer, seq);
  checkReadable(row, admission);
  const before = row.reactions ?? [];
  if (op === "ADD") checkCount(before, emoji);
  const { playerId } = actor;
  if (await isShadowed(work, channel, playerId)) return { reply: { seq, reactions: before }, lines: [] };
  const hasChanged = await write(work, channel, playerId, { seq, emoji, op });
  const [after] = await readRows(work, channel, viewer, sql`m.seq = ${seq}::bigint`);
  const { reactions } = showMessage(channel.id, after!, viewer);
  if (!hasChanged || isHidden(row)) return { reply: { seq, reactions }, lines: [] };
  const data = { channelId: channel.id, seq, emoji, playerId, op, count: countOf(reactions, emoji) };
  return publishToReaders(work, channel, { seq, reactions }, [{ name: "chat.reaction", data }]);
};
