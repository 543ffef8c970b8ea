import type { Cell } from "./permissions.ts";

const reads = (scope: string): Cell => ({ roles: "OAGDV", scope });
const superadmin: Cell = { admin: "*" };
const lobbies: Cell = { roles: "OA", scope: "lobbies:write" };
const ofPlayers: Cell = { scope: "chat:write" };
const ofPlayersAndAdmins: Cell = { roles: "OA", scope: "chat:write" };
const wordLists: Cell = { roles: "OAG", scope: "chat:moderate" };
const moderators: Cell = { roles: "OA", scope: "chat:moderate" };

/** Of lobbies, chat and rooms. */
export const LIVE_PERMISSIONS: Readonly<Record<string, Cell>> = {
  listLobbies: reads("lobbies:read"),
  getLobbyByCode: reads("lobbies:read"),
  getLobby: reads("lobbies:read"),
  createLobby: lobbies,
  quickplayLobby: lobbies,
  updateLobby: lobbies,
  updateLobbyMember: lobbies,
  joinLobby: lobbies,
  leaveLobby: lobbies,
  readyLobby: lobbies,
  beatLobby: lobbies,
  startLobby: lobbies,
  cancelLobbyStart: lobbies,
  closeLobby: lobbies,
  endLobbyGame: lobbies,
  kickFromLobby: lobbies,
  setLobbyHost: lobbies,
  inviteToLobby: lobbies,
  answerLobbyInvite: lobbies,
  listChatChannels: reads("chat:read"),
  getChatChannel: reads("chat:read"),
  createChatChannel: moderators,
  updateChatChannel: moderators,
  lockChatChannel: moderators,
  unlockChatChannel: moderators,
  archiveChatChannel: moderators,
  openDirectChannel: ofPlayers,
  listChatMembers: reads("chat:read"),
  updateChatMember: ofPlayersAndAdmins,
  listChatMessages: reads("chat:read"),
  sendChatMessage: ofPlayers,
  editChatMessage: ofPlayers,
  deleteChatMessage: ofPlayersAndAdmins,
  addChatReaction: ofPlayers,
  removeChatReaction: ofPlayers,
  markChatRead: ofPlayers,
  listChatSanctions: moderators,
  createChatSanction: moderators,
  getChatSanction: moderators,
  revokeChatSanction: moderators,
  answerChatAppeal: moderators,
  restoreChatMessage: moderators,
  listChatReports: moderators,
  getChatReport: moderators,
  updateChatReport: moderators,
  appealChatSanction: ofPlayers,
  reportChatMessage: ofPlayers,
  listChatWordLists: wordLists,
  getChatWordList: wordLists,
  putChatWordList: wordLists,
  deleteChatWordList: wordLists,
  testChatFilter: wordLists,
  listLiveRooms: superadmin,
  getLiveRoom: superadmin,
  listLiveProcesses: superadmin,
  disconnectLiveClient: superadmin,
};
