import type { AnyRoute } from "../../../src/http/route.ts";
import type { Caller } from "./operations.ts";

/** Changes that leave no line in the audit log, by why not. */
const BY_REASON: Readonly<Record<string, string>> = {
  "opens an account, which its tenant's people see as a member": "register",
  "one's own name": "completeProfile",
  "one's own name; an address that changes is told when it does": "updateAccount",
  "a mail to whoever has the address": "forgotPassword resendVerification",
  "one's own address, shown by the member": "verifyEmail",
  "a session, which is listed": "login completeLogin loginWithPasskey refreshSession exchangeOAuthCode",
  "changes nothing": "startPasskeyLogin startPasskey startSuperadminPasskey",
  "changes nothing but for how long its session is trusted": "verifySecondFactor",
  "a secret that does not count before its first code, which is told": "setUpTotp setUpSuperadminTotp",
  "one's own name for it": "renamePasskey renameSuperadminPasskey",
  "one's own session": "logout",
  "changes nothing; the link itself is told": "startOAuthLink",
  "reads, and changes nothing": "discoverSso queryAnalyticsFunnel queryAnalyticsPlayers",
  "a session, which is listed; whoever is made or linked is told": "completeSsoSaml",
  "a page of Stripe for what its caller may do there": "createBillingPortal",
  "a reason to read from Stripe; what that changes is logged": "receiveBillingEvent",
  "changes nothing but when it was tested": "testSso",
  "a token of 15 minutes for what its caller may see": "createWsToken",
  "events are kept themselves": "trackEvent trackEvents",
  "players are data, and not the tenant's settings": `
    identifyPlayer updatePlayer identifyPlayers addPlayerIdentity removePlayerIdentity`,
  "the ledger has who granted": "grantXp grantCurrency",
  "the player stream has who was renamed, by whom": "aliasPlayer",
  "the ledger has who spent": "spendCurrency",
  "holds are kept themselves": "holdCurrency releaseHold",
  "the ledger has who captured": "captureHold",
  "the ledger has who took them": "consumeLives",
  "the ledger has who granted; unlimited lives are told in the player's stream": "grantLives",
  "boosts are data of a player, with their cause": "startPlayerBoost",
  "boosts are data of a player, and their end is told in the player's stream": "endPlayerBoost",
  "badge_awards has who awarded": "awardBadge",
  "progress is data of a player; awards that follow from it are logged": "progressBadge",
  "badge_awards has who took it away": "revokeBadge",
  "grants are kept themselves, with who asked": "purchaseReward",
  "grants are kept themselves, with who granted": "grantReward",
  "grants are kept themselves": "claimReward",
  "grants are kept themselves, and it is told in the player's stream": "fulfilReward",
  "messages are kept themselves": "sendMessage sendChatMessage",
  "one's own message": "readMessage",
  "streaks are data of a player": "giveStreakFreezes",
  "streaks are data of a player; what is paid is in the ledger": "repairStreak",
  "streaks are data of a player, told in the player's stream": "resetStreak",
  "quests are progress of a player, told in the player's stream": "startPlayerQuest failPlayerQuest",
  "what is submitted is kept itself; rewards that follow are in the ledger": "submitPlayerQuestStep",
  "progress is data of a player; rewards that follow are in the ledger": "progressPlayerQuestStep",
  "the player's own wish": "abandonPlayerQuest",
  "the ledger has what was claimed": "claimPlayerQuest claimPlayerAdventure claimPlayerAdventureTier",
  "the ledger has what was given, and the player's stream the quest": "completePlayerQuest",
  "quests are progress of a player": "resetPlayerQuest",
  "adventures are progress of a player, told in the player's stream": "joinPlayerAdventure",
  "told in the player's stream; what is paid is in the ledger": "givePlayerAdventurePremium",
  "a channel of two players, who see it": "openDirectChannel",
  "messages are kept themselves, former texts too": "editChatMessage",
  "a player's own message, which is kept; what a moderator removes has a line": "deleteChatMessage",
  "reactions are kept themselves": "addChatReaction",
  "a player's own reaction": "removeChatReaction",
  "a player's own mark": "markChatRead",
  "reports are kept themselves": "reportChatMessage",
  "a player's own appeal, kept with the sanction": "appealChatSanction",
  "writes nothing": "testChatFilter simulateRules validateRule previewLevelCurve previewSegment diffConfig",
  "changes nothing that is kept": "rebuildLeaderboard",
  "scores are data, and not the tenant's settings": "submitScore submitScores",
  "lobbies are play: their events tell what happened": `
    createLobby quickplayLobby updateLobby updateLobbyMember joinLobby leaveLobby readyLobby beatLobby
    startLobby cancelLobbyStart closeLobby endLobbyGame kickFromLobby setLobbyHost inviteToLobby
    answerLobbyInvite`,
  "an event for a try, which is in the feed itself": "createTestWebhookEvent",
};

/** Why an operation leaves no line in the audit log, by its id. */
const UNAUDITED: ReadonlyMap<string, string> = new Map(
  Object.entries(BY_REASON).flatMap(([reason, ids]) =>
    ids
      .trim()
      .split(/\s+/)
      .map((id) => [id, reason] as const),
  ),
);

/** Calls that owe other lines than their operation does: for two changes, or for a moderator's. */
const OWED: Readonly<Record<string, readonly string[]>> = {
  "updateMember by user": ["member.role_changed", "member.suspended"],
  "syncSandbox by user": ["sandbox.created", "sandbox.synced"],
  "createAnalyticsSegment by key": ["segment.created", "segment.members_added"],
  "createAnalyticsSegment by user": ["segment.created", "segment.members_added"],
  "deleteChatMessage by user": ["chat_message.removed"],
};

/** Whether these are the lines of the audit log that a call owes. */
export const isOwed = ({ id, method }: AnyRoute, caller: Caller, actions: readonly string[]): boolean => {
  const owed = OWED[`${id} by ${caller}`];
  if (owed) return actions.toSorted().join() === owed.join();
  return actions.length === (method === "get" || UNAUDITED.has(id) ? 0 : 1);
};

/** Ids in these tables, which should all be of operations. */
export const auditedIds = (): string[] => [
  ...UNAUDITED.keys(),
  ...Object.keys(OWED).map((name) => name.split(" ")[0]!),
];
