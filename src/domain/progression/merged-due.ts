import { sql } from "kysely";
import type { Work } from "../kernel/work.ts";
import type { PlayersOf } from "./change-free-players.ts";

/** Clears what is due of players who were merged into another, or erased: they are not changed any more. */
export const clearDueOfMerged = async (
  { db }: Work,
  table: "player_quests" | "player_adventures" | "player_streaks",
  { projectId, playerIds }: PlayersOf,
): Promise<void> => {
  await sql`
    update ${sql.table(table)} s set due_at = null from players p
    where s.project_id = ${projectId} and s.player_id = any(${`{${playerIds.join(",")}}`}::uuid[])
      and s.due_at is not null and p.project_id = s.project_id and p.id = s.player_id
      and (p.merged_into is not null or p.status = 'ERASED')`.execute(db);
};
