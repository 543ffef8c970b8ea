// Embedded mode at rest: memory against a bare PGlite process on a copy of the same data, and time to ready.
// See README.md.
import { cp, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { freePort } from "../test/support/processes/process.ts";
import { describeMachine } from "./support/box.ts";
import { type Child, MAIN, spawnChild, startChild, supportFile } from "./support/children.ts";
import { createSite, post, type Site, untilReady } from "./support/setup.ts";
import { inDirectory, tell } from "./support/run.ts";
import { rounded, spread, spreadText, table } from "./support/stats.ts";

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    rounds: { type: "string" },
    json: { type: "string" },
  },
});
const ROUNDS = Number(options.rounds ?? (options.quick ? 2 : 5));
/** A process is left alone for this long before its memory counts. */
const REST_MS = options.quick ? 2_000 : 5_000;
const BATCHES = 20;
const BATCH = 100;

const MIB = 1024;
/** Resident memory of a process in MiB. */
const residentMib = async (pid: number): Promise<number> =>
  Number(/^VmRSS:\s+(\d+) kB/m.exec(await readFile(`/proc/${pid}/status`, "utf8"))![1]) / MIB;

const rest = () => new Promise((resolve) => setTimeout(resolve, REST_MS));

type Server = { child: Child; url: string; readyMs: number };

const startServer = async (dir: string): Promise<Server> => {
  const port = await freePort();
  const env = { MODE: "embedded", DATA_DIR: join(dir, "data"), PORT: String(port), DEMO: "off" };
  const startMs = performance.now();
  const child = spawnChild(MAIN, { args: ["serve"], env, outputFile: join(dir, "server.log") });
  const url = `http://127.0.0.1:${port}`;
  await untilReady(url);
  return { child, url, readyMs: performance.now() - startMs };
};

/** A data directory that has been used: a project, a board, a rule and some events, and a clean stop. */
const warmUp = async (dir: string): Promise<void> => {
  const { child, url } = await startServer(dir);
  const site: Site = await createSite(url);
  const metric = { source: "EVENT", event: { eventTypes: ["goal"] }, aggregate: "count" };
  await post(site, "/leaderboards", { key: "goals", name: "Goals", metric, sort: "DESC", ties: "SHARED" });
  for (let batch = 0; batch < BATCHES; batch++) {
    const events = Array.from({ length: BATCH }, (_, n) => ({
      externalUserId: `player-${(batch * BATCH + n) % 500}`,
      eventType: "goal",
      properties: { minute: n },
    }));
    await post(site, "/events/batch", { events });
  }
  await child.stop();
};

type Sample = { server: number; bare: number; readyMs: number };

const measure = async (dir: string): Promise<Sample> => {
  const { child, readyMs } = await startServer(dir);
  await rest();
  const server = await residentMib(child.pid);
  await child.stop();
  const copy = join(dir, "copy");
  await cp(join(dir, "data", "pglite"), copy, { recursive: true });
  const bareProcess = await startChild(supportFile("bare-pglite.ts"), { args: [copy] });
  await rest();
  const bare = await residentMib(bareProcess.pid);
  await bareProcess.stop();
  await rm(copy, { recursive: true });
  return { server, bare, readyMs };
};

const main = (): Promise<void> =>
  inDirectory(async (dir) => {
    await warmUp(dir);
    const samples: Sample[] = [];
    for (let round = 1; round <= ROUNDS; round++) {
      const sample = await measure(dir);
      samples.push(sample);
      const { server, bare, readyMs } = sample;
      console.error(
        `round ${round}: ${rounded(server)} MiB, bare ${rounded(bare)} MiB, ready in ${rounded(readyMs)} ms`,
      );
    }
    const of = (read: (sample: Sample) => number) => spread(samples.map(read));
    const figures = [
      { name: "server at rest, MiB", value: of(({ server }) => server) },
      { name: "bare PGlite on a copy, MiB", value: of(({ bare }) => bare) },
      { name: "difference, MiB", value: of(({ server, bare }) => server - bare), goal: 150 },
      { name: "ready on a used data directory, ms", value: of(({ readyMs }) => readyMs), goal: 3_000 },
    ];
    const verdict = (goal: number | undefined, median: number) =>
      goal === undefined ? "" : `${median <= goal ? "met" : "MISSED"}: ${goal} at most`;
    const lines = figures.map(({ name, value, goal }) => [
      name,
      spreadText(value),
      verdict(goal, value.median),
    ]);
    console.log(`\n${table(["", "median (min..max)", "goal"], lines)}`);
    await tell({ bench: "start", machine: await describeMachine(), samples, figures }, options.json);
  });

await main();
