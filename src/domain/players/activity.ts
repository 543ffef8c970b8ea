import { sql } from "kysely";
import type { Json } from "../kernel/events/events.ts";
import type { Work } from "../kernel/work.ts";
import type { Player } from "./player.ts";

/** Maximum event types in one request. */
export const ACTIVITY_TYPES_MAX = 20;

/** An event of a player: a line of the player stream. */
export type Activity = { id: string; seq: number; type: string; data: Json; createdAt: string };

export type ListActivity = {
  limit: number;
  /** Returns lines older than the one of this `seq`. */
  cursor?: number | undefined;
  types?: readonly string[] | undefined;
};

type Row = { id: string; player_seq: string | number; type: string; data: Json; created_at: Date | string };

/** Returns a player's events, newest first, and the cursor of the next page. */
export const listActivity = async (
  { db }: Work,
  { projectId, id }: Player,
  { limit, cursor, types }: ListActivity,
): Promise<{ activity: Activity[]; nextCursor: string | null }> => {
  const named = types === undefined ? null : JSON.stringify(types);
  const found = await sql<Row>`
    select id, player_seq, type, data, created_at from outbox
    where project_id = ${projectId} and player_id = ${id} and player_seq is not null
      and player_seq < ${cursor ?? Number.MAX_SAFE_INTEGER}::bigint
      and (${named}::text is null or type in (select jsonb_array_elements_text(${named}::jsonb)))
    order by player_seq desc limit ${limit + 1}`.execute(db);
  const activity = found.rows.slice(0, limit).map((row) => ({
    id: row.id,
    seq: Number(row.player_seq),
    type: row.type,
    data: row.data,
    createdAt: new Date(row.created_at).toISOString(),
  }));
  return { activity, nextCursor: found.rows.length > limit ? String(activity.at(-1)!.seq) : null };
};
