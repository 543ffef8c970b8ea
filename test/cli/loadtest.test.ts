import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Summary, Tally } from "../../loadtest/tally.ts";
import { aTenant, startApp, type TestApp } from "../support/app/app.ts";
import { pluck } from "../support/pluck.ts";

const root = new URL("../../", import.meta.url).pathname;
const ABOUT = { scenario: "test", clients: 1, seconds: 1 };

describe("load tests", () => {
  let api: TestApp;
  let dir: string;
  before(async () => {
    api = await startApp();
    dir = await mkdtemp(join(tmpdir(), "laurel-load-test-"));
  });
  after(() => rm(dir, { recursive: true }));

  it("play lobbies, chat, watch a board and come back as a herd, and miss no delivery", async () => {
    const { key } = await aTenant(api);
    const file = join(dir, "summary.json");
    const args = ["loadtest/main.ts", "all", "--url", api.url, "--key", key, "--json", file];
    const size = ["--clients", "8", "--seconds", "1", "--rate", "10"];
    const child = spawn(process.execPath, [...args, ...size], {
      cwd: root,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let said = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (part: Buffer) => (said += String(part)));
    const [code] = (await once(child, "close")) as [number];
    assert.equal(code, 0, said);
    const summaries = JSON.parse(await readFile(file, "utf8")) as Summary[];
    assert.deepEqual(
      pluck(summaries, "scenario", "isOk"),
      ["lobby", "chat", "leaderboard", "herd"].map((name) => [name, true]),
    );
    const deliveries = summaries.flatMap((summary) => summary.deliveries);
    assert.deepEqual(
      deliveries.find(({ name }) => name === "messages to readers"),
      { name: "messages to readers", expected: 80, received: 80 },
    );
    for (const { expected, received, name } of deliveries)
      assert.ok(expected > 0 && expected === received, name);
  });

  it("fail when something was not delivered, or an operation failed", async () => {
    const lost = new Tally();
    lost.delivered("messages", { expected: 2, received: 1 });
    assert.equal(lost.summary(ABOUT).isOk, false);
    const broken = new Tally();
    await broken.measure("join", () => Promise.reject(new Error("no seat")));
    const { isOk, errors, operations } = broken.summary(ABOUT);
    assert.deepEqual([isOk, errors, operations], [false, [{ message: "join: no seat", count: 1 }], []]);
    const fine = new Tally();
    for (const ms of [1, 2, 3, 100]) fine.time("join", ms);
    const [line] = fine.summary(ABOUT).operations;
    assert.deepEqual(line, { name: "join", count: 4, p50: 3, p95: 100, p99: 100, max: 100 });
  });
});
