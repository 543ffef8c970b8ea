import { sql } from "kysely";
import type { BoostState } from "../../evaluation/player-state.ts";
import { at, changesOf, msOf, type PlayerPart, rowsOfPlayer } from "./part.ts";

const ms = (column: string) => msOf(`s.${column}`);

/** Boosts of a single player. Expired ones are deleted. */
export const boosts: PlayerPart = {
  tag: "f",
  isNeeded: () => true,
  load: () => sql`
    select 'f', r.p, r.i, s.id::text, json_build_object('id', s.id, 'boostKey', s.boost_key,
      'applies', s.applies, 'factor', s.factor, 'stacking', s.stacking, 'startsMs', ${ms("starts_at")},
      'expiresMs', ${ms("expires_at")}, 'usesLeft', s.uses_left, 'cause', s.cause)
    ${rowsOfPlayer("player_boosts", "*")}`,
  read: (player, id, value) => void player.boosts.set(id, value as BoostState),
  arms: (players) => {
    const changed = changesOf<BoostState>(players, "boosts");
    return [
      {
        name: "fg",
        rows: changed
          .filter(({ value }) => value === undefined)
          .map(({ player, key }) => ({ p: player.projectId, i: player.id, k: key })),
        write: (rows) => sql`
          delete from player_boosts t using json_to_recordset(${rows}::json) as x(p uuid, i uuid, k uuid)
          where t.project_id = x.p and t.player_id = x.i and t.id = x.k`,
      },
      {
        name: "f",
        rows: changed.flatMap(({ player, value }) =>
          value === undefined ? [] : [{ p: player.projectId, i: player.id, ...value }],
        ),
        write: (rows) => sql`
          insert into player_boosts (project_id, player_id, id, boost_key, applies, factor, stacking,
            starts_at, expires_at, uses_left, cause)
          select p, i, id, "boostKey", applies, factor, stacking, ${at('x."startsMs"')},
            ${at('x."expiresMs"')}, "usesLeft", cause
          from json_to_recordset(${rows}::json) as x(p uuid, i uuid, id uuid, "boostKey" text, applies text,
            factor float8, stacking text, "startsMs" float8, "expiresMs" float8, "usesLeft" int, cause jsonb)
          on conflict (project_id, player_id, id) do update set factor = excluded.factor,
            starts_at = excluded.starts_at, expires_at = excluded.expires_at, uses_left = excluded.uses_left`,
      },
    ];
  },
};
