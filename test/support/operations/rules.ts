import { profile, ruleDocument, smallRule, unique, webhookBody } from "./bodies.ts";
import type { Foreign, Known } from "./operations.ts";
import { startApp } from "../app/app.ts";
import { isOneTenant, type Side } from "../app/sides.ts";

const DAY_MS = 86_400_000;

const ofRule = (suffix = "", body: unknown = {}, steps: readonly string[] = []): Known => ({
  call: async (side) => ({ path: `/rules/${await side.rule(...steps)}${suffix}`, body }),
});

const span = () => ({
  from: new Date(Date.now() - DAY_MS).toISOString(),
  to: new Date(Date.now() + DAY_MS).toISOString(),
});

export const ruleOperations: Record<string, Known> = {
  listRules: { call: () => ({ path: "/rules" }) },
  createRule: { call: () => ({ path: "/rules", body: ruleDocument() }) },
  validateRule: { call: () => ({ path: "/rules/validate", body: ruleDocument() }) },
  simulateRules: {
    call: () => ({
      path: "/rules/simulate",
      body: {
        event: { eventType: "swept", properties: { a: { b: 1 } }, timestamp: new Date().toISOString() },
        player: { externalUserId: unique("user") },
        include: { published: true, drafts: [] },
        inline: [smallRule()],
        overrides: { limits: "IGNORE" },
      },
    }),
    also: [
      () => ({
        event: { eventType: "swept" },
        player: {
          snapshot: {
            level: 3,
            xp: 5,
            tags: ["a"],
            attributes: { c: 1 },
            timezone: "UTC",
            currencies: { coins: 5 },
            badges: { gold: { tier: 1, progress: 2 } },
            streaks: { daily: { current: 3 } },
            segments: ["vip"],
            counters: [{ metric: { eventTypes: ["swept"], aggregate: "count" }, value: 4 }],
          },
        },
      }),
    ],
  },
  getRule: ofRule(),
  updateRule: {
    call: async (side) => ({
      path: `/rules/${await side.rule()}`,
      body: { ...smallRule(), draftVersion: 1, description: null, limits: { cooldownSeconds: 5 } },
    }),
  },
  archiveRule: ofRule(),
  publishRule: {
    ...ofRule("/publish", { changeNote: "First", mode: "SHADOW" }),
    also: [() => ({ mode: "ACTIVE", backfill: true })],
  },
  pauseRule: ofRule("/pause", {}, ["publish"]),
  resumeRule: ofRule("/resume", {}, ["publish", "pause"]),
  shadowRule: ofRule("/shadow", {}, ["publish"]),
  duplicateRule: {
    call: async (side) => ({
      path: `/rules/${await side.rule()}/duplicate`,
      body: { key: unique("rule"), name: "A copy" },
    }),
  },
  listRuleVersions: ofRule("/versions", undefined, ["publish"]),
  rollbackRule: ofRule("/rollback", { version: 1 }, ["publish"]),
  orderRules: {
    call: async (side) => ({ path: "/rules/order", body: { ids: [await side.rule(), await side.rule()] } }),
    foreign: async (own, other) => [
      { path: "/rules/order", body: { ids: [await own.rule(), await other.rule()] }, status: 400 },
    ],
  },
  backtestRule: {
    call: async (side) => ({
      path: `/rules/${await side.rule()}/backtest`,
      body: { ...span(), sampleRate: 0.5 },
    }),
    also: [() => ({ ...span(), draft: true })],
  },
  listRuleExecutions: {
    call: async (side) => ({ path: `/rules/${await side.rule()}/executions` }),
    foreign: async (own, other) => [
      { path: `/rules/${await own.rule()}/executions?playerId=${await other.player()}` },
    ],
  },
  getRuleStats: {
    call: async (side) => ({ path: `/rules/${await side.rule()}/stats` }),
  },
  getRuleLift: { call: async (side) => ({ path: `/rules/${await side.rule()}/lift` }) },
  getRuleGraph: { call: () => ({ path: "/rules/graph" }) },
  getRuleCatalogue: { call: () => ({ path: "/rules/catalogue" }) },
  getEventTrace: { call: async (side) => ({ path: `/events/${await side.tracedEvent()}/trace` }) },
};

const ofPlayer = (suffix = "", body?: unknown): Known => ({
  call: async (side) => ({
    path: `/players/${await side.player()}${suffix}`,
    ...(body === undefined ? {} : { body }),
  }),
});

/** An id at another provider that a player has, as a path. */
const anIdentity = async (side: Side): Promise<string> => {
  const api = await startApp();
  const [player, externalId] = [await side.player(), unique("device")];
  const path = `/players/${player}/identities`;
  await api.post(`/api/v1${path}`, { provider: "device", externalId }, { key: side.tenant.key });
  return `${path}/device/${encodeURIComponent(externalId)}`;
};

const anAnonymous = async (side: Side): Promise<string> => {
  const api = await startApp();
  const externalUserId = unique("anonymous");
  await api.post("/api/v1/players", { externalUserId }, { key: side.tenant.key });
  return externalUserId;
};

const strategy = {
  xp: "MAX",
  currencies: "KEEP_TARGET",
  leaderboards: "KEEP_TARGET",
  profile: "SOURCE_WINS",
};

export const playerOperations: Record<string, Known> = {
  identifyPlayers: {
    call: () => ({
      path: "/players/batch",
      body: { players: [{ externalUserId: unique("user"), tags: ["a"], ...profile }] },
    }),
  },
  deletePlayer: ofPlayer(),
  setPlayerStatus: ofPlayer("/status", { status: "BANNED", reason: "Cheating" }),
  aliasPlayer: {
    call: async (side) => ({
      path: "/players/alias",
      body: { anonymousId: await anAnonymous(side), externalUserId: unique("user") },
    }),
  },
  listPlayerIdentities: ofPlayer("/identities"),
  addPlayerIdentity: {
    success: 201,
    call: async (side) => ({
      path: `/players/${await side.player()}/identities`,
      body: { provider: "device", externalId: unique("device") },
    }),
  },
  removePlayerIdentity: { call: async (side) => ({ path: await anIdentity(side) }) },
  mergePlayer: {
    call: async (side) => ({
      path: `/players/${await side.player()}/merge`,
      body: { sourcePlayerId: await side.player(), strategy, dryRun: false },
    }),
    foreign: async (own, other) => [
      {
        path: `/players/${await own.player()}/merge`,
        body: { sourcePlayerId: await other.player() },
      },
    ],
  },
  getPlayerState: {
    call: async (side) => {
      const player = await side.player();
      return { path: `/players/${player}/state?at=${encodeURIComponent(new Date().toISOString())}` };
    },
  },
  listPlayerMetrics: ofPlayer("/metrics?limit=5"),
  listPlayerActivity: ofPlayer("/activity?types=player.created&limit=5"),
  getPlayerRecap: {
    call: async (side) => {
      const [from, to] = [new Date(Date.now() - DAY_MS), new Date()].map((at) => at.toISOString());
      return { path: `/players/${await side.player()}/recap?from=${from}&to=${to}` };
    },
  },
  exportPlayer: ofPlayer("/export", {}),
  erasePlayer: ofPlayer("/erase", { dryRun: true, reason: "Asked for" }),
};

/** An operation on one webhook. */
const ofWebhook = (suffix = "", body?: unknown): Known => ({
  call: async (side) => ({ path: `/webhooks/${await side.webhook()}${suffix}`, body }),
});

/** A webhook of another tenant's project; one of another project of the tenant is right. */
const foreignProject = async (own: Side, other: Side, path: string): Promise<Foreign[]> =>
  isOneTenant(own, other) ? [] : [{ path, body: { ...webhookBody(), projectId: other.tenant.projectId } }];

/** Webhooks, what was sent to them, and the feed. */
export const webhookOperations: Record<string, Known> = {
  listWebhooks: { call: () => ({ path: "/webhooks?status=ACTIVE" }) },
  createWebhook: {
    call: ({ tenant }) => ({
      path: "/webhooks",
      body: { ...webhookBody(), secret: "a-secret-of-the-sweeps", projectId: tenant.projectId },
    }),
    foreign: (own, other) => foreignProject(own, other, "/webhooks"),
  },
  getWebhook: ofWebhook(),
  updateWebhook: {
    ...ofWebhook("", { ...webhookBody(), projectId: null, status: "PAUSED" }),
    foreign: async (own, other) => foreignProject(own, other, `/webhooks/${await own.webhook()}`),
  },
  deleteWebhook: ofWebhook(),
  recoverWebhook: ofWebhook("/recover", { since: "2026-01-01T00:00:00Z", until: "2026-01-02T00:00:00Z" }),
  testWebhook: ofWebhook("/test", { eventType: "player.level_up" }),
  listWebhookDeliveries: ofWebhook("/deliveries?status=failed&eventType=player.level_up"),
  getWebhookDelivery: { call: async (side) => ({ path: await side.delivery() }) },
  retryWebhookDelivery: { call: async (side) => ({ path: `${await side.delivery()}/retry`, body: {} }) },
  listWebhookEventTypes: { call: () => ({ path: "/webhooks/event-types" }) },
  listWebhookEvents: { call: () => ({ path: "/webhook-events?limit=5&types=player.created" }) },
  createTestWebhookEvent: {
    call: () => ({ path: "/webhook-events/test", body: { eventType: "player.level_up" } }),
  },
  rotateWebhookSecret: ofWebhook("/rotate-secret", {
    gracePeriodSeconds: 60,
    secret: "another-secret-of-the-sweeps",
  }),
};
