import { sql } from "kysely";
import { at, changesOf, msOf, type PlayerPart, rowsOfPlayer } from "./part.ts";

/** Segment memberships. */
export const segments: PlayerPart = {
  tag: "x",
  isNeeded: (plan) => plan.segments.size > 0,
  load: () => sql`
    select 'x', r.p, r.i, s.segment_key, to_json(${msOf("s.entered_at")})
    ${rowsOfPlayer("player_segments", "segment_key, entered_at")}`,
  read: (player, key, value) => void player.segments.set(key, Number(value)),
  arms: (players) => {
    const changed = changesOf<number>(players, "segments").map(({ player, key, value }) => ({
      p: player.projectId,
      i: player.id,
      k: key,
      x: value,
    }));
    return [
      {
        name: "xg",
        rows: changed.filter(({ x }) => x === undefined),
        write: (rows) => sql`
          delete from player_segments t using json_to_recordset(${rows}::json) as x(p uuid, i uuid, k text)
          where t.project_id = x.p and t.player_id = x.i and t.segment_key = x.k`,
      },
      {
        name: "x",
        rows: changed.filter(({ x }) => x !== undefined),
        write: (rows) => sql`
          insert into player_segments (project_id, player_id, segment_key, entered_at)
          select p, i, k, ${at("x.x")} from json_to_recordset(${rows}::json) as x(
            p uuid, i uuid, k text, x float8)
          on conflict (project_id, player_id, segment_key) do update set entered_at = excluded.entered_at
          where player_segments.entered_at <> excluded.entered_at`,
      },
    ];
  },
};
