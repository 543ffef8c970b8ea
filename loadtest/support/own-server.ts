import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MAIN, spawnChild } from "../../bench/support/children.ts";
import { untilReady } from "../../bench/support/setup.ts";
import { freePort } from "../../test/support/process.ts";

/** An embedded server of the run's own, on a data directory that goes with it. */
export const startOwnServer = async (): Promise<{ url: string; stop(): Promise<void> }> => {
  const dir = await mkdtemp(join(tmpdir(), "laurel-load-"));
  const port = await freePort();
  const env = { MODE: "embedded", DATA_DIR: join(dir, "data"), PORT: String(port), DEMO: "off" };
  const child = spawnChild(MAIN, { args: ["serve"], env, outputFile: join(dir, "server.log") });
  const url = `http://127.0.0.1:${port}`;
  await untilReady(url);
  return {
    url,
    stop: async () => {
      await child.stop();
      await rm(dir, { recursive: true });
    },
  };
};
