import { type RawBuilder, sql } from "kysely";
import { allLists, openLists } from "../leaderboards/open-lists.ts";
import { type Person, uuids } from "../players/player-refs.ts";
import type { EntryChange } from "../kernel/events/events.ts";
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

/** A table with rows of a person, and how they are handled when the person is erased. */
export type PersonalTable = {
  table: string;
  /** Selects the person's rows, as `t`. Uses an index. */
  isOf(person: Person): RawBuilder<unknown>;
  /** Sort order of an export. */
  orderBy: string;
  /**
   * DELETED at once; KEPT: identifying data is removed from the rows and the rest stays, see erase.ts;
   * NOTHING: it contains no personal data.
   */
  onErase: "DELETED" | "KEPT" | "NOTHING";
  /** A row `t` as exported, jsonb; absent: the whole row. */
  exported?: RawBuilder<unknown>;
  /** Omitted from exports, which contain it elsewhere or must not contain it. */
  isNotExported?: true;
};

export const byPlayer = ({ projectId, ids }: Person): RawBuilder<unknown> =>
  sql`t.project_id = ${projectId} and t.player_id = any(${uuids(ids)})`;

/** A table with the rows of a player under `project_id` and `player_id`. */
export const ofPlayer = (
  table: string,
  orderBy: string,
  onErase: PersonalTable["onErase"] = "DELETED",
): PersonalTable => ({ table, orderBy, onErase, isOf: byPlayer });

/** Leaderboard lists have no index by player. */
export const inLists = ({ projectId, ids }: Person): RawBuilder<unknown> => sql`
  t.project_id = ${projectId} and t.player_id = any(${uuids(ids)})
  and t.period_id in (${allLists(projectId)})`;
