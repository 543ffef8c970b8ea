import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import type { LobbyRef } from "./state.ts";

/** A lobby, and its members who were connected by socket according to their last report. */
export type SocketMembers = LobbyRef & { playerIds: string[] };

/** Number of lobbies per page. */
export const SOCKET_LOBBIES_MAX = 10_000;
/** Members of a lobby that has changed since then may be reconnecting. */
const QUIET_MS = 10_000;

/**
 * Returns lobbies of all projects that have not changed for a moment and have members connected by socket: a
 * page in the order of ids after `after`.
 */
export const findSocketMembers = async ({ db, now }: Work, after: string): Promise<SocketMembers[]> => {
  const before = new Date(now.getTime() - QUIET_MS).toISOString();
  const { rows } = await sql<SocketMembers>`
    select m.project_id as "projectId", m.lobby_id as "lobbyId", json_agg(m.player_id) as "playerIds"
    from lobby_members m
    join lobbies l on l.project_id = m.project_id and l.id = m.lobby_id
    where m.status in ('JOINED', 'READY') and m.presence = 'SOCKET' and m.lobby_id > ${after}::uuid
      and l.updated_at < ${before}::timestamptz
    group by m.project_id, m.lobby_id
    order by m.lobby_id limit ${SOCKET_LOBBIES_MAX}`.execute(db);
  return rows;
};
