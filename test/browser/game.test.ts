import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import type { Browser, Page } from "puppeteer-core";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { freePort } from "../support/processes/process.ts";
import { launchChromium, needChromium } from "../support/browser/chromium.ts";

const root = new URL("../../", import.meta.url).pathname;

/** What a visitor sees of a list. */
const linesOf = (page: Page, id: string): Promise<string[]> =>
  page.$$eval(`#${id} li`, (items) => items.map(({ textContent }) => textContent ?? ""));
const statusOf = (page: Page): Promise<string> =>
  page.$eval("#status", ({ textContent }) => textContent ?? "");
const readyOf = (page: Page): Promise<number> => page.$$eval("#members .ready", ({ length }) => length);

describe("two browsers", () => {
  let api: TestApp;
  let tenant: Tenant;
  let pages: ChildProcess;
  let port: number;
  const browsers: Browser[] = [];

  before(async function () {
    needChromium(this);
    api = await startApp();
    tenant = await aTenant(api);
    port = await freePort();
    const env = { PATH: process.env["PATH"], URL: api.url, KEY: tenant.key };
    pages = spawn(process.execPath, ["docs/examples/game-server.mjs", String(port)], { cwd: root, env });
    await once(pages.stdout!, "data");
  });
  after(async () => {
    await Promise.all(browsers.map((browser) => browser.close()));
    pages?.kill();
  });

  const visit = async (query: string): Promise<Page> => {
    const browser = await launchChromium();
    browsers.push(browser);
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${port}/?${query}`);
    await page.waitForSelector("[data-is-ready]");
    return page;
  };

  it("meet in a lobby, talk, start one game together and see the leaderboard move", async () => {
    const board = `wins-${randomUUID().slice(0, 8)}`;
    const definition = {
      key: board,
      name: "Wins",
      metric: { source: "CUSTOM" },
      operator: "SUM",
      sort: "DESC",
    };
    must(await api.post("/api/v1/leaderboards", definition, { key: tenant.key }), 201);
    const ada = await visit(`player=ada&board=${board}`);
    const bo = await visit(`player=bo&board=${board}`);

    await ada.click("#enter button");
    await eventuallyHolds(async () => assert.match(await statusOf(ada), /^Lobby \w{6}: OPEN$/));
    const code = /Lobby (\w+)/.exec(await statusOf(ada))![1]!;
    await bo.type("#code", code);
    await bo.click("#enter button");
    for (const page of [ada, bo])
      await eventuallyHolds(async () => assert.deepEqual(await linesOf(page, "members"), ["ada", "bo"]));

    await bo.type("#text", "hello <b>ada</b>");
    await bo.click("#say button");
    for (const page of [ada, bo])
      await eventuallyHolds(async () =>
        assert.deepEqual(await linesOf(page, "messages"), ["bo: hello <b>ada</b>"]),
      );

    for (const page of [ada, bo]) await page.click("#ready");
    for (const page of [ada, bo]) await eventuallyHolds(async () => assert.equal(await readyOf(page), 2));
    await ada.click("#start");
    await eventuallyHolds(
      async () => {
        const [first, second] = [await statusOf(ada), await statusOf(bo)];
        assert.match(first, /: IN_GAME, match [\w-]{36}$/);
        assert.equal(second, first);
      },
      { timeoutMs: 60_000 },
    );

    const { playerId } = (
      await api.post("/api/v1/auth/ws-token", { externalUserId: "bo" }, { key: tenant.key })
    ).body;
    must(
      await api.post(`/api/v1/leaderboards/${board}/scores`, { playerId, score: 3 }, { key: tenant.key }),
      200,
    );
    for (const page of [ada, bo])
      await eventuallyHolds(async () => assert.deepEqual(await linesOf(page, "board"), ["bo 3"]));
  });
});
