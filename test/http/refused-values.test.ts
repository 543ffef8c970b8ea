import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { refuseHostile } from "../../src/domain/kernel/hostile-json.ts";
import type { AnyRoute } from "../../src/http/route.ts";
import { routes } from "../../src/http/routes.ts";
import { anAdmin } from "../support/app/admin.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, must } from "../support/http/client.ts";
import { parseBody, parseParams, queryChecker } from "../../src/http/validate.ts";

const text = (length: number): string => "x".repeat(length);
const many = (count: number): string[] => Array.from({ length: count }, (_, i) => `t${i}`);
const ID = randomUUID();

/** An operation, a body, query or path that it takes, and for each field the values that it refuses instead. */
type Refused = readonly [operation: string, valid: object, refused: Record<string, readonly unknown[]>];

const PLAYERS: Refused[] = [
  [
    "updatePlayer",
    {},
    {
      displayName: ["", text(101)],
      avatarUrl: ["http://example.com/a.png", "javascript:alert(1)", `https://example.com/${text(2_040)}`],
      timezone: ["Mars/Olympus", "+02:00"],
      locale: ["english please"],
      country: ["se", "SWE"],
      attributes: [[], { "a b": 1 }, { "a.b": 1 }],
      metadata: ["x"],
      addTags: [["Not a key"]],
      removeTags: ["vip"],
    },
  ],
  ["setPlayerStatus", { status: "BANNED" }, { status: ["MERGED", "ERASED", "GONE"] }],
  ["mergePlayer", { sourcePlayerId: ID }, { strategy: [{ xp: "MORE" }], sourcePlayerId: [undefined] }],
  [
    "grantXp",
    { amount: 1 },
    {
      amount: [undefined, 0, -0, 1.5, "5", null, 2 ** 53, -(2 ** 53)],
      reason: ["", text(256)],
      reference: ["", text(201)],
    },
  ],
  ["createWsToken", { externalUserId: "u" }, { externalUserId: [text(256)] }],
  ["awardBadge", {}, { tier: [0, "1"], other: [1] }],
  ["progressBadge", { add: 1 }, { add: [undefined, "1", 1e17], set: [1] }],
  ["progressBadge", { set: 1 }, { set: [-1] }],
  ["grantReward", { playerId: ID }, { playerId: [undefined], quantity: [0, 101] }],
  [
    "startBulkGrant",
    { playerIds: [ID], bundle: { xp: 1 }, reason: "Thanks" },
    {
      playerIds: [undefined, [], ["ext:ada"], Array.from({ length: 10_001 }, () => ID)],
      segmentKey: ["a"],
      reason: [""],
    },
  ],
  ["giveStreakFreezes", { amount: 1 }, { amount: [undefined, 0, 1.5, "1", 101] }],
];

const ECONOMY: Refused[] = [
  [
    "grantCurrency",
    { amount: 1 },
    { amount: [undefined, 0, -1], expiresAt: ["tomorrow"], reason: [""], reference: [text(201)] },
  ],
  ["spendCurrency", { amount: 1 }, { amount: [1.5, 2 ** 53, "5"], reason: [""], reference: [text(201)] }],
  ["holdCurrency", { amount: 1, expiresInSeconds: 60 }, { expiresInSeconds: [undefined, 0, 86_401] }],
  ["consumeLives", { amount: 1 }, { amount: [0, -1, 1.5, 1_000_001], reason: [""] }],
  ["grantLives", { amount: 1 }, { amount: [undefined], refill: ["HALF"], unlimitedSeconds: [2_592_001] }],
  ["grantLives", { refill: "FULL" }, { amount: [1] }],
  [
    "startPlayerBoost",
    { boostKey: "double", applies: "xp", factor: 2, durationSeconds: 60 },
    {
      boostKey: ["No key"],
      applies: ["lives", "currency:"],
      factor: [0, 101],
      durationSeconds: [0, 2_592_001],
      uses: [0],
      stacking: ["ADD"],
    },
  ],
  [
    "putLevelCurve",
    { type: "LINEAR", params: { base: 1, maxLevel: 5 } },
    {
      type: ["CUBIC"],
      "params.maxLevel": [1_001],
      recalculate: ["LOUD"],
      rewards: [[]],
    },
  ],
];

const EVENTS: Refused[] = [
  ["trackEvents", { events: [{}] }, { events: [undefined, {}] }],
  ["revertEvent", { reason: "x" }, { reason: [undefined, "", text(201)], onShortfall: ["MAYBE"] }],
  [
    "revertEvents",
    { reason: "x", filter: { playerId: "ext:ada" } },
    {
      filter: [
        {},
        { eventType: "won" },
        { to: new Date().toISOString() },
        { eventIds: [] },
        { eventIds: ["x"] },
      ],
      "filter.from": ["yesterday"],
      "filter.rule": ["b"],
      reason: ["", text(201)],
      onShortfall: ["MAYBE"],
      dryRun: [1],
    },
  ],
  [
    "createLobby",
    { mode: "m", maxPlayers: 4 },
    {
      maxPlayers: [101],
      visibility: ["FRIENDS"],
      metadata: [{ a: text(5_000) }],
      mode: ["a b"],
      settings: [{ readyPolcy: "HOST" }, { teams: { count: 2, size: 2, balance: true } }],
    },
  ],
  [
    "createChatSanction",
    { playerId: ID, kind: "MUTE", reason: "Spam" },
    { durationSeconds: [0], kind: ["KICK"] },
  ],
  ["submitScore", { playerId: ID, score: 1 }, { score: ["5", null] }],
];

const ACCOUNTS: Refused[] = [
  [
    "createProject",
    { name: "Fine" },
    {
      name: ["x", undefined],
      description: [text(2_001)],
      timezone: ["Mars/Olympus", "+02:00"],
      "settings.maxEventAgeDays": [0],
      "settings.allowLevelDown": ["yes"],
    },
  ],
  [
    "createApiKey",
    { name: "Server" },
    {
      name: ["x"],
      environment: ["prod"],
      rateLimit: [0, 1.5, 1_000_001],
      expiresAt: ["tomorrow"],
      metadata: [[], { text: "\u0000" }],
    },
  ],
  ["rotateApiKey", {}, { gracePeriodSeconds: [-1, 1.5, 604_801, "1", null] }],
  ["updateMember", { role: "VIEWER" }, { role: ["KING", 1], status: ["PENDING"] }],
  ["createInvitation", { email: "a@example.com", role: "VIEWER" }, { email: ["nobody"], role: ["KING"] }],
  ["updateAccount", { name: "Ada Lovelace" }, { name: ["", "A\nB", null], email: ["ada", 1] }],
  ["completeProfile", { name: "Ada Lovelace" }, { name: [undefined, "E"] }],
  ["logout", {}, { all: ["yes"] }],
  [
    "login",
    { email: "a@example.com", password: "x" },
    {
      email: [undefined, 1, null, `${text(300)}@example.com`],
      password: [undefined, text(15_000)],
    },
  ],
  ["refreshSession", { refreshToken: "x" }, { refreshToken: [1, text(5_000)] }],
  [
    "forgotPassword",
    { email: "a@example.com" },
    { email: ["none", "a@b.example, c@d.example", 5, undefined] },
  ],
  [
    "register",
    { email: "a@example.com", password: "Correct-horse-7", name: "Ada Lovelace" },
    { name: ["", "A", " A ", "😀", text(256), "Ada\nLovelace"], captchaToken: [text(5_000)] },
  ],
];

const PLATFORM: Refused[] = [
  [
    "superadminLogin",
    { email: "a@example.com", password: "x" },
    { email: [undefined, 7, text(300)], password: [undefined] },
  ],
  [
    "updatePlatformTenant",
    { plan: "PRO" },
    {
      plan: ["GOLD"],
      planOverrides: [
        { requestsPerMinute: 0 },
        { requestsPerMinute: -1 },
        { requestsPerMinute: 1e12 },
        { requestsPerMinute: "none" },
        { members: -1 },
        { members: 1.5 },
        { bogus: 1 },
      ],
    },
  ],
  ...["rejectTenant", "suspendTenant"].map((operation): Refused => [
    operation,
    { reason: "Spam" },
    { reason: [undefined, "", "  ", text(501)] },
  ]),
  [
    "createPlatformToken",
    { name: "Build", scopes: ["blog:sync"] },
    { scopes: [undefined, [], ["*"]], name: ["x"], expiresAt: ["tomorrow"] },
  ],
  [
    "blockIp",
    { reason: "Abuse" },
    { reason: [undefined, "", " ", text(501)], durationSeconds: [0, -1, 1.5, "60", 1e12] },
  ],
  [
    "syncBlogPosts",
    { posts: [{ slug: "one", title: "One", postDate: "2026-03-01" }] },
    {
      posts: [undefined, Array.from({ length: 501 }, () => ({}))],
      "posts.0.slug": ["Upper", "two--hyphens", "-x", "", text(121), undefined],
      "posts.0.title": ["", text(256), undefined],
      "posts.0.postDate": [
        undefined,
        "yesterday",
        "2026-02-30",
        "2026-3-1",
        "2026-03-01T10:00:00",
        "0000-01-01",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
      ],
      "posts.0.tags": [many(21), [""], "a"],
      "posts.0.featured": ["yes"],
      "posts.0.draft": [1],
      "posts.0.excerpt": [text(501)],
      "posts.0.author": [text(121)],
    },
  ],
];

const QUERIES: Refused[] = [
  [
    "listPlayers",
    { page: "50000", limit: "20" },
    {
      page: ["0", "-1", "1.5", "", "x", ["1", "2"]],
      limit: ["0", "101"],
      sort: ["displayName;drop", "__proto__"],
      order: ["up"],
      status: ["GONE"],
      minLevel: ["0", "1e400"],
      minBalance: ["", " ", "-1", "0.5", "9007199254740992"],
      maxBalance: ["x"],
      currencyKey: [text(65)],
      tag: ["", "A", "a,,b", "a,a", many(11).join(","), many(11)],
      lastSeenFrom: ["yesterday"],
      lastSeenTo: ["0000-01-01T00:00:00Z"],
      search: ["", text(101)],
      nobody: ["1"],
    },
  ],
  [
    "listEvents",
    { property: "to.country", value: "SE", from: "2026-01-01" },
    { property: ["", text(501)], value: [text(501)], ruleId: ["", text(101)] },
  ],
  ["listLedger", {}, { cause: ["LUCK", ""], ruleId: [""] }],
  ["listPlayerActivity", {}, { cause: ["rule"], ruleId: [text(101)], from: ["soon"], to: ["2030-13-01"] }],
  ["listProjects", {}, { sort: ["id"], order: ["up"], search: [""], name: ["Beta"] }],
  [
    "listEmailLogs",
    {},
    {
      status: ["LOST"],
      template: ["newsletter"],
      from: ["yesterday", "0000-01-01T00:00:00Z"],
      to: ["2030-13-01T00:00:00Z", "9999-12-31T23:59:59-12:00"],
      sort: ["to"],
      email: ["", text(255)],
    },
  ],
  ["listPlatformEmailLogs", {}, { tenantId: ["x"], status: ["LOST"], bogus: ["1"] }],
  ["getBillingUsage", {}, { month: ["1"] }],
  ["listWebhookEvents", {}, { limit: ["101"] }],
  ["listEventTypes", {}, { page: ["0"] }],
  ["listPlayerMetrics", {}, { limit: ["1000"], sort: ["id"] }],
  ["listSegmentMembers", {}, { limit: ["0"] }],
  [
    "startOAuth",
    { redirect_uri: "https://console.example.com/" },
    {
      flow: ["takeover"],
      response_mode: ["fragment"],
      surprise: ["1"],
      tenantId: ["x"],
      redirect_uri: [["https://console.example.com/", "https://evil.example"]],
    },
  ],
];

const PATHS: Refused[] = [
  ["grantCurrency", { playerId: ID, currencyKey: "coins" }, { currencyKey: ["Not-a-key!"] }],
  ["retryEvent", { eventId: "e1" }, { eventId: [text(65)] }],
];

/** A copy with another value at a place, which is named as refusals name it. */
const changed = (valid: object, place: string, value: unknown): object => {
  const copy = structuredClone(valid) as Record<string, unknown>;
  const names = place.split(".");
  const parent = names.slice(0, -1).reduce((at, name) => (at[name] ??= {}) as Record<string, unknown>, copy);
  if (value === undefined) delete parent[names.at(-1)!];
  else parent[names.at(-1)!] = value;
  return copy;
};

/** The fields that a refusal names; nothing where `read` takes what it is given. */
const refusedFields = async (read: () => unknown): Promise<string[]> => {
  try {
    await read();
    return [];
  } catch (error) {
    assert.ok(error instanceof DomainError, String(error));
    assert.equal(error.code, "VALIDATION_ERROR");
    return error.details.map(({ field }) => field);
  }
};

describe("values that an operation refuses, naming the field", () => {
  const tables = {
    body: [PLAYERS, ECONOMY, EVENTS, ACCOUNTS, PLATFORM].flat(),
    query: QUERIES,
    path: PATHS,
  };
  const readers = {
    body: (route: AnyRoute, value: object) => {
      refuseHostile("", value);
      return parseBody(route, value);
    },
    query: (route: AnyRoute, value: object) => queryChecker(route)(value as Record<string, unknown>),
    path: parseParams,
  };
  for (const part of ["body", "query", "path"] as const)
    for (const [operation, valid, refused] of tables[part])
      it(`${operation}: ${Object.keys(refused).join(", ")} (${part})`, async () => {
        const route = routes.find(({ id }) => id === operation)!;
        assert.deepEqual(await refusedFields(() => readers[part](route, valid)), [], "the valid one");
        for (const [field, values] of Object.entries(refused))
          for (const value of values) {
            const named = await refusedFields(async () => readers[part](route, changed(valid, field, value)));
            // What does not go together, and what there is not, is refused as the whole.
            const isNamed = named.some(
              (one) => one === part || one.startsWith(field) || field.startsWith(one),
            );
            assert.ok(isNamed, `${field} ${JSON.stringify(value)?.slice(0, 80)}: ${named.join()}`);
          }
      });
});

describe("values that go together with others, or that an operation looks at itself", () => {
  const events = (count: number) => ({ events: Array.from({ length: count }, () => ({})) });
  const ofKey: [method: string, path: string, body: object | undefined, field: string][] = [
    ["POST", "/auth/ws-token", {}, ""],
    ["POST", "/auth/ws-token", { playerId: ID, externalUserId: "x" }, ""],
    ["POST", "/events/batch", events(0), "events"],
    ["POST", "/events/batch", events(1_001), "events"],
    [
      "POST",
      "/lobbies",
      { mode: "m", maxPlayers: 4, settings: { teams: { count: 1, size: 2 } } },
      "settings.teams",
    ],
    ["GET", "/lobbies?colour=red", undefined, "colour"],
    ["GET", "/players?page=50001&limit=20", undefined, "page"],
    ["GET", "/players?page=1000000", undefined, "page"],
    ["GET", "/leaderboards/board/entries?page=1000000&limit=100", undefined, "page"],
    ["GET", "/leaderboards/board/entries?scope=friends", undefined, "scope"],
    ["POST", "/leaderboards/board/scores", { playerId: "ext:ann", score: 1e300 }, "score"],
  ];
  const ofUser: [body: object, field: string][] = [
    [{ scopes: ["events:write", "events:fly"] }, "scopes.1"],
    [{ expiresAt: "2020-01-01T00:00:00Z" }, "expiresAt"],
    [{ metadata: { text: text(4_096) } }, "metadata"],
  ];

  it("are refused by field", async () => {
    const api = await startApp();
    const { key, token, projectId } = await aTenant(api);
    const board = { key: "board", name: "Board", metric: { source: "CUSTOM" }, operator: "LATEST" };
    must(await api.post("/api/v1/leaderboards", board, { key }), 201);
    must(await api.post("/api/v1/players", { externalUserId: "ann" }, { key }), 201);
    const keys = `/api/v1/projects/${projectId}/api-keys`;
    const answers = [
      ...ofKey.map(
        ([method, path, body, field]) =>
          [api.request(method, `/api/v1${path}`, { key, ...(body && { body }) }), field] as const,
      ),
      ...ofUser.map(
        ([body, field]) => [api.post(keys, { name: "Server", ...body }, { token }), field] as const,
      ),
    ];
    for (const [asked, field] of answers) {
      const answer = await asked;
      assert.equal(answer.status, 400, JSON.stringify(answer.body));
      assert.ok(answer.body.error.details[0].field.startsWith(field), JSON.stringify(answer.body));
    }
  });

  it("are refused of the platform: a time that is over, and what is no address", async () => {
    const api = await startApp();
    const { token } = await anAdmin(api);
    const over = { name: "Build", scopes: ["blog:sync"], expiresAt: "2020-01-01T00:00:00Z" };
    assertError(await api.post("/api/v1/superadmin/tokens", over, { token }), 400);
    const at = (ip: string, step = "") => `/api/v1/admin/rate-limits/ip/${encodeURIComponent(ip)}${step}`;
    for (const ip of ["x", "1.2.3", "1.2.3.4/8", "::1::", "999.1.1.1", "localhost", "1.2.3.4,5.6.7.8"])
      assertError(await api.get(at(ip), { token }), 400);
    assertError(await api.post(at("1.2.3", "/block"), { reason: "x" }, { token }), 400);
    assertError(await api.delete(at("1.2.3", "/block"), { token }), 400);
    assertError(await api.post(at("1.2.3", "/reset"), {}, { token }), 400);
    assert.equal((await api.get(at(anAddress()), { token })).status, 200);
  });
});
