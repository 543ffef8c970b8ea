import { sql } from "kysely";
import { forbidden, invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { type Channel, channelOf, type ChannelRow, showChannel } from "./channel-row.ts";
import { checkChannelCount, insertChannel } from "./manage-channels.ts";
import { readChannel } from "./channels.ts";
import type { ChatActor, ChatChannel } from "../../kernel/events/chat-views.ts";

const checkPolicy = async ({ db }: Work, projectId: string): Promise<void> => {
  const found = await sql<{ policy: string | null }>`
    select settings->'chat'->>'directPolicy' as policy from projects where id = ${projectId}`.execute(db);
  if (found.rows[0]?.policy === "OFF")
    throw forbidden("CHANNEL_RESTRICTED", "direct messages are disabled in this project");
};

const findDirect = async (
  { db }: Work,
  projectId: string,
  directKey: string,
): Promise<Channel | undefined> => {
  const found = await sql<ChannelRow>`
    select id, kind, key, name, lobby_id, settings, status, last_seq, read_only_at, created_at
    from chat_channels where project_id = ${projectId} and direct_key = ${directKey}`.execute(db);
  return found.rows[0] && channelOf(projectId, found.rows[0]);
};

/**
 * Returns the direct channel of two players, which is created on first use; of two concurrent calls one
 * creates it.
 * @throws DomainError VALIDATION_ERROR for one player twice, FORBIDDEN CHANNEL_RESTRICTED where the project
 * does not allow direct messages, CONFLICT LIMIT_REACHED
 */
export const openDirect = async (
  work: Work,
  projectId: string,
  players: readonly [string, string],
): Promise<{ channel: ChatChannel; isNew: boolean }> => {
  if (players[0] === players[1]) throw invalid("playerIds", "must be two different players");
  await checkPolicy(work, projectId);
  const directKey = players.toSorted().join(":");
  const known = await findDirect(work, projectId, directKey);
  if (known) return { channel: showChannel(known), isNew: false };
  await checkChannelCount(work, projectId);
  const made = await insertChannel(work, { projectId, kind: "DIRECT", directKey });
  // A concurrent call was faster: this statement sees what it has committed.
  if (!made) return { channel: showChannel((await findDirect(work, projectId, directKey))!), isNew: false };
  await sql`
    insert into chat_members (project_id, channel_id, player_id, role, notify, joined_at)
    select ${projectId}::uuid, ${made.id}::uuid, id, 'MEMBER', 'ALL', ${work.now.toISOString()}::timestamptz
    from unnest(${`{${players.join(",")}}`}::uuid[]) as u(id)`.execute(work.db);
  return { channel: showChannel(made), isNew: true };
};

/** A direct channel, without `lastSeq` for a caller that may not read it. */
export type DirectChannel = Omit<ChatChannel, "lastSeq"> & { lastSeq?: number };

/**
 * As `openDirect`, for `actor`: one of the two also sees the number of unread messages, and a server that may
 * not moderate does not see the number of messages.
 * @throws DomainError as `openDirect`; VALIDATION_ERROR for a player who is neither of the two; FORBIDDEN
 * PLAYER_BANNED
 */
export const openDirectFor = async (
  work: Work,
  projectId: string,
  actor: ChatActor,
  players: readonly [string, string],
): Promise<{ channel: DirectChannel; isNew: boolean }> => {
  if (actor.kind === "PLAYER" && !players.includes(actor.playerId))
    throw invalid("playerId", "must be one of the two players");
  const { channel, isNew } = await openDirect(work, projectId, players);
  if (actor.kind === "PLAYER")
    return { channel: await readChannel(work, { projectId, channelId: channel.id }, actor), isNew };
  if (actor.kind === "ADMIN" || actor.isModerator) return { channel, isNew };
  const { lastSeq: _, ...shown } = channel;
  return { channel: shown, isNew };
};
