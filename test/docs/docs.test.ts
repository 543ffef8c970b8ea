import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { sql } from "kysely";
import { demoGame } from "../../src/cli/demo-game.ts";
import { SETTINGS } from "../../src/config/settings.ts";
import { getCatalogue } from "../../src/domain/rules/insight/execution-list.ts";
import { OPERATOR_NAMES } from "../../src/domain/evaluation/language/operators.ts";
import { createMetrics } from "../../src/metrics.ts";
import { anAdmin } from "../support/app/admin.ts";
import { aTenant, startApp, type TestApp } from "../support/app/app.ts";
import { withAdminTotp } from "../support/mfa/second-factor.ts";
import {
  blocksOf,
  namesIn,
  root,
  rowsIn,
  rowsOf,
  runSteps,
  stepsOf,
  textOf,
} from "../support/documents/documents.ts";
import { freePort } from "../support/processes/process.ts";
import { readSourceFiles } from "../support/source/source-files.ts";
import { skipWithout } from "../support/made.ts";
import type { Client } from "../support/http/client.ts";
import { eventuallyHolds } from "../support/eventually.ts";

/** Runs the example client for a player, and sends an event that it must see. */
const watchPlayer = async (
  api: Client,
  player: string,
  { key, env }: { key: string; env: NodeJS.ProcessEnv },
): Promise<void> => {
  const watcher = spawn(process.execPath, ["docs/examples/watch.mjs", player], { cwd: root, env });
  let seen = "";
  for (const stream of [watcher.stdout, watcher.stderr])
    stream.on("data", (chunk: Buffer) => (seen += chunk.toString()));
  try {
    await eventuallyHolds(() => assert.match(seen, /^state\.snapshot \{"seq":\d+/m));
    const properties = { level: 2, stars: 1 };
    const event = { externalUserId: player, eventType: "level_finished", properties };
    assert.equal((await api.post("/api/v1/events", event, { key })).status, 200);
    await eventuallyHolds(() => assert.match(seen, /^player\.xp \{"amount":\d+/m));
  } finally {
    watcher.kill();
    await once(watcher, "close");
  }
};

const README = "README.md";
const SETTINGS_GUIDE = "docs/guides/settings.md";
const IMPORT = "docs/guides/import.md";
const START = "docs/guides/getting-started.md";
const RULES = "docs/guides/rules.md";
const ECONOMY = "docs/guides/economy.md";
const QUESTS = "docs/guides/quests.md";
const ADVENTURES = "docs/guides/adventures.md";
const ANALYTICS = "docs/guides/analytics.md";
const EXPORTS = "docs/guides/analytics-export.md";
const [TEST_CLOCK, SECOND_FACTOR] = ["docs/guides/test-clock.md", "docs/guides/second-factor.md"];
const CHAT = "docs/guides/chat.md";
const [PLAYERS, BOARDS] = ["docs/guides/players.md", "docs/guides/leaderboards.md"];
const ACCOUNTS = "docs/guides/accounts.md";
const [KEYS, WEBHOOKS] = ["docs/guides/keys-and-limits.md", "docs/guides/webhooks.md"];
const [LOBBIES, OPERATE] = ["docs/guides/lobbies.md", "docs/guides/operate.md"];
const [SSO, DOMAINS] = ["docs/guides/sso.md", "docs/guides/domains.md"];

const documents = readSourceFiles().filter(({ path }) => path.endsWith(".md"));

/** The anchors that a Markdown file offers: GitHub's form of its headings. */
const anchorsOf = (text: string): Set<string> => {
  const headings = text.matchAll(/^#+ (.+)$/gm);
  const plain = (heading: string) => heading.toLowerCase().replaceAll(/[^\p{L}\p{N} _-]/gu, "");
  return new Set([...headings].map(([, heading = ""]) => plain(heading).replaceAll(" ", "-")));
};

const withoutBlocks = (text: string): string => text.replaceAll(/^```[\s\S]*?^```$/gm, "");

const brokenLinks = ({ path, text }: { path: string; text: string }): string[] =>
  [...withoutBlocks(text).matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, link = ""]) => {
    if (/^[a-z]+:/.test(link)) return [];
    const [file = "", anchor] = link.split("#");
    const target = file === "" ? join(root, path) : join(root, dirname(path), file);
    if (!existsSync(target)) return [`${path}: ${link} does not exist`];
    const isThere = anchor === undefined || anchorsOf(readFileSync(target, "utf8")).has(anchor);
    return isThere ? [] : [`${path}: ${link} has no such heading`];
  });

/** Names in the first column of the tables under a heading. */
const firstColumn = (path: string, heading: string): string[] =>
  rowsOf(path, heading).flatMap(([cell = ""]) => namesIn(cell));

/** Documents whose marked blocks are run. */
const RUN_DOCUMENTS = [
  [README, START, RULES, ECONOMY, QUESTS, ADVENTURES],
  [ANALYTICS, EXPORTS, TEST_CLOCK, CHAT, LOBBIES, PLAYERS],
  [BOARDS, ACCOUNTS, SECOND_FACTOR, SSO, DOMAINS, "docs/guides/billing.md", KEYS, WEBHOOKS, OPERATE],
].flat();

describe("the documents", () => {
  it("link only to what exists", () => {
    assert.ok(documents.length > 5);
    assert.deepEqual(documents.flatMap(brokenLinks), []);
  });

  it("name every setting, and no others, in the guide to settings and in .env.example", () => {
    const settings = Object.keys(SETTINGS).toSorted();
    const named = rowsIn(textOf(SETTINGS_GUIDE)).flatMap(([cell = ""]) => namesIn(cell));
    assert.deepEqual(named.toSorted(), settings);
    const examples = [...textOf(".env.example").matchAll(/^# ([A-Z_]+)=/gm)].map(([, name = ""]) => name);
    assert.deepEqual([...new Set(examples)].toSorted(), settings);
  });

  it("name only npm scripts and metrics that exist", async () => {
    const { scripts } = JSON.parse(textOf("package.json")) as { scripts: Record<string, string> };
    const called = documents.flatMap(({ text }) =>
      [...text.matchAll(/npm run (?:--silent )?([\w:-]+)/g)].map(([, name = ""]) => name),
    );
    assert.deepEqual(
      called.filter((name) => !scripts[name]),
      [],
    );
    const metrics = new Set((await createMetrics().registry.getMetricsAsJSON()).map(({ name }) => name));
    const documented = firstColumn(OPERATE, "Metrics").filter((name) => name.startsWith("laurel_"));
    assert.ok(documented.length > 10);
    assert.deepEqual(
      documented.filter((name) => !metrics.has(name)),
      [],
    );
  });

  it("list every condition, action and operator of rules, and which of them are not available yet", () => {
    const { conditions, actions } = getCatalogue();
    const listed = rowsOf(RULES, "Conditions and actions").map(([name = "", , missing]) => ({
      type: namesIn(name)[0]!,
      available: missing !== "all of it",
    }));
    const known = [...conditions, ...actions].map(({ type, available }) => ({ type, available }));
    assert.deepEqual(new Set(listed), new Set(known));
    assert.equal(listed.length, known.length);
    const operators = /Operators: `([^`]+)`/.exec(textOf(RULES))![1]!.split(/\s+/);
    assert.deepEqual(operators.toSorted(), OPERATOR_NAMES.toSorted());
  });
});

const KNOWN = "test/cli/printed-commands.test.ts holds it against the command line";
/** Blocks of commands that no test runs as they stand, by words of theirs, and why not. */
const NOT_RUN: readonly [path: string, words: string, reason: string][] = [
  [README, "export KEY=svc_test_", "a test of this file sets these variables"],
  [ACCOUNTS, "MAILED=...   # the token in the link of the mail\n", "a placeholder for what a mail brought"],
  [ACCOUNTS, "link of the mail to her", "a placeholder for what a mail brought"],
  ["docs/guides/game-client.md", "game-server.mjs", "test/browser/game.test.ts runs it with a browser"],
  ["loadtest/README.md", "npm run loadtest", "test/cli/loadtest.test.ts runs its scenarios, shortened"],
  [OPERATE, "systemctl enable", "needs systemd and root; what the units start, test/processes starts too"],
  [SSO, "export DOMAIN=", "test/docs/docs-sso.test.ts sets these variables"],
  [SSO, "export ISSUER=", "test/docs/docs-sso.test.ts sets these variables"],
  [DOMAINS, "export TOKEN=eyJ", "test/docs/docs-domains.test.ts sets these variables"],
  [SECOND_FACTOR, "export ADMIN_EMAIL=", "test/docs/docs-second-factor.test.ts sets these variables"],
  ["src/http/reference/README.md", "npm run reference", "writes into src; framework-pages.test.ts compares"],
  ["docs/guides/warehouse.md", "bq load --replace", "needs BigQuery"],
  [OPERATE, "npm run migrate", KNOWN],
  [OPERATE, "admin create", KNOWN],
  [OPERATE, "reconcile", KNOWN],
  [OPERATE, "analytics verify", KNOWN],
  [IMPORT, "import history.ndjson.gz", KNOWN],
  [OPERATE, "config export", KNOWN],
  [WEBHOOKS, "laurel.mjs listen", KNOWN],
  [WEBHOOKS, "laurel.mjs trigger", KNOWN],
  [
    OPERATE,
    "npm run cluster",
    "pm2's commands; test/processes/npm-cluster.test.ts runs the one of README.md",
  ],
];
/** Blocks that tests run line by line, and where. */
const RUN_BY: readonly [path: string, words: string, test: string][] = [
  [README, "npm run cluster", "test/processes/npm-cluster.test.ts"],
  [OPERATE, "prometheus.yml", "test/processes/prometheus.test.ts"],
  [ANALYTICS, "experiments/comeback-bonus", "test/cli/demo.test.ts"],
  [OPERATE, "admin processes", "test/http/superadmin-rooms.test.ts"],
];

describe("blocks of commands", () => {
  const plain = documents.flatMap(({ path, text }) =>
    blocksOf(text)
      .filter(({ info }) => /^(sh|bash|shell|console)$/.test(info))
      .map((block) => ({ path, text: block.text })),
  );
  const table = [...NOT_RUN, ...RUN_BY];

  it("are marked `sh run`, run by a test that is named, or excepted with a reason", () => {
    const isListed = (block: { path: string; text: string }): boolean =>
      table.some(([path, words]) => block.path === path && block.text.includes(words));
    assert.deepEqual(
      plain.filter((block) => !isListed(block)),
      [],
    );
  });

  it("are there for each entry, one each, and so are the tests that run them", () => {
    for (const [path, words] of table) {
      const found = plain.filter((block) => block.path === path && block.text.includes(words));
      assert.equal(found.length, 1, `${path}: ${words}`);
    }
    for (const [, words, test] of RUN_BY) assert.ok(textOf(test).includes(words), `${test}: ${words}`);
    for (const [, , reason] of NOT_RUN)
      for (const [test] of reason.matchAll(/test\/\S+\.ts/g)) assert.ok(existsSync(join(root, test)), test);
  });

  it("belong to documents whose marked blocks are run", () => {
    const marked = documents.filter(({ text }) => /^```sh run/m.test(text)).map(({ path }) => path);
    assert.deepEqual(marked.toSorted(), RUN_DOCUMENTS.toSorted());
  });
});

/** What a super-admin logs in with in the guides: one who has set up a second factor. */
const adminOfGuides = async (api: TestApp): Promise<Record<string, string>> => {
  const admin = await anAdmin(api);
  const { recoveryCodes } = await withAdminTotp(api, admin);
  const [ADMIN_CODE = ""] = recoveryCodes;
  return { ADMIN_EMAIL: admin.email, ADMIN_PASSWORD: admin.password, ADMIN_CODE };
};

describe("the commands of the documents", function () {
  let api: TestApp;
  const environment = { PATH: process.env["PATH"], HOME: process.env["HOME"] };

  before(async function () {
    skipWithout(this, "bash", "curl");
    api = await startApp();
  });

  it("of getting started lead from nothing to a rank", async () => {
    assert.ok(stepsOf(START).length > 8);
    const { KEY = "" } = await runSteps(START, { ...environment, URL: api.url });
    const { body } = await api.get("/api/v1/players/ext:ada", { key: KEY });
    assert.deepEqual([body.xp, body.level], [150, 2]);
  });

  /** The key of a project as getting started leaves it, which each of the guides that follow begins with. */
  const started = () => runSteps(START, { ...environment, URL: api.url });

  it("of the guide to rules lead from an idea to a rule that runs", async () => {
    assert.ok(stepsOf(RULES).length > 5);
    const { KEY = "" } = await runSteps(RULES, await started());
    const { body } = await api.get("/api/v1/players/ext:quinn", { key: KEY });
    assert.equal(body.currencies.coins, 4);
  });

  it("of the guides to economy, leaderboards, chat and goals give, rank, mute and complete", async () => {
    assert.ok(stepsOf(ECONOMY).length > 6);
    const ranked = await runSteps(BOARDS, await runSteps(ECONOMY, await started()));
    const { KEY = "" } = await runSteps(CHAT, ranked);
    const { lastSeq, settings } = (await api.get("/api/v1/chat/channels/market", { key: KEY })).body;
    assert.deepEqual([lastSeq, settings.slowModeSeconds], [1, 10]);
    assert.equal((await api.get("/api/v1/score-reviews", { key: KEY })).body.data.length, 1);
    const { body } = await api.get("/api/v1/players/ext:mira", { key: KEY });
    // 60 given, 15 and 12 spent, 5 with the badge, a chest for 10.
    assert.equal(body.currencies.gems, 28);
    await runSteps(EXPORTS, await runSteps(ANALYTICS, await started()));
    await runSteps(ADVENTURES, await runSteps(QUESTS, ranked));
    assert.equal((await api.get("/api/v1/players/ext:uma", { key: KEY })).body.xp, 255);
  });

  it("of the guide to lobbies lead from an open lobby to the results of its game", async () => {
    assert.ok(stepsOf(LOBBIES).length > 2);
    const { key } = await aTenant(api);
    const { KEY = "", LOBBY } = await runSteps(LOBBIES, { ...environment, URL: api.url, KEY: key });
    const { body } = await api.get(`/api/v1/lobbies/${LOBBY}`, { key: KEY });
    assert.deepEqual([body.status, body.closeReason], ["CLOSED", "COMPLETED"]);
    // Nobody is left in a lobby, so that the guide can be followed a second time.
    assert.equal((await api.get("/api/v1/lobbies", { key: KEY })).body.pagination.total, 0);
  });

  it("of the guide to players end with a player who is erased, and one who is banned", async () => {
    assert.ok(stepsOf(PLAYERS).length > 8);
    const { KEY = "" } = await runSteps(PLAYERS, await started());
    const { body } = await api.get("/api/v1/players/ext:max", { key: KEY });
    assert.equal(body.status, "BANNED");
  });

  it("of the guides to accounts and keys lead from registering to an answer that is replayed", async () => {
    assert.ok(stepsOf(ACCOUNTS).length > 8 && stepsOf(KEYS).length > 4);
    const env = { ...environment, URL: api.url, ...(await adminOfGuides(api)) };
    const { FARM_KEY = "" } = await runSteps(KEYS, await runSteps(ACCOUNTS, env));
    const { body } = await api.get("/api/v1/players/ext:ada", { key: FARM_KEY });
    assert.equal(body.xp, 50);
  });

  it("of the guide to operating approve a tenant that waits", async () => {
    const { tenantId, token } = await aTenant(api);
    const waits = sql`update tenants set approval_status = 'PENDING' where id = ${tenantId}::uuid`;
    await api.app.transact(({ db }) => waits.execute(db));
    const env = { ...environment, URL: api.url, ...(await adminOfGuides(api)) };
    assert.equal((await runSteps(OPERATE, env))["TENANT"], tenantId);
    assert.equal((await api.get("/api/v1/tenant", { token })).body.approvalStatus, "APPROVED");
  });

  it("of the guide to webhooks bring an event to a receiver of plain Node", async () => {
    assert.ok(stepsOf(WEBHOOKS).length > 8);
    const env = { ...(await started()), RECEIVER_PORT: String(await freePort()) };
    const { WEBHOOK, TOKEN = "" } = await runSteps(WEBHOOKS, env);
    const { body } = await api.get(`/api/v1/webhooks/${WEBHOOK}`, { token: TOKEN });
    assert.ok(body.lastSuccessAt);
  });

  it("of the README send an event that a watcher sees", async () => {
    const { key } = await aTenant(api);
    const { status } = await api.post("/config/import", { document: demoGame(Date.now()) }, { key });
    assert.equal(status, 200);
    const env = { ...environment, URL: api.url, KEY: key };
    await runSteps(README, env);
    await watchPlayer(api, "ada", { key, env });
  });
});
