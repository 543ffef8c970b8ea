import assert from "node:assert/strict";
import type { SqlEntityManager } from "@mikro-orm/sql";
import { type RawBuilder, sql } from "kysely";

/**
 * Holds all lobbies of a database against I10: seats are counted and not oversold, a player has one seat of a
 * mode, a version is told once, a lobby ends once, and a match begins once and is ended once.
 */
export const assertLobbies = async (em: SqlEntityManager): Promise<void> => {
  const none = async (what: string, query: RawBuilder<unknown>): Promise<void> => {
    const { rows } = await query.execute(em.fork().getKysely());
    assert.deepEqual(rows, [], what);
  };
  await none(
    "lobbies whose count is not that of their members, or beyond their seats",
    sql`
      select l.id from lobbies l left join lateral (
        select count(*) filter (where role = 'PLAYER') as players,
          count(*) filter (where role = 'SPECTATOR') as spectators
        from lobby_members m
        where m.project_id = l.project_id and m.lobby_id = l.id and m.is_active) c on true
      where (l.member_count, l.spectator_count) <> (c.players, c.spectators) or c.players > l.max_players`,
  );
  await none(
    "hosts who have no seat",
    sql`
      select l.id from lobbies l
      where l.status <> 'CLOSED' and l.host_player_id is not null and not exists (
        select from lobby_members m where m.project_id = l.project_id and m.lobby_id = l.id
          and m.player_id = l.host_player_id and m.is_active and m.role = 'PLAYER')`,
  );
  await none(
    "players with two seats of a mode",
    sql`
      select player_id from lobby_members where is_active and role = 'PLAYER'
      group by project_id, player_id, mode having count(*) > 1`,
  );
  await none(
    "lobbies whose versions were not told once each",
    sql`
      select l.id from lobbies l left join (
        select project_id, data->>'lobbyId' as id, count(*) as n, max((data->>'version')::int) as last,
          count(distinct data->>'version') as versions
        from outbox where type = 'lobby.changed' group by 1, 2) o
          on o.project_id = l.project_id and o.id = l.id::text
      where (l.version, l.version, l.version) is distinct from (o.n, o.last, o.versions)`,
  );
  await none(
    "lobbies that were not told once that they ended, or were and did not",
    sql`
      select l.id from lobbies l left join (
        select project_id, data->>'lobbyId' as id, count(*) as n
        from outbox where type = 'lobby.ended' group by 1, 2) o
          on o.project_id = l.project_id and o.id = l.id::text
      where coalesce(o.n, 0) <> case when l.status = 'CLOSED' then 1 else 0 end`,
  );
  await none(
    "matches that did not begin once, or were not finished as often as they have results",
    sql`
      select m.id from lobby_matches m left join (
        select project_id, data->>'matchId' as id, count(*) filter (where type = 'lobby.started') as begun,
          count(*) filter (where type = 'lobby.game_finished') as finished
        from outbox where type in ('lobby.started', 'lobby.game_finished') group by 1, 2) o
          on o.project_id = m.project_id and o.id = m.id::text
      where (o.begun, o.finished) is distinct from (1, case when m.results is null then 0 else 1 end)`,
  );
  await none(
    "players of finished matches without exactly one event of their result",
    sql`
      select m.id from lobby_matches m
      where m.results is not null and jsonb_array_length(m.players) <> (
        select count(*) from tracked_events e
        where e.project_id = m.project_id and e.event_type = 'lobby.result'
          and e.properties->>'matchId' = m.id::text)`,
  );
};
