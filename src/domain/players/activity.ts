import { sql } from "kysely";
import type { Json } from "../kernel/events/events.ts";
import { lineData, linesOf, PACKED_MAX } from "../kernel/outbox-row.ts";
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

type Row = {
  id: string;
  seq: string | number;
  lines: number | null;
  type: string;
  data: Json;
  created_at: Date | string;
};

/** The lines of a row, newest first. */
const activityOf = ({ type, data, created_at: createdAt, ...row }: Row): Activity[] =>
  linesOf(row)
    .map((line) => ({
      id: line.id,
      seq: line.seq!,
      type,
      data: lineData(data, line),
      createdAt: new Date(createdAt).toISOString(),
    }))
    .toReversed();

/** Returns a player's events, newest first, and the cursor of the next page. */
export const listActivity = async (
  { db }: Work,
  { projectId, id }: Player,
  { limit, cursor, types }: ListActivity,
): Promise<{ activity: Activity[]; nextCursor: string | null }> => {
  const named = types === undefined ? null : JSON.stringify(types);
  const before = cursor ?? Number.MAX_SAFE_INTEGER;
  // The last line of a row may be newer than the cursor, and others of it not.
  const found = await sql<Row>`
    select id, player_seq as seq, lines, type, data, created_at from outbox
    where project_id = ${projectId} and player_id = ${id} and player_seq is not null
      and player_seq - coalesce(lines, 1) + 1 < ${before}::bigint
      and player_seq < ${Math.min(before + PACKED_MAX, Number.MAX_SAFE_INTEGER)}::bigint
      and (${named}::text is null or type in (select jsonb_array_elements_text(${named}::jsonb)))
    order by player_seq desc limit ${limit + 1}`.execute(db);
  const lines = found.rows.flatMap(activityOf).filter(({ seq }) => seq < before);
  const activity = lines.slice(0, limit);
  return { activity, nextCursor: lines.length > limit ? String(activity.at(-1)!.seq) : null };
};
