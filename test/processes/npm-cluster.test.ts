import assert from "node:assert/strict";
import { join } from "node:path";
import { aTenant } from "../support/app/app.ts";
import { clientOf } from "../support/http/client.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { blockWith, descendantsOf, finished, isRunning, runPrinted } from "../support/documents/documents.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { freePort, temporaryDir } from "../support/processes/process.ts";

const WEBS = 2;
const CALM = { timeoutMs: 90_000 };

describe("npm run cluster, as the documents print it", () => {
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let env: Record<string, string>;
  let port: number;

  before(async () => {
    dir = await temporaryDir();
    services = await startServices(dir.path);
    port = await freePort();
    const { DATABASE_URL: _url, REDIS_URL: _redis, MODE: _mode, ...settings } = services.env;
    const { PATH = "", HOME = "" } = process.env;
    const own = { PORT: String(port), WEB_INSTANCES: String(WEBS), PM2_HOME: join(dir.path, "pm2") };
    const metrics = { METRICS_PORT: String(await freePort()) };
    env = { ...settings, ...own, ...metrics, PATH, HOME, TRUSTED_PROXIES: "127.0.0.1/32" };
    // The first run fetches pm2, which may take its time; this command leaves no daemon behind.
    await finished(runPrinted("npm run cluster -- kill", env));
  });
  after(async () => {
    await runPrinted("npm run cluster -- kill", env).ended;
    await services.remove();
    await dir.remove();
  });

  /** A command with the addresses of this test in place of the example's. */
  const here = (command: string): string => {
    const { DATABASE_URL = "", REDIS_URL = "" } = services.env;
    return command
      .replace("postgres://laurel:password@localhost:5432/laurel", DATABASE_URL)
      .replace("redis://localhost:6379", REDIS_URL);
  };

  const isReady = (output: () => string): Promise<void> =>
    eventuallyHolds(() => {
      assert.equal([...output().matchAll(/is ready on/g)].length, WEBS, output());
      assert.match(output(), /the worker is ready/);
    }, CALM);

  /** Sends events until one is processed while it is waited for. */
  const processes = async (): Promise<string> => {
    const api = clientOf(`http://127.0.0.1:${port}`);
    const { key } = await aTenant(api);
    await eventually(
      async () => {
        const event = { externalUserId: "ada", eventType: "level_finished" };
        return (await api.post("/api/v1/events?wait=true", event, { key })).body.status === "PROCESSED";
      },
      { timeoutMs: 60_000, label: "an event is processed" },
    );
    return key;
  };

  const areGone = (pids: number[]): Promise<void> =>
    eventuallyHolds(() => assert.deepEqual(pids.filter(isRunning), []), CALM);

  it("starts two web processes on one port and a worker; SIGTERM to npm ends them all", async () => {
    const block = blockWith("README.md", "npm run cluster");
    const npm = runPrinted(`exec env ${here(block)}`, env);
    await isReady(npm.output);
    const started = descendantsOf(npm.child.pid!);
    assert.equal(started.filter(({ args }) => args.includes("entry.mjs")).length, WEBS);
    await processes();
    npm.child.kill("SIGTERM");
    await areGone(started.map(({ pid }) => pid));
    assert.equal(await npm.ended, 0, npm.output());
    assert.equal([...npm.output().matchAll(/exited with code \[0\]/g)].length, WEBS + 1, npm.output());
  });
});
