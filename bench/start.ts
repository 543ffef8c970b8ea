// What a start of embedded mode costs on an empty data directory, and again on the one that is there then, in
// builds that take turns: `npm run bench:start -- --against ../other-checkout`.
import { randomUUID } from "node:crypto";
import { lstat, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freePort } from "../test/support/processes/process.ts";
import { type Build, buildsOf, cpuSecondsOf, startLaurel } from "./support/stage.ts";
import { inDirectory, inTurns, optionsOf, type Sample } from "./support/turns.ts";

const options = optionsOf({ rest: "5000" });
const [KIB, MIB] = [1_024, 1_048_576];
const BLOCK_BYTES = 512;

/** A line of the state of a process, in MiB. */
const mibOf = async (pid: number, name: "VmHWM" | "VmRSS"): Promise<number> =>
  Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(await readFile(`/proc/${pid}/status`, "utf8"))![1]) /
  KIB;

const diskMib = async (folder: string): Promise<number> => {
  const files = await readdir(folder, { recursive: true });
  const sizes = await Promise.all(files.map((file) => lstat(join(folder, file))));
  return sizes.reduce((sum, { blocks }) => sum + blocks * BLOCK_BYTES, 0) / MIB;
};

/** Starts a server, leaves it alone for a while, and stops it. CPU and time are until it is ready. */
const startOnce = async (build: Build, dir: string, dataDir: string): Promise<Sample> => {
  const env = { MODE: "embedded", DATA_DIR: dataDir, PORT: String(await freePort()) };
  const startMs = performance.now();
  const server = await startLaurel(build, "serve", { env, logFile: join(dir, "servers.log") });
  const readyMs = performance.now() - startMs;
  const cpu = cpuSecondsOf(server.pid);
  await delay(Number(options.rest));
  const sample = {
    "ready, ms": readyMs,
    "CPU until ready, s": cpu,
    "memory at most, MiB": await mibOf(server.pid, "VmHWM"),
    "memory at rest, MiB": await mibOf(server.pid, "VmRSS"),
    "disk, MiB": await diskMib(dataDir),
  };
  await server.stop();
  return sample;
};

await inDirectory(async (dir) => {
  const builds = buildsOf(options.against);
  const dataDirs = new Map<Build, string>();
  const first = (build: Build) => {
    dataDirs.set(build, join(dir, randomUUID()));
    return startOnce(build, dir, dataDirs.get(build)!);
  };
  const again = (build: Build) => startOnce(build, dir, dataDirs.get(build)!);
  for (const [title, measure] of Object.entries({ "first start": first, "start again": again })) {
    const entrants = builds.map((build) => ({
      name: build.name,
      measure: () => measure(build),
    }));
    await inTurns(title, entrants, { rounds: Number(options.rounds) });
  }
});
