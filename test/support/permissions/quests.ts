import type { Cell } from "./permissions.ts";

const READ: Cell = { roles: "OAGDV", scope: "quests:read" };

/** Who may call the operations of quests. */
export const QUEST_PERMISSIONS: Readonly<Record<string, Cell>> = {
  listQuests: READ,
  getQuest: READ,
  listQuestVersions: READ,
  getQuestStats: READ,
  listQuestPlayers: READ,
  createQuest: { roles: "OAG", scope: "quests:manage" },
  updateQuest: { roles: "OAG", scope: "quests:manage" },
  archiveQuest: { roles: "OAG", scope: "quests:manage" },
  publishQuest: { roles: "OAG", scope: "quests:manage" },
  pauseQuest: { roles: "OAG", scope: "quests:manage" },
  resumeQuest: { roles: "OAG", scope: "quests:manage" },
  endQuest: { roles: "OAG", scope: "quests:manage" },
  duplicateQuest: { roles: "OAG", scope: "quests:manage" },
  rollbackQuest: { roles: "OAG", scope: "quests:manage" },
  listPlayerQuests: READ,
  getPlayerQuest: READ,
  startPlayerQuest: { scope: "quests:write" },
  abandonPlayerQuest: { scope: "quests:write" },
  claimPlayerQuest: { scope: "quests:write" },
  progressPlayerQuestStep: { scope: "quests:write" },
  submitPlayerQuestStep: { scope: "quests:write" },
  reviewPlayerQuestStep: { roles: "OAG", scope: "quests:write" },
  listQuestReviews: READ,
  addQuestCodes: { roles: "OAG", scope: "quests:manage" },
  resetPlayerQuest: { roles: "OA", scope: "quests:write" },
  completePlayerQuest: { roles: "OA", scope: "quests:write" },
  failPlayerQuest: { roles: "OA", scope: "quests:write" },
};

/** Who may call the operations of streaks. */
export const STREAK_PERMISSIONS: Readonly<Record<string, Cell>> = {
  listPlayerStreaks: { roles: "OAGDV", scope: "players:read" },
  getStreakHistory: { roles: "OAGDV", scope: "players:read" },
  giveStreakFreezes: { roles: "OA", scope: "players:write" },
  repairStreak: { roles: "OA", scope: "players:write" },
  resetStreak: { roles: "OA", scope: "players:write" },
  listStreaks: { roles: "OAGDV", scope: "config:read" },
  getStreak: { roles: "OAGDV", scope: "config:read" },
  createStreak: { roles: "OAG", scope: "config:manage" },
  updateStreak: { roles: "OAG", scope: "config:manage" },
  archiveStreak: { roles: "OAG", scope: "config:manage" },
};
