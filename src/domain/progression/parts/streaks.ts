import { sql } from "kysely";
import type { Json } from "../../kernel/events/events.ts";
import type { StreakState } from "../../evaluation/player-state.ts";
import { at, changesOf, msOf, type PlayerPart, rowsOfPlayer } from "./part.ts";

/** Streaks of a player. `due_at` is when the sweeper must look at it (economy/streaks/due.ts). */
export const streaks: PlayerPart = {
  tag: "s",
  isNeeded: (plan) => plan.streaks.size > 0,
  load: () => sql`
    select 's', r.p, r.i, s.streak_key, json_build_array(s.current, s.longest, s.freezes,
      ${msOf("s.deadline_at")}, s.doc)
    ${rowsOfPlayer("player_streaks", "streak_key, current, longest, freezes, deadline_at, doc")}`,
  read: (player, key, value) => {
    const [current, longest, freezes, deadlineMs, doc] = value as [
      number,
      number,
      number,
      number | null,
      Json,
    ];
    player.streaks.set(key, { current, longest, freezes, deadlineMs, doc });
  },
  arms: (players) => [
    {
      name: "s",
      rows: changesOf<StreakState>(players, "streaks").map(({ player, key, value }) => {
        const dueMs = value!.doc["dueMs"] ?? null;
        return { p: player.projectId, i: player.id, k: key, ...value!, dueMs };
      }),
      write: (rows, now) => sql`
        insert into player_streaks
          (project_id, player_id, streak_key, current, longest, freezes, deadline_at, due_at, doc, updated_at)
        select p, i, k, current, longest, freezes, ${at('x."deadlineMs"')}, ${at('x."dueMs"')}, doc, ${now}
        from json_to_recordset(${rows}::json) as x(p uuid, i uuid, k text, current int, longest int,
          freezes int, "deadlineMs" float8, "dueMs" float8, doc jsonb)
        on conflict (project_id, player_id, streak_key) do update set current = excluded.current,
          longest = excluded.longest, freezes = excluded.freezes, deadline_at = excluded.deadline_at,
          due_at = excluded.due_at, doc = excluded.doc, updated_at = excluded.updated_at`,
    },
  ],
};
