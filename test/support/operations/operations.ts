import { randomUUID } from "node:crypto";
import { LIMITS } from "../../../src/domain/accounts/rate-limits/limiter.ts";
import { routes } from "../../../src/http/routes.ts";
import type { AnyRoute } from "../../../src/http/route.ts";
import type { Answer, TestApp } from "../app/app.ts";
import {
  boardDefinition,
  curve,
  event,
  eventMetric,
  exponential,
  profile,
  quadratic,
  table,
  unique,
} from "./bodies.ts";
import {
  analyticsExportOperations,
  analyticsOperations,
  analyticsOverviewOperations,
  configurationOperations,
  eventOperations,
  jobOperations,
} from "./analytics.ts";
import { analyticsReportOperations } from "./analytics-reports.ts";
import { aCurrency, economyOperations } from "./economy.ts";
import {
  authOperations,
  billingOperations,
  domainOperations,
  emailOperations,
  keyOperations,
  rateLimitOperations,
  registrationOperations,
} from "./auth.ts";
import { rewardOperations } from "./rewards.ts";
import { playerOperations, ruleOperations, webhookOperations } from "./rules.ts";
import {
  leaderboardEntryOperations,
  leaderboardPeriodOperations,
  scoreOperations,
  streakOperations,
} from "./leaderboards.ts";
import { segmentOperations } from "./segments.ts";
import { mfaOperations } from "./mfa.ts";
import { adminOperations } from "./admin.ts";
import { oauthOperations, ssoOperations, teamOperations } from "./sso.ts";
import { chatModerationOperations, chatOperations, liveRoomOperations } from "./chat.ts";
import { lobbyOperations } from "./lobbies.ts";
import { adventureOperations } from "./adventures.ts";
import { questOperations } from "./quests.ts";
import { isOneTenant, type Side } from "../app/sides.ts";

/**
 * What a valid request of an operation looks like: bare path with its query, the body, and the access token
 * where the call uses its caller up (logging out).
 */
export type Call = {
  path: string;
  body?: unknown;
  token?: string;
  headers?: Record<string, string>;
};
export type As = "key" | "user";
export type Foreign = Call & { status?: number; reason?: string };

/** One operation as the sweeps know it. `call` makes what it acts on, so that every call can succeed. */
export type Operation = {
  route: AnyRoute;
  success: number;
  call: (side: Side, as: As) => Promise<Call> | Call;
  /** Further valid bodies, with fields that the first cannot have. */
  also?: readonly (() => unknown)[];
  /** Ids of the other side beyond the path's own, for a caller of `own`: each must answer 404, or as told. */
  foreign?: (own: Side, other: Side, as: As) => Promise<Foreign[]>;
};

export type Known = Omit<Operation, "route" | "success"> & { success?: number };
const get = (path: string): Known => ({ call: () => ({ path }) });
const ofBoard = (suffix = "", body: unknown = {}): Known => ({
  call: async (side) => ({ path: `/leaderboards/${await side.board()}${suffix}`, body }),
});
const KNOWN: Record<string, Known> = {
  ...analyticsExportOperations,
  ...analyticsReportOperations,
  ...jobOperations,
  ...analyticsOperations,
  ...webhookOperations,
  ...streakOperations,
  ...questOperations,
  ...analyticsOverviewOperations,
  ...adventureOperations,
  ...lobbyOperations,
  ...chatModerationOperations,
  ...chatOperations,
  ...adminOperations,
  ...economyOperations,
  ...keyOperations,
  ...registrationOperations,
  ...segmentOperations,
  ...eventOperations,
  ...rewardOperations,
  ...rateLimitOperations,
  ...configurationOperations,
  ...authOperations,
  ...mfaOperations,
  register: {
    call: () => ({
      path: "/auth/register",
      body: { email: `${randomUUID()}@example.com`, password: "Correct-horse-7", name: "Ada Lovelace" },
    }),
  },
  login: {
    call: ({ tenant: { email, password } }) => ({ path: "/auth/login", body: { email, password } }),
  },
  createWsToken: {
    call: ({ tenant }, as) => ({
      path: "/auth/ws-token",
      body: as === "key" ? { externalUserId: unique("user") } : { projectId: tenant.projectId },
    }),
    foreign: async (own, other, as) => {
      const path = "/auth/ws-token";
      const { projectId } = other.tenant;
      if (as === "user") return isOneTenant(own, other) ? [] : [{ path, body: { projectId } }];
      return [
        { path, body: { playerId: await other.player() } },
        { path, body: { projectId, externalUserId: "u" }, status: 403, reason: "PROJECT_MISMATCH" },
      ];
    },
  },

  trackEvent: {
    call: () => ({ path: "/events", body: event() }),
    foreign: async (own, other, as) =>
      as === "user" && isOneTenant(own, other)
        ? []
        : [{ path: "/events", body: event({ projectId: other.tenant.projectId }), status: 400 }],
  },
  // A foreign project is a REJECTED item; test/http/isolation.test.ts looks at it.
  trackEvents: { call: () => ({ path: "/events/batch", body: { events: [event()] } }) },
  listEvents: get("/events"),
  getBacklog: get("/events/backlog"),
  getEvent: { call: async (side) => ({ path: `/events/${await side.event()}` }) },

  search: get("/search?q=a"),
  listPlayers: { call: async (side) => ({ path: `/players?currencyKey=${await aCurrency(side)}` }) },
  identifyPlayer: {
    success: 201,
    call: () => ({ path: "/players", body: { externalUserId: unique("user"), tags: ["a"], ...profile } }),
  },
  getPlayer: { call: async (side) => ({ path: `/players/${await side.player()}` }) },
  updatePlayer: {
    call: async (side) => ({
      path: `/players/${await side.player()}`,
      body: { ...profile, addTags: ["b"], removeTags: ["a"] },
    }),
  },
  grantXp: {
    call: async (side) => ({
      path: `/players/${await side.player()}/xp`,
      body: { amount: 5, reason: "swept", reference: randomUUID() },
    }),
  },

  createLeaderboard: {
    call: () => ({ path: "/leaderboards", body: boardDefinition() }),
    also: [() => ({ key: unique("board"), name: "Sum", metric: eventMetric, backfill: true })],
  },
  listLeaderboards: get("/leaderboards"),
  getLeaderboard: ofBoard(),
  updateLeaderboard: ofBoard("", {
    name: "New",
    description: null,
    ties: "DENSE",
    displayLimit: 5,
    version: 1,
  }),
  archiveLeaderboard: ofBoard(),
  pauseLeaderboard: ofBoard("/pause"),
  resumeLeaderboard: {
    call: async (side) => ({ path: `/leaderboards/${await side.pausedBoard()}/resume`, body: {} }),
  },
  ...leaderboardEntryOperations,
  ...leaderboardPeriodOperations,
  ...ruleOperations,
  getLevelCurve: get("/level-curve"),
  putLevelCurve: {
    call: () => ({ path: "/level-curve", body: { ...curve, recalculate: "SILENT" } }),
    also: [table, exponential, quadratic].map((one) => () => one),
  },
  previewLevelCurve: {
    call: () => ({ path: "/level-curve/preview", body: curve }),
    also: [table, exponential, quadratic].map((one) => () => one),
  },
  listLimits: get("/limits"),
  ...emailOperations,
  ...playerOperations,
  ...scoreOperations,
  ...teamOperations,
  ...oauthOperations,
  ...liveRoomOperations,
  ...ssoOperations,
  ...domainOperations,
  ...billingOperations,
};

/** Every operation of the API. @throws Error for a route that nobody has described here */
export const operations = (): Operation[] =>
  routes.map((route) => {
    const known = KNOWN[route.id];
    if (!known) throw new Error(`test/support/operations has no ${route.id}`);
    return { route, success: route.status ?? 200, ...known };
  });

/** Ids that no route has any more. */
export const forgottenOperations = (): string[] => {
  const ids = new Set(routes.map((route) => route.id));
  return Object.keys(KNOWN).filter((name) => !ids.has(name));
};

/** Whom an operation is open to. */
export type Caller = As | "anybody" | "super-admin";
export const callersOf = ({ access }: AnyRoute): Caller[] => {
  if (access === "public") return ["anybody"];
  if (access.admin !== undefined) return ["super-admin"];
  return [
    ...(access.scope === undefined ? [] : ["key" as const]),
    ...(access.roles ? ["user" as const] : []),
  ];
};
/** How a caller's calls are made. */
export const asOf = (caller: Caller): As => (caller === "key" ? "key" : "user");

/** Credentials that the operation is open to: the side's key, its OWNER's token, or the super-admin's. */
export const credentialsFor = (
  { access }: AnyRoute,
  { tenant: { key, token, projectId } }: Side,
  admin: string,
): { key?: string; token?: string; headers?: Record<string, string> } => {
  if (access === "public") return {};
  if (access.admin !== undefined) return { token: admin };
  return access.scope === undefined ? { token, headers: { "X-Project-ID": projectId } } : { key };
};

/** The limits of people are smaller than a sweep. */
export const forgetLimits = async ({ app }: TestApp, { tenant }: Side, adminId: string): Promise<void> => {
  for (const limit of [LIMITS.user, LIMITS.userReads]) await app.limiter.reset(limit, tenant.userId);
  await app.limiter.reset(LIMITS.admin, adminId);
};

/** Sends a call; a user's call that names its own token is made with that one. */
export const send = (
  api: TestApp,
  { method, body: schema }: AnyRoute,
  { path, body, token, headers }: Call,
  options: { key?: string; token?: string; headers?: Record<string, string>; isUnchecked?: boolean } = {},
): Promise<Answer> => {
  const takesBody = method !== "get" && (method !== "delete" || schema !== undefined);
  const hasBody = takesBody && body !== undefined;
  const isOwn = token !== undefined && options.token !== undefined;
  return api.request(method.toUpperCase(), `/api/v1${path}`, {
    ...options,
    headers: { ...options.headers, ...headers },
    ...(isOwn ? { token } : {}),
    ...(hasBody ? { body } : {}),
  });
};
