import type { Read } from "../../kernel/read.ts";
import type { PlayerStatus } from "../../players/player.ts";

/** A lobby by its id or code, and who stands before it; null for a console user. */
export type Approach = {
  projectId: string;
  playerId: string | null;
  lobbyId: string | undefined;
  code: string | undefined;
};

/** What decides how somebody enters a lobby. */
export type Door = {
  /** Of the player; null for one that does not exist. */
  playerStatus: PlayerStatus | null;
  /** Null for a lobby that does not exist; a code is that of an open lobby. */
  lobbyId: string | null;
  hasPasscode: boolean;
  /** Whether the player has a seat there, or watches. */
  isMember: boolean;
};

const DOOR = `
  select (select status from players where project_id = $1 and id = $2 limit 1) as "playerStatus",
    l.id as "lobbyId", l.passcode_hash is not null as "hasPasscode",
    exists (select from lobby_members m
      where m.project_id = $1 and m.lobby_id = l.id and m.player_id = $2
        and m.status in ('JOINED', 'READY', 'DISCONNECTED') and l.status <> 'CLOSED') as "isMember"
  from (select 1) one left join lateral (
    select id, passcode_hash, status from lobbies where project_id = $1 and id = $3
    union all
    select id, passcode_hash, status from lobbies
    where project_id = $1 and code = $4 and status <> 'CLOSED'
    limit 1) l on true`;

/** Reads with one statement what decides about a join. */
export const readDoor = async (
  read: Read,
  { projectId, playerId, lobbyId, code }: Approach,
): Promise<Door> => {
  const values = [projectId, playerId, lobbyId ?? null, code?.toUpperCase() ?? null];
  const [door] = await read<Door>({ text: DOOR, values });
  return door!;
};
