import { randomUUID } from "node:crypto";
import { routes } from "../../src/http/routes.ts";
import type { AnyRoute } from "../../src/http/route.ts";
import { type Answer, aTenant, type Tenant, type TestApp } from "./app.ts";

/** A tenant's project and makers of fresh things in it. */
export type Side = {
  tenant: Tenant;
  /** A draft, taken through the steps, such as publish. */
  rule(...steps: readonly string[]): Promise<string>;
  board(): Promise<string>;
  /** A board's id and a player who has a score on it. */
  entry(): Promise<{ board: string; player: string }>;
  player(): Promise<string>;
  event(): Promise<string>;
  apiKey(): Promise<string>;
  project(): Promise<string>;
};

/** What a valid request of an operation looks like: bare path with its query, and the body. */
export type Call = { path: string; body?: unknown };
export type As = "key" | "user";
export type Foreign = Call & { status?: number; reason?: string };

/** One operation as the sweeps know it. `call` makes what it acts on, so that every call can succeed. */
export type Operation = {
  route: AnyRoute;
  success: number;
  call: (side: Side, as: As) => Promise<Call> | Call;
  /** Ids of the other side beyond the path's own, for a caller of `own`: each must answer 404, or as told. */
  foreign?: (own: Side, other: Side, as: As) => Promise<Foreign[]>;
};

const unique = (prefix: string): string => `${prefix}-${randomUUID().slice(0, 13)}`;
const id = (answer: Answer): string => {
  if (answer.status !== 201) throw new Error(`${answer.status}: ${JSON.stringify(answer.body)}`);
  return answer.body.id as string;
};

export const ruleDocument = () => ({
  key: unique("rule"),
  name: "A rule",
  triggers: [{ kind: "EVENT", eventTypes: ["swept"] }],
  actions: [{ type: "grant_xp", amount: 1 }],
});
export const boardDefinition = () => ({
  key: unique("board"),
  name: "A board",
  metric: { source: "CUSTOM" },
  operator: "BEST",
});
const curve = { type: "LINEAR", params: { base: 100, maxLevel: 10 } };

export const aSide = async (api: TestApp, given?: Tenant): Promise<Side> => {
  const tenant = given ?? (await aTenant(api));
  const { key, token, projectId } = tenant;
  const post = (path: string, body: unknown) => api.post(`/api/v1${path}`, body, { key });
  const side: Side = {
    tenant,
    rule: async (...steps) => {
      const rule = id(await post("/rules", ruleDocument()));
      for (const step of steps) await post(`/rules/${rule}/${step}`, {});
      return rule;
    },
    board: async () => id(await post("/leaderboards", boardDefinition())),
    entry: async () => {
      const [board, player] = [await side.board(), await side.player()];
      await post(`/leaderboards/${board}/scores`, { playerId: player, score: 5 });
      return { board, player };
    },
    player: async () => id(await post("/players", { externalUserId: unique("user") })),
    event: async () => {
      const sent = await post("/events?wait=true", { externalUserId: unique("user"), eventType: "seen" });
      return sent.body.eventId as string;
    },
    apiKey: async () =>
      id(await api.post(`/api/v1/projects/${projectId}/api-keys`, { name: "A key" }, { token })),
    project: async () => id(await api.post("/api/v1/projects", { name: "Another game" }, { token })),
  };
  return side;
};

/** A second project of the same tenant, with a key of its own; `tenant.projectId` is that project. */
export const aSecondSide = async (api: TestApp, { tenant }: Side): Promise<Side> => {
  const { token } = tenant;
  const projectId = id(await api.post("/api/v1/projects", { name: "Second game" }, { token }));
  const made = await api.post(
    `/api/v1/projects/${projectId}/api-keys`,
    { name: "A key", scopes: ["*"] },
    { token },
  );
  return aSide(api, { ...tenant, projectId, key: made.body.key as string });
};

type Known = Omit<Operation, "route" | "success"> & { success?: number };
const get = (path: string): Known => ({ call: () => ({ path }) });
const ofRule = (suffix = "", body: unknown = {}, steps: readonly string[] = []): Known => ({
  call: async (side) => ({ path: `/rules/${await side.rule(...steps)}${suffix}`, body }),
});
const ofBoard = (suffix = "", body: unknown = {}): Known => ({
  call: async (side) => ({ path: `/leaderboards/${await side.board()}${suffix}`, body }),
});
const ofKeys = (side: Side): string => `/projects/${side.tenant.projectId}/api-keys`;
const isOneTenant = (a: Side, b: Side): boolean => a.tenant.tenantId === b.tenant.tenantId;
const event = (more: object = {}) => ({ externalUserId: unique("user"), eventType: "swept", ...more });

const KNOWN: Record<string, Known> = {
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

  listProjects: get("/projects"),
  createProject: { call: () => ({ path: "/projects", body: { name: "A game" } }) },
  getProject: { call: ({ tenant }) => ({ path: `/projects/${tenant.projectId}` }) },
  updateProject: {
    call: ({ tenant }) => ({ path: `/projects/${tenant.projectId}`, body: { description: "New" } }),
  },
  deleteProject: { call: async (side) => ({ path: `/projects/${await side.project()}` }) },

  listApiKeys: { call: (side) => ({ path: ofKeys(side) }) },
  createApiKey: { call: (side) => ({ path: ofKeys(side), body: { name: "A key" } }) },
  getApiKey: {
    call: async (side) => ({ path: `${ofKeys(side)}/${await side.apiKey()}` }),
    foreign: async (own, other) => [{ path: `${ofKeys(own)}/${await other.apiKey()}` }],
  },
  revokeApiKey: {
    call: async (side) => ({ path: `${ofKeys(side)}/${await side.apiKey()}` }),
    foreign: async (own, other) => [{ path: `${ofKeys(own)}/${await other.apiKey()}` }],
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
  getEvent: { call: async (side) => ({ path: `/events/${await side.event()}` }) },

  listPlayers: get("/players"),
  identifyPlayer: {
    success: 201,
    call: () => ({ path: "/players", body: { externalUserId: unique("user") } }),
  },
  getPlayer: { call: async (side) => ({ path: `/players/${await side.player()}` }) },
  updatePlayer: {
    call: async (side) => ({ path: `/players/${await side.player()}`, body: { displayName: "New" } }),
  },
  grantXp: { call: async (side) => ({ path: `/players/${await side.player()}/xp`, body: { amount: 5 } }) },

  createLeaderboard: { call: () => ({ path: "/leaderboards", body: boardDefinition() }) },
  listLeaderboards: get("/leaderboards"),
  getLeaderboard: ofBoard(),
  updateLeaderboard: ofBoard("", { name: "New" }),
  archiveLeaderboard: ofBoard(),
  pauseLeaderboard: ofBoard("/pause"),
  resumeLeaderboard: ofBoard("/resume"),
  listLeaderboardEntries: {
    call: async (side) => ({ path: `/leaderboards/${await side.board()}/entries` }),
    foreign: async (own, other) => {
      const [{ board }, player] = [await own.entry(), await other.player()];
      const path = `/leaderboards/${board}/entries`;
      return [{ path: `${path}?around=${player}` }, { path: `${path}?playerId=${player}` }];
    },
  },
  getLeaderboardEntry: {
    call: async (side) => {
      const { board, player } = await side.entry();
      return { path: `/leaderboards/${board}/players/${player}` };
    },
    foreign: async (own, other) => [
      { path: `/leaderboards/${(await own.entry()).board}/players/${(await other.entry()).player}` },
    ],
  },
  submitScore: {
    call: async (side) => {
      const [board, playerId] = [await side.board(), await side.player()];
      return { path: `/leaderboards/${board}/scores`, body: { playerId, score: 7 } };
    },
    foreign: async (own, other) => [
      {
        path: `/leaderboards/${await own.board()}/scores`,
        body: { playerId: await other.player(), score: 7 },
      },
    ],
  },

  listRules: get("/rules"),
  createRule: { call: () => ({ path: "/rules", body: ruleDocument() }) },
  simulateRules: {
    call: () => ({
      path: "/rules/simulate",
      body: { event: { eventType: "swept" }, player: { externalUserId: unique("user") } },
    }),
  },
  getRule: ofRule(),
  updateRule: ofRule("", { draftVersion: 1, name: "New" }),
  archiveRule: ofRule(),
  publishRule: ofRule("/publish"),
  pauseRule: ofRule("/pause", {}, ["publish"]),
  resumeRule: ofRule("/resume", {}, ["publish", "pause"]),

  getLevelCurve: get("/level-curve"),
  putLevelCurve: { call: () => ({ path: "/level-curve", body: curve }) },
  previewLevelCurve: { call: () => ({ path: "/level-curve/preview", body: curve }) },
  listLimits: get("/limits"),
};

/** Every operation of the API. @throws Error for a route that nobody has described here */
export const operations = (): Operation[] =>
  routes.map((route) => {
    const known = KNOWN[route.id];
    if (!known) throw new Error(`test/support/operations.ts does not know the operation ${route.id}`);
    return { route, success: route.status ?? 200, ...known };
  });

/** Ids that no route has any more. */
export const forgottenOperations = (): string[] => {
  const ids = new Set(routes.map((route) => route.id));
  return Object.keys(KNOWN).filter((name) => !ids.has(name));
};

export const send = (
  api: TestApp,
  { method }: AnyRoute,
  { path, body }: Call,
  options: { key?: string; token?: string; headers?: Record<string, string>; isUnchecked?: boolean } = {},
): Promise<Answer> => {
  const hasBody = method !== "get" && method !== "delete" && body !== undefined;
  return api.request(method.toUpperCase(), `/api/v1${path}`, { ...options, ...(hasBody ? { body } : {}) });
};
