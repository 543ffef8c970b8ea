import { type RawBuilder, sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { type LeaveReason, removeMember } from "./membership.ts";
import { changeMember } from "./edit.ts";

/** Ids of the player and of everybody who was merged into them. */
type Ids = { projectId: string; ids: readonly string[] };

const uuids = (ids: readonly string[]) => sql`${`{${ids.join(",")}}`}::uuid[]`;

/** Results without a game's data about a person. */
const withoutStats = (results: RawBuilder<unknown>, ids: readonly string[]) => sql`(
  select json_agg(case when (r.one->>'playerId')::uuid = any(${uuids(ids)})
    then (r.one::jsonb - 'stats')::json else r.one end order by r.n)
  from json_array_elements(${results}) with ordinality as r(one, n))`;

/**
 * Erases what a person has written in their lobbies, whose members still know them: the stats of their
 * results, and the name and data of lobbies that closed with them as host.
 * @returns the number of lobbies
 */
export const eraseLobbies = async ({ db }: Work, { projectId, ids }: Ids): Promise<number> => {
  const isHosted = sql`l.host_player_id = any(${uuids(ids)})`;
  const found = await sql`
    with mine as materialized (
      select distinct lobby_id as id from lobby_members
      where project_id = ${projectId} and player_id = any(${uuids(ids)})),
    hosted as materialized (
      select l.id, l.mode from lobbies l join mine on l.id = mine.id
      where l.project_id = ${projectId} and ${isHosted} and l.status = 'CLOSED'),
    channels as (
      update chat_channels c set name = hosted.mode from hosted
      where c.project_id = ${projectId} and c.lobby_id = hosted.id),
    matches as (
      update lobby_matches m set results = ${withoutStats(sql`m.results`, ids)} from mine
      where m.project_id = ${projectId} and m.lobby_id = mine.id and m.results is not null)
    update lobbies l set results = ${withoutStats(sql`l.results`, ids)},
      name = coalesce(h.mode, l.name),
      metadata = case when h.id is null then l.metadata else '{}' end,
      private_data = case when h.id is null then l.private_data else '{}' end
    from mine left join hosted h on h.id = mine.id
    where l.project_id = ${projectId} and l.id = mine.id returning 1`.execute(db);
  return found.rows.length;
};

/**
 * Removes a player from all lobbies, for example when they are banned, merged or erased. The player is
 * locked, so that no other seat is taken meanwhile.
 */
export const leaveLobbies = async (
  work: Work,
  { projectId, playerId }: { projectId: string; playerId: string },
  reason: LeaveReason,
): Promise<void> => {
  const { rows } = await sql<{ lobbyId: string }>`
    select lobby_id as "lobbyId" from lobby_members
    where project_id = ${projectId} and player_id = ${playerId}
      and status in ('JOINED', 'READY', 'DISCONNECTED')
    order by lobby_id`.execute(work.db);
  for (const { lobbyId } of rows)
    await changeMember(work, { projectId, lobbyId }, playerId, (edit, member) =>
      removeMember(edit, member, reason),
    );
};
