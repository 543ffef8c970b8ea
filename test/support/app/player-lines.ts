import { sql } from "kysely";
import { messagesOf, type StoredLines, type StreamRef } from "../../../src/domain/delivery/outbox/stream.ts";
import type { PlayerMessage } from "../../../src/domain/kernel/events/chat-views.ts";
import type { Work } from "../../../src/domain/kernel/work.ts";

/** All lines of a player's stream, in order. */
export const linesOfPlayer = async (
  { db }: Work,
  { projectId, playerId }: StreamRef,
): Promise<PlayerMessage[]> => {
  const { rows } = await sql<StoredLines>`
    select player_seq as seq, id, type, data, created_at, lines from outbox
    where project_id = ${projectId} and player_id = ${playerId} and player_seq is not null
    order by player_seq`.execute(db);
  return rows.flatMap(messagesOf);
};
