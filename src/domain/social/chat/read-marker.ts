import { sql } from "kysely";
import { invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { admit } from "./access.ts";
import type { ChatChange } from "./change-message.ts";
import type { ChannelRef } from "./channel-row.ts";
import type { ChatActor } from "../../kernel/events/chat-views.ts";

/** How far a player has read. */
export type ReadMarker = { lastReadSeq: number; unread: number };

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
  const found = await sql<{ last_read_seq: string | number }>`
    insert into chat_members as m (project_id, channel_id, player_id, role, last_read_seq, notify, joined_at)
    values (${channel.projectId}, ${channel.id}, ${actor.playerId}, ${role}, ${read}::bigint, ${notify},
      ${at})
    on conflict (project_id, channel_id, player_id)
      do update set last_read_seq = greatest(m.last_read_seq, excluded.last_read_seq)
    returning last_read_seq`.execute(work.db);
  const lastReadSeq = Number(found.rows[0]!.last_read_seq);
  return { reply: { lastReadSeq, unread: Math.max(0, channel.lastSeq - lastReadSeq) }, lines: [] };
};
