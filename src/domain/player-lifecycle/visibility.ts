import { sql } from "kysely";
import type { EntryChange } from "../kernel/events/events.ts";
import { openLists } from "../leaderboards/periods/lists-of-project.ts";
import type { Work } from "../kernel/work.ts";

type EntryRow = {
  period_id: string;
  rank_score: number;
  rank_tie: number;
  version: number;
};

/**
 * Updates every entry of a player in the rank index, as visible or hidden. The entries themselves stay, so
 * that a player who returns has the earlier scores. The player's row is locked.
 */
export const updateRankEntries = async (
  work: Work,
  { projectId, id }: { projectId: string; id: string },
  isHidden: boolean,
): Promise<void> => {
  const changed = await sql<EntryRow>`
    update leaderboard_entries set version = version + 1, updated_at = ${work.now.toISOString()}::timestamptz
    where project_id = ${projectId} and player_id = ${id} and period_id in (${openLists(projectId)})
    returning period_id, rank_score, rank_tie, version`.execute(work.db);
  for (const row of changed.rows) {
    const entry: EntryChange = [id, row.rank_score, row.rank_tie, row.version, isHidden];
    work.emit(projectId, "leaderboard.entries_changed", { periodId: row.period_id, entries: [entry] });
  }
};
