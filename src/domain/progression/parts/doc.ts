import { sql } from "kysely";
import type { PlayerDoc } from "../player-state.ts";
import { type PlayerPart, rowsOfPlayer } from "./part.ts";

/** Counters and limit state. */
export const doc: PlayerPart = {
  tag: "d",
  isNeeded: () => true,
  load: () => sql`select 'd', r.p, r.i, null, s.doc
    ${rowsOfPlayer("player_states", "doc")}`,
  read: (player, _ref, value) => void (player.doc = value as PlayerDoc),
  arms: (players) => [
    {
      name: "d",
      rows: players.filter(({ dirty }) => dirty.doc).map((t) => ({ p: t.projectId, i: t.id, d: t.doc })),
      write: (rows) => sql`
        insert into player_states (project_id, player_id, doc)
        select p, i, d from json_to_recordset(${rows}::json) as x(p uuid, i uuid, d jsonb)
        on conflict (project_id, player_id) do update set doc = excluded.doc`,
    },
  ],
};
