import { sql } from "kysely";
import { conflict, forbidden, notFound } from "../../kernel/errors.ts";
import type { PlayerRef } from "../../kernel/events/events.ts";
import { type ProjectSettings, settingsFrom } from "../../evaluation/project-settings.ts";
import type { Work } from "../../kernel/work.ts";

/** A locked player who requests a seat. */
export type SeatPlayer = PlayerRef & { displayName: string | null; onePerMode: boolean };

type Row = PlayerRef & { displayName: string | null; status: string; settings: Partial<ProjectSettings> };

/**
 * Locks a player who requests a seat, before any lobby: a player who is being banned is either refused here,
 * or the ban finds the seat. Concurrent requests of one player are serialized.
 * @throws DomainError NOT_FOUND; FORBIDDEN PLAYER_BANNED; CONFLICT PLAYER_INACTIVE
 */
export const lockSeatPlayer = async (
  { db }: Work,
  projectId: string,
  playerId: string,
): Promise<SeatPlayer> => {
  const { rows } = await sql<Row>`
    select p.id as "playerId", p.external_user_id as "externalUserId", p.display_name as "displayName",
      p.status, r.settings
    from players p join projects r on r.id = p.project_id
    where p.project_id = ${projectId} and p.id = ${playerId}
    for no key update of p`.execute(db);
  const [row] = rows;
  if (!row || row.status === "ERASED") throw notFound("player");
  const { status, settings, ...player } = row;
  if (status === "BANNED") throw forbidden("PLAYER_BANNED", "the player is banned");
  if (status !== "ACTIVE") throw conflict("PLAYER_INACTIVE", `the player is ${status}`);
  return { ...player, onePerMode: settingsFrom(settings).lobby.onePerMode };
};

/** Scope in which a player may have one seat. */
export const seatKeyOf = ({ onePerMode }: SeatPlayer, mode: string, lobbyId: string): string =>
  onePerMode ? mode : `${mode}#${lobbyId}`;

/** The player is locked. @throws DomainError CONFLICT ALREADY_IN_LOBBY */
export const refuseSeated = async (
  { db }: Work,
  projectId: string,
  { playerId, seatKey }: { playerId: string; seatKey: string },
): Promise<void> => {
  const { rows } = await sql<{ lobby_id: string }>`
    select lobby_id from lobby_members
    where project_id = ${projectId} and player_id = ${playerId} and mode = ${seatKey} and role = 'PLAYER'
      and status in ('JOINED', 'READY', 'DISCONNECTED')`.execute(db);
  const [seat] = rows;
  if (seat) throw conflict("ALREADY_IN_LOBBY", `the player is in a lobby of this mode: ${seat.lobby_id}`);
};
