import type { Access } from "../../src/domain/access.ts";
import type { Role } from "../../src/domain/caller.ts";

/** Who may call an operation: role letters, the scope of a key, the scope of a super-admin's token. */
type Cell = { roles?: string; scope?: string; admin?: string };

const LETTERS: Readonly<Record<string, Role>> = {
  O: "OWNER",
  A: "ADMIN",
  G: "DESIGNER",
  D: "DEVELOPER",
  V: "VIEWER",
};
const EVERY = "OAGDV";

const reads = (scope: string): Cell => ({ roles: EVERY, scope });
const own: Cell = { roles: EVERY };
const byAdmins: Cell = { roles: "OA" };
const byOwner: Cell = { roles: "O" };
const keys: Cell = { roles: "OAD" };
const superadmin: Cell = { admin: "*" };

/**
 * The permission matrix, by operation: written down apart from the routes, so that a route that opens a door
 * by mistake does not agree with it. "public" is open to everybody.
 */
export const PERMISSIONS: Readonly<Record<string, Cell | "public">> = {
  register: "public",
  getCaptcha: "public",
  login: "public",
  refreshSession: "public",
  forgotPassword: "public",
  resetPassword: "public",
  verifyEmail: "public",
  resendVerification: "public",
  listOAuthProviders: "public",
  startOAuth: "public",
  completeOAuth: "public",
  exchangeOAuthCode: "public",
  startOAuthLink: own,
  listIdentities: own,
  unlinkIdentity: own,
  logout: own,
  getAccount: own,
  updateAccount: own,
  changePassword: own,
  completeProfile: own,
  listSessions: own,
  revokeSession: own,
  createWsToken: reads("realtime:connect"),

  getTenant: own,
  updateTenant: byAdmins,
  deleteTenant: byOwner,
  restoreTenant: byOwner,
  transferOwnership: byOwner,
  requestApproval: byOwner,
  listMembers: own,
  getMember: own,
  addMember: byAdmins,
  updateMember: byAdmins,
  removeMember: byAdmins,
  removeMemberByQuery: byAdmins,
  leaveTeam: own,
  listInvitations: own,
  createInvitation: byAdmins,
  resendInvitation: byAdmins,
  revokeInvitation: byAdmins,
  revokeInvitationByQuery: byAdmins,
  readInvitation: "public",
  acceptInvitation: "public",
  listAuditLog: byAdmins,
  listEmailLogs: byAdmins,

  listProjects: reads("projects:read"),
  getProject: reads("projects:read"),
  createProject: byAdmins,
  updateProject: byAdmins,
  deleteProject: byAdmins,
  createSandbox: byAdmins,
  syncSandbox: byAdmins,

  listApiKeys: keys,
  getApiKey: keys,
  createApiKey: keys,
  updateApiKey: keys,
  rotateApiKey: keys,
  revokeApiKey: keys,

  trackEvent: { roles: "OAD", scope: "events:write" },
  trackEvents: { roles: "OAD", scope: "events:write" },
  listEvents: reads("events:read"),
  getEvent: reads("events:read"),

  listPlayers: reads("players:read"),
  getPlayer: reads("players:read"),
  identifyPlayer: { roles: "OA", scope: "players:write" },
  updatePlayer: { roles: "OA", scope: "players:write" },
  grantXp: { roles: "OA", scope: "players:write" },

  listLeaderboards: reads("leaderboards:read"),
  getLeaderboard: reads("leaderboards:read"),
  listLeaderboardEntries: reads("leaderboards:read"),
  getLeaderboardEntry: reads("leaderboards:read"),
  submitScore: { roles: "OA", scope: "leaderboards:write" },
  createLeaderboard: { roles: "OAG", scope: "leaderboards:manage" },
  updateLeaderboard: { roles: "OAG", scope: "leaderboards:manage" },
  archiveLeaderboard: { roles: "OAG", scope: "leaderboards:manage" },
  pauseLeaderboard: { roles: "OAG", scope: "leaderboards:manage" },
  resumeLeaderboard: { roles: "OAG", scope: "leaderboards:manage" },

  listRules: reads("rules:read"),
  getRule: reads("rules:read"),
  simulateRules: { roles: "OAGD", scope: "rules:read" },
  createRule: { roles: "OAG", scope: "rules:manage" },
  updateRule: { roles: "OAG", scope: "rules:manage" },
  archiveRule: { roles: "OAG", scope: "rules:manage" },
  publishRule: { roles: "OAG", scope: "rules:manage" },
  pauseRule: { roles: "OAG", scope: "rules:manage" },
  resumeRule: { roles: "OAG", scope: "rules:manage" },
  getLevelCurve: reads("config:read"),
  previewLevelCurve: { roles: "OAGD", scope: "config:read" },
  putLevelCurve: { roles: "OAG", scope: "config:manage" },
  exportConfig: reads("config:read"),
  diffConfig: { roles: "OAGD", scope: "config:read" },
  importConfig: { roles: "OAG", scope: "config:manage" },
  getProjectSettings: reads("config:read"),
  updateProjectSettings: { roles: "OA", scope: "config:manage" },
  listSegments: reads("config:read"),
  getSegment: reads("config:read"),
  createSegment: { roles: "OAG", scope: "config:manage" },
  updateSegment: { roles: "OAG", scope: "config:manage" },
  archiveSegment: { roles: "OAG", scope: "config:manage" },
  previewSegment: { roles: "OAGD", scope: "config:read" },
  listSegmentMembers: reads("players:read"),
  addSegmentMembers: { roles: "OAG", scope: "players:write" },
  removeSegmentMembers: { roles: "OAG", scope: "players:write" },
  listPlayerSegments: reads("players:read"),
  listLimits: "public",

  superadminLogin: "public",
  superadminLogout: superadmin,
  superadminChangePassword: superadmin,
  getSuperadmin: superadmin,
  getPlatformStats: superadmin,
  listPlatformTenants: superadmin,
  getPlatformTenant: superadmin,
  updatePlatformTenant: superadmin,
  approveTenant: superadmin,
  rejectTenant: superadmin,
  suspendTenant: superadmin,
  unsuspendTenant: superadmin,
  createPlatformToken: superadmin,
  listPlatformTokens: superadmin,
  revokePlatformToken: superadmin,
  listPlatformUsers: superadmin,
  getPlatformUser: superadmin,
  listPlatformAuditLog: superadmin,
  listPlatformEmailLogs: superadmin,
  resendEmail: superadmin,
  disableUser: superadmin,
  enableUser: superadmin,
  syncBlogPosts: { admin: "blog:sync" },
  listBlogPosts: "public",
  getBlogPost: "public",
  getIpRateLimit: superadmin,
  blockIp: superadmin,
  unblockIp: superadmin,
  resetIpRateLimit: superadmin,
  listIpBlocks: superadmin,
};

/** What the matrix says of an operation, in the form of a route's `access`. @throws Error without a row */
export const permissionOf = (
  id: string,
): Pick<Exclude<Access, "public">, "roles" | "scope" | "admin"> | "public" => {
  const cell = PERMISSIONS[id];
  if (cell === undefined) throw new Error(`test/support/permissions.ts has no row for the operation ${id}`);
  if (cell === "public") return "public";
  const { roles, ...rest } = cell;
  return {
    ...rest,
    ...(roles === undefined ? {} : { roles: [...roles].map((letter) => LETTERS[letter]!) }),
  } as Exclude<Access, "public">;
};
