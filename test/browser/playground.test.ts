import assert from "node:assert/strict";
import type { Browser, Page } from "puppeteer-core";
import { aKey, aTenant, startApp, type Tenant, type TestApp, testConfig } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { aPlayer } from "../support/rooms/sdk.ts";
import { startTinyHttp } from "../support/http/tiny-http.ts";
import { launchChromium, needChromium } from "../support/browser/chromium.ts";

const PAGES = ["", "/style.css", "/start.js", "/colyseus.js"].map((path) => `/playground${path}`);

describe("the playground", () => {
  let api: TestApp;
  let tenant: Tenant;
  let browser: Browser;
  let page: Page;
  const faults: string[] = [];

  before(async function () {
    needChromium(this);
    api = await startApp();
    tenant = await aTenant(api);
    browser = await launchChromium();
    page = await browser.newPage();
    page.on("pageerror", (error) => faults.push(String(error)));
    page.on("console", (message) => {
      if (/Content.Security.Policy/i.test(message.text())) faults.push(message.text());
    });
    page.on("request", (request) => {
      if (!request.url().startsWith(api.url) && !request.url().startsWith("data:"))
        faults.push(request.url());
    });
    await page.goto(`${api.url}/playground`);
    await page.waitForSelector("[data-is-ready]");
  });
  after(() => browser?.close());
  afterEach(() => assert.deepEqual(faults.splice(0), []));

  const textOf = (id: string): Promise<string> =>
    page.$eval(`#${id}`, ({ textContent }) => textContent ?? "");
  const write = (id: string, text: string): Promise<void> =>
    page.$eval(
      `#${id}`,
      (field, value) => {
        (field as unknown as { value: string }).value = value;
      },
      text,
    );
  const join = async (kind: string, options: object): Promise<void> => {
    await page.select("#kind", kind);
    await write("options", JSON.stringify(options));
    await page.click("#join button");
  };
  const ask = async (name: string, body: object): Promise<void> => {
    await write("name", name);
    await write("body", JSON.stringify(body));
    await page.click("#request button");
  };
  const shows = (id: string, pattern: RegExp): Promise<void> =>
    eventuallyHolds(async () => assert.match(await textOf(id), pattern), { timeoutMs: 60_000 });

  it("joins with a pasted token, shows state and messages as they come, and asks", async () => {
    const player = await aPlayer(api, tenant.key);
    await write("token", player.token);
    await join("player", {});
    await shows("status", /^In player, room [\w-]{22}, session /);
    await shows("messages", /state\.snapshot \{"v":1/);
    must(await api.post(`/api/v1/players/${player.playerId}/xp`, { amount: 70 }, { key: tenant.key }), 201);
    await shows("messages", /player\.xp .*"amount":70/);
    await eventuallyHolds(async () => {
      const state = JSON.parse(await textOf("state")) as { playerId: string; xp: number };
      assert.deepEqual([state.playerId, state.xp], [player.playerId, 70]);
    });
    await ask("session.resync", { lastSeq: 0 });
    await shows("answer", /"resumed": true/);
    await ask("session.resync", { lastSeq: -1 });
    await shows("answer", /^refused: .*VALIDATION_ERROR/s);
    await page.click("#leave");
    await shows("status", /^Left\.$/);
  });

  it("fetches a token with the key of a sandbox, and takes no other key", async () => {
    await write("key", tenant.key);
    await write("player", "bo");
    await page.click("#fetch button");
    await shows("status", /^Only the key of a sandbox/);
    const { token, projectId } = tenant;
    must(await api.post(`/api/v1/projects/${projectId}/sandbox`, {}, { token }), 201);
    await write("key", await aKey(api, { token, projectId, environment: "test" }));
    await page.click("#fetch button");
    await shows("status", /^A token of player /);
    await join("lobby", { create: { mode: "duel", maxPlayers: 2, name: "<img src=x onerror=alert(1)>" } });
    await shows("state", /"externalUserId": "bo"/);
    assert.equal(await page.$$eval("img", ({ length }) => length), 0);
    await ask("lobby.ready", { ready: true });
    await shows("answer", /"version": \d/);
    await shows("state", /"status": "READY"/);
  });

  it("may do no more than the token: without one, or with another's options, it is refused", async () => {
    await write("token", "");
    await join("player", {});
    await shows("status", /auth\.token/);
    await write("token", (await aPlayer(api, tenant.key)).token);
    await join("chat", { channelId: "nowhere" });
    await shows("status", /not found/i);
  });
});

describe("the pages of the playground", () => {
  it("are served from here alone, and not in production", async () => {
    const open = await startTinyHttp([]);
    const shut = await startTinyHttp([], { config: { ...testConfig(), isProduction: true } });
    try {
      for (const path of PAGES) {
        const { status, headers, text } = await open.send("GET", path);
        assert.equal(status, 200, path);
        assert.ok(text.length > 100);
        assert.match(String(headers["content-security-policy"]), /default-src 'none'/);
        assert.equal((await open.send("POST", path)).status, 405);
        assert.equal((await shut.send("GET", path)).status, 404, path);
        assert.equal((await shut.send("POST", path)).status, 404, path);
      }
      const { text, headers } = await open.send("GET", "/playground");
      assert.doesNotMatch(String(headers["content-security-policy"]), /unsafe|http|\*/);
      for (const [, source = ""] of text.matchAll(/(?:src|href)="([^"]*)"/g))
        assert.match(source, /^(\/playground\/|data:,$)/);
      assert.doesNotMatch(text, /<script>|<style|style=|onclick/);
    } finally {
      await open.close();
      await shut.close();
    }
  });
});
