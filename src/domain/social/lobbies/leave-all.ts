import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { type LeaveReason, removeMember } from "./membership.ts";
import { memberOf } from "./state.ts";
import { saveEdit, takeLobby } from "./edit.ts";

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
  for (const { lobbyId } of rows) {
    const edit = await takeLobby(work, { projectId, lobbyId });
    const member = edit && memberOf(edit.lobby, playerId);
    if (!edit || !member) continue;
    removeMember(edit, member, reason);
    await saveEdit(edit);
  }
};
