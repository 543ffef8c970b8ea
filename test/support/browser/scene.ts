import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { aGame, type Game } from "../app/game.ts";
import type { TestApp } from "../app/app.ts";
import { must } from "../http/client.ts";
import { manual } from "../quests/quest-game.ts";

/** Which screens of the console there are, by who sees them; `lists` are those that have pages. */
export type Screens = { project: string[]; account: string[]; open: string[]; lists: string[] };

/** A project with some of everything that the console shows, and the addresses of all screens. */
export type Scene = { game: Game; screens: Screens };

const ROUTES = join(import.meta.dirname, "../../../console/src/app/routes.ts");
const PLAYER_TABS = ["timeline", "ledger", "badges", "goals", "rewards", "events", "data"];
const QUESTIONS = ["retention", "cohorts", "funnels", "funnels?steps=played,won", "segments", "experiments"];
const REPORTS = [...QUESTIONS, "reports", "exports"];
const KINDS = ["currencies", "badges", "streaks", "rewards", "boosts", "segments", "levels"];

/** What every object has, and no screen: addresses may be written by hand. */
const NO_NAME = "constructor";
const NAMED = [
  "/players",
  "/rules",
  "/quests",
  "/adventures",
  "/leaderboards",
  "/lobbies?tab=all",
  "/webhooks",
];
const REVIEWED = ["/quests?tab=reviews", "/chat", "/chat/sanctions"];
/** Where several pages of texts are. */
const LISTS = [
  ...NAMED,
  ...REVIEWED,
  "/keys",
  "/players/PLAYER?tab=ledger",
  ...KINDS.map((kind) => `/economy/${kind}`),
];

/** What stands for the parameters of screens: a screen that is new has to be named here. */
const valuesOf = (ids: Record<string, string>): Record<string, string[]> => {
  const tabs = (path: string, ...names: string[]) => names.map((name) => `${path}?tab=${name}`);
  return {
    "/overview": ["/overview", `/overview?period=${NO_NAME}`],
    "/events": ["/events", "/events?view=list", `/events?view=${NO_NAME}`],
    "/events/:id": [`/events/${ids["event"]}`],
    "/players/:id": PLAYER_TABS.map((tab) => `/players/${ids["player"]}?tab=${tab}`),
    "/rules/:id": tabs(`/rules/${ids["rule"]}`, "design", "try", "stats", "fired", "versions"),
    "/economy/:kind?": ["", ...KINDS, "curve", "event-types", NO_NAME].map((kind) => `/economy/${kind}`),
    "/economy/:kind/:id": [
      `/economy/${NO_NAME}/1`,
      `/economy/badges/${ids["badge"]}`,
      `/economy/currencies/${ids["currency"]}`,
    ],
    "/quests": ["/quests", "/quests?tab=reviews"],
    "/quests/:id": tabs(`/quests/${ids["quest"]}`, "design", "stats", "players", "versions"),
    "/adventures/:id": tabs(`/adventures/${ids["adventure"]}`, "design", "stats", "versions"),
    "/leaderboards": ["/leaderboards", "/leaderboards?tab=reviews"],
    "/leaderboards/:id": tabs(`/leaderboards/${ids["board"]}`, "live", "all", "periods", "design"),
    "/lobbies": ["/lobbies", "/lobbies?tab=all"],
    "/lobbies/:id": [`/lobbies/${ids["lobby"]}`],
    "/chat/:tab?": ["", "sanctions", "words", "channels", `channels?open=${ids["channel"]}`].map(
      (tab) => `/chat/${tab}`,
    ),
    "/analytics/:tab?": ["", ...REPORTS, NO_NAME].map((tab) => `/analytics/${tab}`),
    "/webhooks/:id": [`/webhooks/${ids["webhook"]}`],
    "/settings/:tab?": ["", "billing", "sso", "domains", "mails"].map((tab) => `/settings/${tab}`),
  };
};

const screensOf = (projectId: string, ids: Record<string, string>): Screens => {
  const values = valuesOf(ids);
  const [project = [], account = [], open = []] = readFileSync(ROUTES, "utf8")
    .split(/^(?:export )?const (?:PROJECT|ACCOUNT|OPEN_SCREENS): /m)
    .slice(1)
    .map((part) =>
      [...part.matchAll(/(?:\[|path: )\s*"(\/[^"]*)"/g)].flatMap(([, path = ""]) => {
        assert.ok(path in values || !path.includes(":"), `test/support/browser/scene.ts lacks ${path}`);
        return values[path] ?? [path];
      }),
    );
  assert.ok(project.length > 30 && account.length > 5 && open.length > 3);
  const ofProject = (path: string) => `/p/${projectId}${path}`;
  const lists = LISTS.map((list) => ofProject(list.replace("PLAYER", ids["player"]!)));
  return { project: project.map(ofProject), account, open, lists };
};

/** Of some kinds a project may have no more. */
const FEW = 20;
const OBJECT_NAMES = ["constructor", "tostring", "valueof"];

/** Makes a scene; each of the texts stands wherever players and integrators may write one. */
export const aScene = async (api: TestApp, texts: readonly string[]): Promise<Scene> => {
  const game = await aGame(api);
  const { token, projectId } = game.tenant;
  const ids: Record<string, string> = {};
  /** Of everything there is one for each text; screens show the first. */
  const forEach = async (
    kind: string,
    make: (text: string, at: number) => Promise<{ id: string }>,
    max = texts.length,
  ) => {
    for (const [at, text] of texts.slice(0, max).entries()) {
      const { id } = await make(text, at);
      ids[kind] ??= id;
    }
  };
  /** Where there may be few, each has some of the texts. */
  const several = (at: number): string => {
    const size = Math.ceil(texts.length / FEW);
    return [texts[at], ...texts.slice(at * size, (at + 1) * size)].join(" ");
  };
  await forEach("badge", (name, at) =>
    game.make("/badges", { key: `badge-${at}`, name, description: name, category: name.slice(0, 64) }),
  );
  // Keys are short and plain, but some are names that every object has.
  await forEach(
    "currency",
    (name, at) => {
      const key = OBJECT_NAMES[at] ?? `coins-${at}`;
      return game.make("/currencies", { key, name, description: several(at), initialBalance: 1 });
    },
    FEW,
  );
  const daily = { qualify: { parts: [{ metric: { eventTypes: ["seen"], aggregate: "count" } }] } };
  await forEach(
    "streak",
    (name, at) => game.make("/streaks", { key: `streak-${at}`, name, description: several(at), ...daily }),
    FEW,
  );
  await forEach("reward", (name, at) =>
    game.make("/rewards", {
      key: `reward-${at}`,
      name,
      description: name,
      kind: "BUNDLE",
      bundle: { xp: 1 },
    }),
  );
  await forEach("segment", (name, at) =>
    game.make("/segments", { key: `segment-${at}`, name, description: name, kind: "STATIC" }),
  );
  await forEach("rule", (name, at) =>
    game.make("/rules", {
      key: `rule-${at}`,
      name,
      description: name,
      triggers: [{ kind: "EVENT", eventTypes: ["played"] }],
      actions: [{ type: "update_badge", operation: "AWARD", badgeKey: `badge-${at}` }],
    }),
  );
  await forEach("quest", (name, at) =>
    game.make("/quests", {
      key: `quest-${at}`,
      name,
      steps: [manual("photo", { name, evidence: "TEXT", requiresApproval: true })],
    }),
  );
  const season = { startsAt: new Date().toISOString(), endsAt: new Date(Date.now() + 864e5).toISOString() };
  await forEach("adventure", (name, at) =>
    game.make("/adventures", {
      key: `season-${at}`,
      name,
      ...season,
      items: [{ questKey: `quest-${at}`, order: 0 }],
    }),
  );
  for (const at of texts.keys()) {
    must(await game.post(`/rules/rule-${at}/publish`), 200);
    must(await game.post(`/quests/quest-${at}/publish`), 200);
  }
  await forEach("board", (name, at) =>
    game.make("/leaderboards", { key: `board-${at}`, name, metric: { source: "CUSTOM" }, operator: "BEST" }),
  );
  await forEach("player", (text) =>
    game.make("/players", {
      externalUserId: text,
      displayName: text,
      attributes: { motto: text },
    }),
  );
  const channel = await game.make("/chat/channels", {
    key: "hall",
    name: texts[0]!.slice(0, 50),
    settings: { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0, links: "ALLOW", profanity: "OFF" },
  });
  ids["channel"] = channel.id;
  const { data } = must(await game.get("/players?limit=100"), 200);
  const players: string[] = data.map(({ id }: { id: string }) => id);
  await forEach("event", async (text, at) => {
    const externalUserId = texts[at]!;
    for (const eventType of ["played", "won"])
      must(await game.post("/events?wait=true", { externalUserId, eventType, properties: { text } }), 200);
    const listed = must(await game.get("/events?eventType=won&limit=1"), 200).data;
    return listed[0];
  });
  await forEach("message", async (content, at) => {
    const playerId = players[at]!;
    const path = `/chat/channels/${channel.id}/messages`;
    const { seq } = await game.make(path, { content, playerId });
    const reporter = players[(at + 1) % players.length];
    await game.make(`${path}/${seq}/reports`, { playerId: reporter, reason: "OTHER", note: content });
    must(await game.post(`/leaderboards/board-0/scores`, { playerId, score: at }), 200);
    const evidence = { evidence: content };
    must(await game.post(`/players/${playerId}/quests/quest-${at}/steps/photo/submit`, evidence), 200);
    return { id: String(seq) };
  });
  await forEach("lobby", (name, at) =>
    game.make("/lobbies", { mode: "duel", maxPlayers: 2, name: name.slice(0, 60), playerId: players[at] }),
  );
  await forEach("entry", async (reason, at) => {
    must(await game.post(`/players/${ids["player"]}/xp`, { amount: 1, reason }), 201);
    const sanction = { playerId: players[at], kind: "MUTE", reason };
    const { id } = await game.make("/chat/sanctions", sanction);
    must(await game.post(`/chat/sanctions/${id}/appeal`, { playerId: players[at], text: reason }), 200);
    return { id };
  });
  await forEach("key", async (name) =>
    must(
      await api.post(`/api/v1/projects/${projectId}/api-keys`, { name, scopes: ["players:read"] }, { token }),
      201,
    ),
  );
  await forEach(
    "webhook",
    async (_, at) => {
      const description = [texts[at], texts[at + Math.floor(texts.length / 2)]].join(" ");
      const body = { url: `http://127.0.0.1:9/${at}`, events: ["player.level_up"], description, projectId };
      return must(await api.post("/api/v1/webhooks", body, { token }), 201);
    },
    Math.ceil(texts.length / 2),
  );
  return { game, screens: screensOf(projectId, ids) };
};
