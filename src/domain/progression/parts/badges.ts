import { sql } from "kysely";
import type { BadgeState } from "../../evaluation/player-state.ts";
import { at, changesOf, msOf, type PlayerPart } from "./part.ts";

const ms = (column: string) => msOf(`s.${column}`);

/**
 * Maximum badges of a project including archived ones: a held badge that is not loaded would be awarded
 * again.
 */
const HELD_MAX = 10_000;

/** Badges held and in progress. */
export const badges: PlayerPart = {
  tag: "g",
  isNeeded: (plan) => plan.badges.size > 0,
  load: () => sql`
    select 'g', r.p, r.i, s.badge_key, json_build_array(s.tier, s.progress, s.times_awarded, s.serial_no,
      ${ms("first_earned_at")}, ${ms("last_earned_at")}, ${ms("revoked_at")})
    from r cross join lateral (
      select * from player_badges s where s.project_id = r.p and s.player_id = r.i
      limit ${HELD_MAX}) s`,
  read: (player, key, value) => {
    const [tier, progress, timesAwarded, serialNo, first, last, revoked] = value as [
      number,
      number,
      number,
      ...(number | null)[],
    ];
    player.badges.set(key, {
      tier,
      progress,
      timesAwarded,
      serialNo: serialNo ?? null,
      firstEarnedMs: first ?? null,
      lastEarnedMs: last ?? null,
      revokedMs: revoked ?? null,
    });
  },
  arms: (players) => [
    {
      name: "g",
      rows: changesOf<BadgeState>(players, "badges").map(({ player, key, value }) => ({
        p: player.projectId,
        i: player.id,
        k: key,
        ...value!,
      })),
      write: (rows, now) => sql`
        insert into player_badges (project_id, player_id, badge_key, tier, progress, times_awarded, serial_no,
          first_earned_at, last_earned_at, revoked_at, updated_at)
        select p, i, k, tier, progress, "timesAwarded", "serialNo", ${at('x."firstEarnedMs"')},
          ${at('x."lastEarnedMs"')}, ${at('x."revokedMs"')}, ${now}
        from json_to_recordset(${rows}::json) as x(p uuid, i uuid, k text, tier int, progress float8,
          "timesAwarded" int, "serialNo" bigint, "firstEarnedMs" float8, "lastEarnedMs" float8,
          "revokedMs" float8)
        on conflict (project_id, player_id, badge_key) do update set tier = excluded.tier,
          progress = excluded.progress, times_awarded = excluded.times_awarded,
          serial_no = excluded.serial_no, first_earned_at = excluded.first_earned_at,
          last_earned_at = excluded.last_earned_at, revoked_at = excluded.revoked_at,
          updated_at = excluded.updated_at`,
    },
  ],
};
