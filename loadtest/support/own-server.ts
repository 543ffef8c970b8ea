import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openBox } from "../../bench/support/box.ts";
import { type Child, MAIN, spawnChild } from "../../bench/support/children.ts";
import { untilReady } from "../../bench/support/setup.ts";
import { freePort } from "../../test/support/processes/process.ts";

export type OwnServer = { url: string; stop(): Promise<void> };

/** An embedded server of the run's own, on a data directory that goes with it. */
export const startOwnServer = async (): Promise<OwnServer> => {
  const dir = await mkdtemp(join(tmpdir(), "laurel-load-"));
  const env = { MODE: "embedded", DATA_DIR: join(dir, "data"), DEMO: "off" };
  const { url, child } = await serve(env, dir);
  const stop = async (): Promise<void> => {
    await child.stop();
    await rm(dir, { recursive: true });
  };
  return { url, stop };
};

/**
 * One web process and one worker in cluster mode, on a database and a Redis namespace of the run's own, which
 * go with it.
 */
export const startOwnCluster = async (): Promise<OwnServer> => {
  const dir = await mkdtemp(join(tmpdir(), "laurel-load-"));
  const box = await openBox(join(dir, "data"));
  const outputFile = join(dir, "worker.log");
  const { url, child } = await serve({ ...box.env, ROLES: "web" }, dir);
  const worker = spawnChild(MAIN, { args: ["worker"], env: box.env, outputFile });
  const stop = async (): Promise<void> => {
    await Promise.all([child.stop(), worker.stop()]);
    await box.close();
    await rm(dir, { recursive: true });
  };
  return { url, stop };
};

const serve = async (env: Record<string, string>, dir: string): Promise<{ url: string; child: Child }> => {
  const port = await freePort();
  const outputFile = join(dir, "server.log");
  const child = spawnChild(MAIN, { args: ["serve"], env: { ...env, PORT: String(port) }, outputFile });
  const url = `http://127.0.0.1:${port}`;
  await untilReady(url);
  return { url, child };
};
