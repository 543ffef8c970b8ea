import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { aGame, type Game } from "../app/game.ts";
import type { TestApp } from "../app/app.ts";
import { must } from "../http/client.ts";
import { manual } from "../quests/quest-game.ts";

/** Which screens of the console there are, by who sees them. */
export type Screens = { project: string[]; account: string[]; open: string[] };

/** A project with some of everything that the console shows, and the addresses of all screens. */
export type Scene = { game: Game; screens: Screens };

const ROUTES = join(import.meta.dirname, "../../../console/src/app/routes.ts");
const PLAYER_TABS = ["timeline", "ledger", "badges", "goals", "rewards", "events", "data"];
const QUESTIONS = ["retention", "cohorts", "funnels", "funnels?steps=played,won", "segments", "experiments"];
const REPORTS = [...QUESTIONS, "reports", "exports"];
const KINDS = ["currencies", "badges", "streaks", "rewards", "boosts", "segments", "levels"];

/** What stands for the parameters of screens: a screen that is new has to be named here. */
const valuesOf = (ids: Record<string, string>): Record<string, string[]> => {
  const tabs = (path: string, ...names: string[]) => names.map((name) => `${path}?tab=${name}`);
  return {
    "/events": ["/events", "/events?view=list"],
    "/events/:id": [`/events/${ids["event"]}`],
    "/players/:id": PLAYER_TABS.map((tab) => `/players/${ids["player"]}?tab=${tab}`),
    "/rules/:id": tabs(`/rules/${ids["rule"]}`, "design", "try", "stats", "fired", "versions"),
    "/economy/:kind": [...KINDS, "curve", "event-types"].map((kind) => `/economy/${kind}`),
    "/economy/:kind/:id": [`/economy/badges/${ids["badge"]}`, `/economy/currencies/${ids["currency"]}`],
    "/quests": ["/quests", "/quests?tab=reviews"],
    "/quests/:id": tabs(`/quests/${ids["quest"]}`, "design", "stats", "players", "versions"),
    "/adventures/:id": tabs(`/adventures/${ids["adventure"]}`, "design", "stats", "versions"),
    "/leaderboards": ["/leaderboards", "/leaderboards?tab=reviews"],
    "/leaderboards/:id": tabs(`/leaderboards/${ids["board"]}`, "live", "all", "periods", "design"),
    "/lobbies": ["/lobbies", "/lobbies?tab=all"],
    "/lobbies/:id": [`/lobbies/${ids["lobby"]}`],
    "/chat/:tab": ["sanctions", "words", "channels", `channels?open=${ids["channel"]}`].map(
      (tab) => `/chat/${tab}`,
    ),
    "/analytics/:tab": REPORTS.map((tab) => `/analytics/${tab}`),
    "/webhooks/:id": [`/webhooks/${ids["webhook"]}`],
    "/settings/:tab": ["billing", "sso", "scim", "domains", "mails"].map((tab) => `/settings/${tab}`),
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
  return { project: project.map((path) => `/p/${projectId}${path}`), account, open };
};

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
  await forEach("badge", (name, at) => game.make("/badges", { key: `badge-${at}`, name, description: name }));
  await forEach("currency", (name, at) => game.make("/currencies", { key: `coins-${at}`, name }), 20);
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
  await forEach("webhook", async (description, at) => {
    const body = { url: `http://127.0.0.1:9/${at}`, events: ["player.level_up"], description, projectId };
    return must(await api.post("/api/v1/webhooks", body, { token }), 201);
  });
  return { game, screens: screensOf(projectId, ids) };
};
