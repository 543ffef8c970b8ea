import { sql } from "kysely";
import type { PlayerDoc } from "../../evaluation/player-state.ts";
import type { PlayerPart } from "./part.ts";

/**
 * Counters and limit state. The documents and their sizes are selected as part of `r`; see load-states.ts.
 */
export const doc: PlayerPart = {
  tag: "d",
  isNeeded: () => true,
  load: () => sql`select 'd', r.p, r.i, r.bytes::text, r.doc::json from r where r.doc is not null`,
  read: (player, bytes, value) => {
    player.doc = value as PlayerDoc;
    player.docSize = { bytes: Number(bytes), isExact: false, isPruned: false };
  },
  arms: (players) => [
    {
      name: "d",
      rows: players.filter(({ dirty }) => dirty.doc).map((t) => ({ p: t.projectId, i: t.id, d: t.doc })),
      write: (rows) => sql`
        insert into player_states (project_id, player_id, doc, bytes)
        select p, i, d::jsonb, octet_length(d::text)
        from json_to_recordset(${rows}::json) as x(p uuid, i uuid, d json)
        on conflict (project_id, player_id) do update set doc = excluded.doc, bytes = excluded.bytes`,
    },
  ],
};
