import { sql } from "kysely";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { Work } from "../kernel/work.ts";
import type { Board } from "../evaluation/boards/board.ts";
import { markList } from "../evaluation/boards/lists.ts";

type Row = {
  id: string;
  leaderboard_id: string;
  period_key: string;
  board: string;
  starts: number | null;
  ends: number | null;
};

/** Adds every open list in which one of the players has an entry to what is loaded with them. */
export const touchOpenLists = async (
  { db }: Work,
  players: readonly PlayerState[],
  boards: readonly Board[],
): Promise<void> => {
  const [first] = players;
  if (!first) return;
  const ids = `{${players.map(({ id }) => id).join(",")}}`;
  const found = await sql<Row>`
    select s.id, s.leaderboard_id, s.period_key, s.board,
      floor(extract(epoch from s.starts_at) * 1000) as starts,
      floor(extract(epoch from s.ends_at) * 1000) as ends
    from leaderboard_periods s
    where s.project_id = ${first.projectId} and s.status = 'OPEN' and exists (
      select 1 from unnest(${ids}::uuid[]) as i(id)
      join leaderboard_entries e on e.project_id = s.project_id and e.period_id = s.id
        and e.player_id = i.id)`.execute(db);
  const byId = new Map(boards.map((board) => [board.id, board]));
  for (const row of found.rows) {
    const board = byId.get(row.leaderboard_id);
    if (!board || row.id === board.periodId) continue;
    const window = { key: row.period_key, startsAtMs: row.starts, endsAtMs: row.ends };
    for (const player of players) markList(player, { id: row.id, board, window, value: row.board });
  }
};
