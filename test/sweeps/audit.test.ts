import assert from "node:assert/strict";
import { sql } from "kysely";
import { anAdmin } from "../support/app/admin.ts";
import { startApp } from "../support/app/app.ts";
import { anAddress, must } from "../support/http/client.ts";
import { aMember } from "../support/app/member.ts";
import { unique } from "../support/operations/bodies.ts";
import {
  type As,
  credentialsFor,
  forgetLimits,
  type Operation,
  operations,
  send,
} from "../support/operations/operations.ts";
import { aSide } from "../support/app/sides.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

type Row = { action: string; tenant: string | null; text: string };

/** Changes that leave no line in the audit log, and why. */
const WITHOUT: Readonly<Record<string, string>> = {
  register: "opens an account, which its tenant's people see as a member",
  completeProfile: "one's own name",
  updateAccount: "one's own name; an address that changes is told when it does",
  forgotPassword: "a mail to whoever has the address",
  resendVerification: "a mail to whoever has the address",
  verifyEmail: "one's own address, shown by the member",
  login: "a session, which is listed",
  completeLogin: "a session, which is listed",
  loginWithPasskey: "a session, which is listed",
  startPasskeyLogin: "changes nothing",
  verifySecondFactor: "changes nothing but for how long its session is trusted",
  setUpTotp: "a secret that does not count before its first code, which is told",
  setUpSuperadminTotp: "a secret that does not count before its first code, which is told",
  startPasskey: "changes nothing",
  startSuperadminPasskey: "changes nothing",
  renamePasskey: "one's own name for it",
  renameSuperadminPasskey: "one's own name for it",
  refreshSession: "a session, which is listed",
  logout: "one's own session",
  exchangeOAuthCode: "a session, which is listed",
  startOAuthLink: "changes nothing; the link itself is told",
  discoverSso: "reads, and changes nothing",
  completeSsoSaml: "a session, which is listed; whoever is made or linked is told",
  createBillingPortal: "a page of Stripe for what its caller may do there",
  receiveBillingEvent: "a reason to read from Stripe; what that changes is logged",
  testSso: "changes nothing but when it was tested",
  queryAnalyticsFunnel: "reads, and changes nothing",
  queryAnalyticsPlayers: "reads, and changes nothing",
  createWsToken: "a token of 15 minutes for what its caller may see",
  trackEvent: "events are kept themselves",
  trackEvents: "events are kept themselves",
  identifyPlayer: "players are data, and not the tenant's settings",
  updatePlayer: "players are data, and not the tenant's settings",
  grantXp: "the ledger has who granted",
  identifyPlayers: "players are data, and not the tenant's settings",
  aliasPlayer: "the player stream has who was renamed, by whom",
  addPlayerIdentity: "players are data, and not the tenant's settings",
  removePlayerIdentity: "players are data, and not the tenant's settings",
  grantCurrency: "the ledger has who granted",
  spendCurrency: "the ledger has who spent",
  holdCurrency: "holds are kept themselves",
  captureHold: "the ledger has who captured",
  releaseHold: "holds are kept themselves",
  consumeLives: "the ledger has who took them",
  grantLives: "the ledger has who granted; unlimited lives are told in the player's stream",
  startPlayerBoost: "boosts are data of a player, with their cause",
  endPlayerBoost: "boosts are data of a player, and their end is told in the player's stream",
  awardBadge: "badge_awards has who awarded",
  progressBadge: "progress is data of a player; awards that follow from it are logged",
  revokeBadge: "badge_awards has who took it away",
  purchaseReward: "grants are kept themselves, with who asked",
  grantReward: "grants are kept themselves, with who granted",
  claimReward: "grants are kept themselves",
  fulfilReward: "grants are kept themselves, and it is told in the player's stream",
  sendMessage: "messages are kept themselves",
  readMessage: "one's own message",
  giveStreakFreezes: "streaks are data of a player",
  repairStreak: "streaks are data of a player; what is paid is in the ledger",
  resetStreak: "streaks are data of a player, told in the player's stream",
  startPlayerQuest: "quests are progress of a player, told in the player's stream",
  submitPlayerQuestStep: "what is submitted is kept itself; rewards that follow are in the ledger",
  progressPlayerQuestStep: "progress is data of a player; rewards that follow are in the ledger",
  abandonPlayerQuest: "the player's own wish",
  claimPlayerQuest: "the ledger has what was claimed",
  completePlayerQuest: "the ledger has what was given, and the player's stream the quest",
  failPlayerQuest: "quests are progress of a player, told in the player's stream",
  resetPlayerQuest: "quests are progress of a player",
  joinPlayerAdventure: "adventures are progress of a player, told in the player's stream",
  claimPlayerAdventure: "the ledger has what was claimed",
  claimPlayerAdventureTier: "the ledger has what was claimed",
  givePlayerAdventurePremium: "told in the player's stream; what is paid is in the ledger",
  openDirectChannel: "a channel of two players, who see it",
  sendChatMessage: "messages are kept themselves",
  editChatMessage: "messages are kept themselves, former texts too",
  deleteChatMessage: "a player's own message, which is kept; what a moderator removes has a line",
  addChatReaction: "reactions are kept themselves",
  removeChatReaction: "a player's own reaction",
  markChatRead: "a player's own mark",
  reportChatMessage: "reports are kept themselves",
  appealChatSanction: "a player's own appeal, kept with the sanction",
  testChatFilter: "writes nothing",
  rebuildLeaderboard: "changes nothing that is kept",
  submitScore: "scores are data, and not the tenant's settings",
  submitScores: "scores are data, and not the tenant's settings",
  createLobby: "lobbies are play: their events tell what happened",
  quickplayLobby: "lobbies are play: their events tell what happened",
  updateLobby: "lobbies are play: their events tell what happened",
  updateLobbyMember: "lobbies are play: their events tell what happened",
  joinLobby: "lobbies are play: their events tell what happened",
  leaveLobby: "lobbies are play: their events tell what happened",
  readyLobby: "lobbies are play: their events tell what happened",
  beatLobby: "lobbies are play: their events tell what happened",
  startLobby: "lobbies are play: their events tell what happened",
  cancelLobbyStart: "lobbies are play: their events tell what happened",
  closeLobby: "lobbies are play: their events tell what happened",
  endLobbyGame: "lobbies are play: their events tell what happened",
  kickFromLobby: "lobbies are play: their events tell what happened",
  setLobbyHost: "lobbies are play: their events tell what happened",
  inviteToLobby: "lobbies are play: their events tell what happened",
  answerLobbyInvite: "lobbies are play: their events tell what happened",
  createTestWebhookEvent: "an event for a try, which is in the feed itself",
  simulateRules: "writes nothing",
  validateRule: "writes nothing",
  previewLevelCurve: "writes nothing",
  previewSegment: "writes nothing",
  diffConfig: "writes nothing",
};
/** Calls of the sweeps that do two things at once. */
const SEVERAL: Readonly<Record<string, readonly string[]>> = {
  updateMember: ["member.suspended", "member.role_changed"],
  syncSandbox: ["sandbox.created", "sandbox.synced"],
  createAnalyticsSegment: ["segment.created", "segment.members_added"],
};
const OF_PLATFORM = /^(platform_\w+|ip|blog_posts)\./;

const isSecretName = (name: string): boolean =>
  /password|token$|^code$|^ticket$|^secret$|signature/i.test(name);

/** Texts of a body that nobody may read later. */
const secretsIn = (value: unknown, name = ""): string[] => {
  if (typeof value === "string")
    return isSecretName(name) || (value.startsWith("svc_") && value.length > 20) ? [value] : [];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([field, item]) => secretsIn(item, field));
};

const changing = operations().filter(({ route }) => route.method !== "get");

describe("the audit log, for every operation that changes something", () => {
  const api = madeOnce(startApp);
  const side = madeOnce(() => aSide(api));
  const admin = madeForEach(() => anAdmin(api));
  beforeEach(async () => {
    await forgetLimits(api, side, admin.adminId);
  });

  const rowsOf = (requestId: string): Promise<Row[]> =>
    api.app.transact(async ({ db }) => {
      const { rows } = await sql<Row>`
        select action, tenant_id as tenant, to_jsonb(a)::text as text from audit_log a
        where request_id = ${requestId} order by id`.execute(db);
      return rows;
    });

  const run = async (operation: Operation): Promise<Row[]> => {
    const { route, success } = operation;
    const as: As = route.access !== "public" && route.access.scope !== undefined ? "key" : "user";
    const call = await operation.call(side, as);
    const requestId = unique("audited").replaceAll(/[^\w-]/g, "-");
    const credentials = credentialsFor(route, side, admin.token);
    const headers = { ...credentials.headers, "X-Request-Id": requestId };
    const answer = await send(api, route, call, { ...credentials, headers });
    assert.equal(answer.status, success, JSON.stringify(answer.body));
    const rows = await rowsOf(requestId);
    const secrets = [...secretsIn(call.body), ...secretsIn(answer.body), credentials.token, credentials.key];
    for (const { text } of rows)
      for (const secret of secrets.filter((one) => one !== undefined))
        assert.ok(!text.includes(secret.slice(-20)), `${text} holds a secret`);
    return rows;
  };

  it("is named by a reason where it has nothing to tell", () => {
    const ids = changing.map(({ route }) => route.id);
    assert.deepEqual(
      [...Object.keys(WITHOUT), ...Object.keys(SEVERAL)].filter((id) => !ids.includes(id)),
      [],
    );
  });

  for (const operation of changing) {
    const { id } = operation.route;
    const count = SEVERAL[id]?.length ?? (WITHOUT[id] === undefined ? 1 : 0);
    it(`has ${count === 0 ? "no line" : "one line for each change"}, without a secret: ${id}`, async () => {
      const rows = await run(operation);
      assert.equal(rows.length, count, rows.map(({ action }) => action).join());
      if (SEVERAL[id]) assert.deepEqual(rows.map(({ action }) => action).toSorted(), SEVERAL[id].toSorted());
      for (const { action, tenant, text } of rows) {
        assert.match(action, /^[a-z_]+\.[a-z_]+$/);
        assert.equal(tenant === null, OF_PLATFORM.test(action), `${action} is of ${tenant}`);
        const { target_type: type, target_id: target } = JSON.parse(text) as Record<string, string>;
        if (type === "tenant") assert.equal(tenant, target);
      }
    });
  }

  it("of a tenant does not tell from where the platform's people work", async () => {
    const member = await aMember(api, side.tenant.tenantId, "VIEWER");
    const [from, reason] = [anAddress(), "Fraud"];
    const path = `/api/v1/superadmin/users/${member.userId}/disable`;
    const headers = { "X-Forwarded-For": from };
    must(await api.post(path, { reason }, { token: admin.token, headers }), 200);
    const query = "audit-log?action=user.disabled&limit=1";
    const [theirs] = must(await api.get(`/api/v1/${query}`, { token: side.tenant.token }), 200).data;
    const [ours] = must(await api.get(`/api/v1/superadmin/${query}`, { token: admin.token }), 200).data;
    assert.deepEqual([theirs.target.id, theirs.actor, theirs.ip], [member.userId, ours.actor, ""]);
    assert.deepEqual([ours.target.id, ours.ip], [member.userId, from]);
  });
});
