import type { Cell } from "./permissions.ts";

const READ: Cell = { roles: "OAGDV", scope: "adventures:read" };
const MANAGE: Cell = { roles: "OAG", scope: "adventures:manage" };
const WRITE: Cell = { scope: "adventures:write" };

/** Who may call the operations of adventures. */
export const ADVENTURE_PERMISSIONS: Readonly<Record<string, Cell>> = {
  listAdventures: READ,
  getAdventure: READ,
  listAdventureVersions: READ,
  getAdventureStats: READ,
  createAdventure: MANAGE,
  updateAdventure: MANAGE,
  archiveAdventure: MANAGE,
  publishAdventure: MANAGE,
  pauseAdventure: MANAGE,
  resumeAdventure: MANAGE,
  endAdventure: MANAGE,
  duplicateAdventure: MANAGE,
  rollbackAdventure: MANAGE,
  listPlayerAdventures: READ,
  getPlayerAdventure: READ,
  joinPlayerAdventure: WRITE,
  claimPlayerAdventure: WRITE,
  claimPlayerAdventureTier: WRITE,
  givePlayerAdventurePremium: { roles: "OA", scope: "adventures:write" },
};
