// How fast waiting events are processed by 1, 2 and 4 worker processes. See README.md.
import { join } from "node:path";
import { parseArgs } from "node:util";
import { freePort } from "../test/support/processes/process.ts";
import { PARTITIONS } from "../src/domain/kernel/ids.ts";
import { createBullQueue } from "../src/jobs/queue.ts";
import { redisConnections } from "../src/platform/redis-connection.ts";
import { createLog } from "../src/log.ts";
import { type Box, type Costs, describeMachine, startCosts } from "./support/box.ts";
import { type Child, MAIN, startChild } from "./support/children.ts";
import { checkEffects, clearProgress, isDrained, isRelayed, queueEvents } from "./support/queued.ts";
import { measureLatency } from "./support/latency.ts";
import { GAMES } from "./support/process-sites.ts";
import { createSite, type Site, untilReady, poll } from "./support/setup.ts";
import { inBox, tell } from "./support/run.ts";
import { calmest, percentile, rounded, spread, spreadText, table } from "./support/stats.ts";

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    rounds: { type: "string" },
    events: { type: "string" },
    workers: { type: "string", default: "1,2,4" },
    game: { type: "string", default: "simple" },
    json: { type: "string" },
    profile: { type: "string" },
  },
});
const ROUNDS = Number(options.rounds ?? (options.quick ? 2 : 5));
const EVENTS = Number(options.events ?? (options.quick ? 30_000 : 60_000));
const GAME = GAMES.find(({ name }) => name === options.game)!;
const GOAL = GAME.name === "simple" ? 20_000 : 6_000;
const WORKERS = options.workers.split(",").map(Number);
const PLAYERS = 10_000;
const WARM_EVENTS = 20_000;
const WARM_PLAYERS = 1_000;
/** How long the latency is looked at. */
const LATENCY_S = 20;

type Pass = "new players" | "known players";
/** One drain. Rates are events a second, CPU is in seconds. */
type Sample = {
  workers: number;
  pass: Pass;
  rate: number;
  /** Until the outbox was relayed too. */
  relayedRate: number;
  workerCpu: number;
  postgresCpu: number;
  foreignCores: number;
};

type Stage = {
  box: Box;
  site: Site;
  web: Child;
  env: Record<string, string>;
  outputFile: string;
  wake: (part: number) => void;
};

const openStage = async (box: Box, dir: string): Promise<Stage> => {
  const port = await freePort();
  const env = { ...box.env, PORT: String(port) };
  const outputFile = join(dir, "server.log");
  const web = await startChild(MAIN, { args: ["serve"], env: { ...env, ROLES: "web" }, outputFile });
  const url = `http://127.0.0.1:${port}`;
  await untilReady(url);
  const site = await createSite(url);
  await GAME.prepare(site);
  const { REDIS_NAMESPACE: namespace = "", REDIS_URL: redisUrl = "" } = box.env;
  const prefix = `${namespace}:bull`;
  const log = createLog({ logLevel: "silent" });
  const queue = createBullQueue({ connections: redisConnections(redisUrl, log), prefix, log });
  const wake = (part: number) => queue.wake("process-events", String(part));
  return { box, site, web, env, outputFile, wake };
};

/** Queues events in one commit and waits until they are done; the clock runs from the commit. */
const drain = async (
  { box, site, wake }: Stage,
  workers: readonly Child[],
  load: Parameters<typeof queueEvents>[2],
) => {
  await queueEvents(box.pool, site.projectId, load);
  const stop = await startCosts(
    box.pool,
    workers.map(({ pid }) => pid),
  );
  const startMs = performance.now();
  for (let part = 0; part < PARTITIONS; part++) wake(part);
  await poll(() => isDrained(box.pool));
  const seconds = (performance.now() - startMs) / 1000;
  const costs = await stop();
  await poll(() => isRelayed(box.pool));
  return { seconds, relayedSeconds: (performance.now() - startMs) / 1000, costs };
};

const sampleOf = (
  workers: readonly Child[],
  pass: Pass,
  { seconds, relayedSeconds, costs }: { seconds: number; relayedSeconds: number; costs: Costs },
): Sample => ({
  workers: workers.length,
  pass,
  rate: EVENTS / seconds,
  relayedRate: EVENTS / relayedSeconds,
  workerCpu: workers.reduce((sum, { pid }) => sum + costs.byPid.get(pid)!, 0),
  postgresCpu: costs.postgres,
  foreignCores: costs.foreign / costs.wall,
});

const measure = async (stage: Stage, count: number): Promise<Sample[]> => {
  const { box, site, env, outputFile } = stage;
  await clearProgress(box.pool);
  const execArgv = options.profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${options.profile}`];
  const start = () => startChild(MAIN, { args: ["worker"], env, outputFile, execArgv });
  const workers = await Promise.all(Array.from({ length: count }, start));
  const load = { events: EVENTS, players: PLAYERS, prefix: "player" };
  await drain(stage, workers, { events: WARM_EVENTS * count, players: WARM_PLAYERS, prefix: "warm" });
  const samples = [
    sampleOf(workers, "new players", await drain(stage, workers, load)),
    sampleOf(workers, "known players", await drain(stage, workers, load)),
  ];
  await checkEffects(box.pool, site.projectId, GAME.xpOf);
  for (const worker of workers) await worker.stop();
  return samples;
};

const summarise = (samples: readonly Sample[]): void => {
  const groups = Map.groupBy(samples, ({ workers, pass }) => `${workers} | ${pass}`);
  const lines = [...groups].map(([name, group]) => {
    const of = (read: (sample: Sample) => number) => spread(group.map(read));
    const perEvent = (read: (sample: Sample) => number) => rounded((1e6 * of(read).median) / EVENTS);
    return [
      ...name.split(" | "),
      spreadText(of(({ rate }) => rate)),
      spreadText(of(({ relayedRate }) => relayedRate)),
      perEvent(({ workerCpu }) => workerCpu),
      perEvent(({ postgresCpu }) => postgresCpu),
      rounded(of(({ foreignCores }) => foreignCores).median),
    ];
  });
  const head = [
    "workers",
    "pass",
    "events/s",
    "events/s until relayed",
    "worker CPU us/event",
    "PG CPU us/event",
    "other load, cores",
  ];
  console.log(`\n${table(head, lines)}\n`);
};

/** Latency at half of the rate at which one worker empties a queue. */
const latencyAt = async (stage: Stage, rate: number) => {
  const { box, site, env, outputFile, wake } = stage;
  await clearProgress(box.pool);
  const worker = await startChild(MAIN, { args: ["worker"], env, outputFile });
  await drain(stage, [worker], { events: WARM_EVENTS, players: PLAYERS, prefix: "player" });
  const load = { projectId: site.projectId, players: PLAYERS, rate: rate / 2, seconds: LATENCY_S, wake };
  const found = await measureLatency(box.pool, load);
  await worker.stop();
  const at = (share: number) => Math.round(percentile(found, share));
  return { rate: Math.round(rate / 2), followed: found.length, p50: at(0.5), p95: at(0.95), p99: at(0.99) };
};

/** Rates with several workers over the rate with one, round by round. */
const scaling = (samples: readonly Sample[], workers: number, pass: Pass) => {
  const rates = (count: number) =>
    samples.filter((s) => s.workers === count && s.pass === pass).map(({ rate }) => rate);
  const alone = rates(1);
  return spread(rates(workers).map((rate, i) => rate / alone[i]!));
};

const judge = (samples: readonly Sample[]) => {
  const passes: Pass[] = ["new players", "known players"];
  const found = passes.flatMap((pass) => [
    {
      name: `1 worker, ${pass}, events/s`,
      goal: GOAL,
      value: spread(samples.filter((s) => s.workers === 1 && s.pass === pass).map(({ rate }) => rate)),
    },
    { name: `2 workers / 1, ${pass}`, goal: 1.6, value: scaling(samples, 2, pass) },
    { name: `4 workers / 1, ${pass}`, goal: undefined, value: scaling(samples, 4, pass) },
  ]);
  const known = found.filter(({ value }) => Number.isFinite(value.median));
  const verdict = (goal: number | undefined, median: number) =>
    goal === undefined ? "" : `${median >= goal ? "met" : "MISSED"}: ${goal}`;
  console.log(
    table(
      ["", "median (min..max)", "goal"],
      known.map(({ name, value, goal }) => [name, spreadText(value), verdict(goal, value.median)]),
    ),
  );
  return known;
};

const main = (): Promise<void> =>
  inBox(async (box, dir) => {
    const stage = await openStage(box, dir);
    const samples: Sample[] = [];
    for (let round = 1; round <= ROUNDS; round++) {
      for (const count of WORKERS) {
        const busiest = (passes: Sample[]) => Math.max(...passes.map(({ foreignCores }) => foreignCores));
        const measured = await calmest(() => measure(stage, count), busiest);
        samples.push(...measured);
        for (const { pass, rate, foreignCores } of measured) {
          const load = `other load ${rounded(foreignCores)} cores`;
          console.error(`round ${round}, ${count} workers, ${pass}: ${rounded(rate)}/s, ${load}`);
        }
      }
    }
    const alone = samples.filter(({ workers, pass }) => workers === 1 && pass === "known players");
    const latency =
      alone.length === 0 ? undefined : await latencyAt(stage, spread(alone.map(({ rate }) => rate)).median);
    await stage.web.stop();
    summarise(samples);
    if (latency) {
      const { rate, followed, p50, p95, p99 } = latency;
      console.log(`at ${rate} events/s, event to committed effect: p50 ${p50}, p95 ${p95}, p99 ${p99} ms`);
      console.log(`(${followed} events followed; goal: p99 under 250 ms)\n`);
    }
    const ratios = judge(samples);
    await tell(
      {
        bench: "process",
        game: GAME.name,
        machine: await describeMachine(box.pool),
        events: EVENTS,
        players: PLAYERS,
        samples,
        latency,
        ratios,
      },
      options.json,
    );
  });

await main();
process.exit(0);
