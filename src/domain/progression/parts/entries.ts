import { sql } from "kysely";
import type { PlayerState } from "../turn.ts";
import type { PlayerPart } from "./part.ts";

const rowsOf = ({ projectId, id, entries, dirty }: PlayerState) =>
  [...dirty.entries].map((periodId) => {
    const { rankScore, rankTie, latestUs, version } = entries.get(periodId)!;
    return { p: projectId, w: periodId, i: id, s: rankScore, t: rankTie, l: latestUs, v: version };
  });

/** Leaderboard entries of open periods. */
export const entries: PlayerPart = {
  tag: "e",
  isNeeded: ({ boards }) => boards.length > 0,
  load: (plans) => {
    const periodIds = plans.flatMap(({ boards }) => boards.map(({ periodId }) => periodId));
    return sql`
      select 'e', e.project_id, e.player_id, e.period_id::text,
        jsonb_build_array(e.rank_score, e.rank_tie, e.latest_us, e.version)
      from r cross join unnest(${`{${periodIds.join(",")}}`}::uuid[]) as w(period_id)
      cross join lateral (
        select * from leaderboard_entries e
        where e.project_id = r.p and e.period_id = w.period_id and e.player_id = r.i limit 1) e`;
  },
  read: (player, periodId, value) => {
    const [rankScore, rankTie, latestUs, version] = value as [number, number, number, number];
    player.entries.set(periodId, { rankScore, rankTie, latestUs, version });
  },
  arms: (players) => [
    {
      name: "e",
      rows: players.flatMap(rowsOf),
      write: (rows, now) => sql`
        insert into leaderboard_entries
          (project_id, period_id, player_id, rank_score, rank_tie, latest_us, version, updated_at)
        select p, w, i, s, t, l, v, ${now} from json_to_recordset(${rows}::json) as x(
          p uuid, w uuid, i uuid, s bigint, t bigint, l bigint, v int)
        on conflict (project_id, period_id, player_id) do update set rank_score = excluded.rank_score,
          rank_tie = excluded.rank_tie, latest_us = excluded.latest_us, version = excluded.version,
          updated_at = excluded.updated_at`,
    },
  ],
};
