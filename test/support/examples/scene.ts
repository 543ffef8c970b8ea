import type { Client, RequestOptions } from "../http/client.ts";

const PLAYERS = [
  { externalUserId: "ada", displayName: "Ada", country: "GB", tags: ["beta"], attributes: { team: "red" } },
  { externalUserId: "grace", displayName: "Grace", country: "US" },
  { externalUserId: "alan", displayName: "Alan", country: "GB" },
];
const LESSON = "lesson.completed";

const RULE = {
  key: "lesson-xp",
  name: "XP for a good lesson",
  triggers: [{ kind: "EVENT", eventTypes: [LESSON] }],
  conditions: { all: [{ type: "event_property", path: "score", op: "gte", value: 50 }] },
  actions: [
    { type: "grant_xp", amount: { ref: "event.properties.score" } },
    { type: "adjust_currency", currencyKey: "coins", amount: 4 },
  ],
};
const DEFINITIONS: readonly (readonly [path: string, body: object])[] = [
  ["/currencies", { key: "coins", name: "Coins" }],
  [
    "/badges",
    { key: "explorer", name: "Explorer", rarity: "RARE", tiers: [{ tier: 1, name: "Bronze", threshold: 5 }] },
  ],
  [
    "/streaks",
    {
      key: "daily",
      name: "Daily lesson",
      mode: "PERIODIC",
      period: "DAY",
      qualify: {
        mode: "ANY",
        parts: [{ metric: { eventTypes: [LESSON], aggregate: "count" }, threshold: 1 }],
      },
    },
  ],
  [
    "/leaderboards",
    { key: "weekly-xp", name: "XP of the week", metric: { source: "XP" }, period: { kind: "WEEKLY" } },
  ],
  ["/segments", { key: "testers", name: "Testers", kind: "STATIC" }],
];

type Send = (method: string, path: string, body?: unknown) => Promise<Record<string, string>>;

const senderOf =
  (api: Client, credentials: RequestOptions): Send =>
  async (method, path, body) => {
    const answer = await api.request(method, `/api/v1${path}`, { ...credentials, body });
    if (answer.status < 300) return answer.body;
    throw new Error(`${method} ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
  };

/** Registers a tenant with a project; sends with a key of the project. */
const openProject = async (api: Client): Promise<Send> => {
  const open = senderOf(api, {});
  const [email, password] = ["ada@example.com", "Engine-No-1"];
  const owner = { email, password, name: "Ada Lovelace", tenantName: "Analytical Games" };
  await open("POST", "/auth/register", owner);
  const { accessToken: token = "" } = await open("POST", "/auth/login", { email, password });
  const own = senderOf(api, { token });
  const { id } = await own("POST", "/projects", { name: "Difference Engine" });
  for (const path of ["/tenant", "/auth/me", "/projects", `/projects/${id}`]) await own("GET", path);
  const { key = "" } = await own("POST", `/projects/${id}/api-keys`, { name: "Game server", scopes: ["*"] });
  await own("GET", `/projects/${id}/api-keys`);
  return senderOf(api, { key });
};

const play = async (send: Send): Promise<void> => {
  await send("POST", "/players/batch", { players: PLAYERS.slice(1) });
  await send("POST", "/players", PLAYERS[0]);
  for (const [at, { externalUserId }] of PLAYERS.entries()) {
    const properties = { score: 90 - 10 * at, lesson: "fractions" };
    await send("POST", "/events?wait=true", { externalUserId, eventType: LESSON, properties });
  }
  const later = { externalUserId: "ada", eventType: LESSON, properties: { score: 40 } };
  await send("POST", "/events/batch", { events: [later] });
};

const read = async (send: Send, badge: string, rule: string, segment: string): Promise<void> => {
  const [from, to] = [new Date(Date.now() - 86_400_000), new Date()].map((at) => at.toISOString());
  const ada = "/players/ext:ada";
  const ofPlayer = ["", "/activity", "/badges", "/balances", "/ledger", "/segments", "/streaks"];
  for (const path of [
    "/events?limit=2",
    "/players",
    ...ofPlayer.map((one) => ada + one),
    `${ada}/state?at=${to}`,
    `${ada}/recap?from=${from}&to=${to}`,
    "/leaderboards/weekly-xp",
    "/leaderboards/weekly-xp/entries",
    "/leaderboards/weekly-xp/players/ext:ada",
    "/rules",
    `/rules/${rule}`,
    `/rules/${rule}/executions`,
    `/rules/${rule}/stats`,
    "/rules/graph",
    `/badges/${badge}/holders`,
    `/segments/${segment}/members`,
    "/chat/word-lists",
  ])
    await send("GET", path);
};

/** Plays a small game through the API, as somebody does who has just begun. */
export const playScene = async (api: Client): Promise<void> => {
  const send = await openProject(api);
  const ids: string[] = [];
  for (const [path, body] of DEFINITIONS) ids.push((await send("POST", path, body))["id"]!);
  const [, badge = "", , , segment = ""] = ids;
  const { id: rule = "" } = await send("POST", "/rules", RULE);
  await send("POST", `/rules/${rule}/publish`, {});
  await play(send);
  await send("POST", `/players/ext:ada/badges/${badge}`, {});
  await send("POST", `/segments/${segment}/members`, { playerIds: ["ext:ada"] });
  await send("PUT", "/chat/word-lists/insults", { action: "MASK", match: "WORD", words: ["noob"] });
  await read(send, badge, rule, segment);
};
