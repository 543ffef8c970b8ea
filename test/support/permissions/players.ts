import type { Cell } from "./permissions.ts";

const read: Cell = { roles: "OAGDV", scope: "players:read" };
const write: Cell = { roles: "OA", scope: "players:write" };

/** Who may call the operations of players. */
export const PLAYER_PERMISSIONS: Readonly<Record<string, Cell>> = {
  listPlayers: read,
  getPlayer: read,
  identifyPlayer: write,
  updatePlayer: write,
  grantXp: write,
  identifyPlayers: write,
  deletePlayer: write,
  setPlayerStatus: write,
  aliasPlayer: write,
  listPlayerIdentities: read,
  addPlayerIdentity: write,
  removePlayerIdentity: write,
  mergePlayer: write,
  getPlayerState: read,
  listPlayerMetrics: read,
  listPlayerActivity: read,
  getPlayerRecap: read,
  exportPlayer: write,
  erasePlayer: write,
};
