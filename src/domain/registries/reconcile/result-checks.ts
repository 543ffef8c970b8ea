import { sql } from "kysely";
import { type Check, idsOf } from "./finding.ts";

/**
 * I13: a place of a closed list has the score of the player's entry, while entries are kept. A merged player
 * may have two places, of which one entry is left.
 */
export const checkResults: Check = async (work, page) => {
  const { rows } = await sql<{ player_id: string; message: string }>`
    select r.player_id, format('%s of %s: the result is %s, the entry %s', l.key, p.period_key, r.rank_score,
      e.rank_score) as message
    from leaderboard_results r
    join leaderboard_periods p on p.project_id = r.project_id and p.id = r.period_id and p.status = 'CLOSED'
    join leaderboards l on l.project_id = p.project_id and l.id = p.leaderboard_id
    join leaderboard_entries e on e.project_id = r.project_id and e.period_id = r.period_id
      and e.player_id = r.player_id
    where r.project_id = ${page.projectId} and r.player_id = any(${idsOf(page)}::uuid[])
      and (e.rank_score, e.rank_tie) <> (r.rank_score, r.rank_tie)
      and not exists (
        select 1 from leaderboard_results o
        where o.project_id = r.project_id and o.player_id = r.player_id and o.period_id = r.period_id
          and o.position <> r.position)`.execute(work.db);
  return rows.map(({ player_id: playerId, message }) => ({
    invariant: "I13",
    projectId: page.projectId,
    playerId,
    message,
    isRepairable: false,
  }));
};
