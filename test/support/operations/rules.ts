import { ruleDocument, smallRule, unique } from "./bodies.ts";
import type { Known } from "./operations.ts";

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
