import { type RawBuilder, sql } from "kysely";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { Work } from "../kernel/work.ts";
import type { Board } from "../evaluation/boards/board.ts";
import { markList } from "../evaluation/boards/lists.ts";
import type { Ranked, Standing, Ties } from "../evaluation/boards/ranks.ts";

/**
 * Start of a sequence of neighbours that is to be numbered: position and displayed rank of its first member.
 */
type RunStart = { ties: Ties; position: number; rank: number };

/** Numbers consecutive members in storage order. */
export const numberStandings = (
  { ties, position, rank }: RunStart,
  members: readonly Ranked[],
): Standing[] => {
  const standings: Standing[] = [];
  for (const [i, member] of members.entries()) {
    const before = standings[i - 1];
    const at = position + i;
    standings.push({ ...member, position: at, rank: before ? rankAfter(ties, before, member, at) : rank });
  }
  return standings;
};

const rankAfter = (ties: Ties, before: Standing, member: Ranked, position: number): number => {
  if (ties === "EARLIEST" || ties === "LATEST") return position + 1;
  if (member.rankScore === before.rankScore) return before.rank;
  return ties === "SHARED" ? position + 1 : before.rank + 1;
};

/**
 * Returns the first position of a window of `limit` around `position`: the player is in the middle, except
 * near the ends.
 */
export const windowStart = (position: number, total: number, limit: number): number =>
  Math.max(0, Math.min(position - Math.floor((limit - 1) / 2), total - limit));

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

/** Ids of the only list of boards without periods: it has no row of its own before a reset. */
const plainLists = (projectId: string): RawBuilder<unknown> =>
  sql`select period_id from leaderboards where project_id = ${projectId}`;

/** Subquery: the ids of a project's lists that accept scores, including those of boards without periods. */
export const openLists = (projectId: string): RawBuilder<unknown> => sql`
  ${plainLists(projectId)} union
  select id from leaderboard_periods where project_id = ${projectId} and status = 'OPEN'`;

/** Subquery: the ids of all lists of a project that have entries. */
export const allLists = (projectId: string): RawBuilder<unknown> => sql`
  ${plainLists(projectId)} union
  select id from leaderboard_periods where project_id = ${projectId} and status <> 'ARCHIVED'`;
