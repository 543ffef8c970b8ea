// How many deliveries a worker makes, each with its row of the log, against bare signed POSTs; what hanging
// endpoints take from healthy ones; and the memory that a backlog takes. See README.md.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Box, describeMachine, startCosts } from "./support/box.ts";
import { ask, type Child, MAIN, startChild, supportFile } from "./support/children.ts";
import {
  addDeliveries,
  addHookSite,
  addOutbox,
  addWebhooks,
  countDeliveries,
  ENCRYPTION_KEY,
  type HookSite,
} from "./support/hook-backlog.ts";
import type { FloorJob, FloorResult } from "./support/hook-floor.ts";
import { inBox, tell } from "./support/run.ts";
import { rounded, spread, spreadText, table } from "./support/stats.ts";

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    rounds: { type: "string" },
    deliveries: { type: "string" },
    backlog: { type: "string" },
    only: { type: "string" },
    json: { type: "string" },
    profile: { type: "string" },
  },
});
const ROUNDS = Number(options.rounds ?? (options.quick ? 2 : 5));
const DELIVERIES = Number(options.deliveries ?? (options.quick ? 5_000 : 20_000));
const BACKLOG = Number(options.backlog ?? (options.quick ? 100_000 : 1_000_000));
const BACKLOG_COMMIT = 50;
const IN_FLIGHT = 64;
const GOAL = 0.35;
const HEALTHY_GOAL = 0.9;
/** Endpoints of which one in ten hangs. */
const HEALTHY = 18;
const HANGING = 2;
const POLL_MS = 50;

/** Of the size of a usual event. */
const BODY = JSON.stringify({
  id: "0190a5b4-0000-7000-8000-000000000001",
  type: "player.level_up",
  projectId: "0190a5b4-0000-7000-8000-000000000002",
  createdAt: "2026-01-31T12:00:00.000Z",
  data: {
    playerId: "p",
    externalUserId: "player-000001",
    level: 12,
    previousLevel: 11,
    note: "x".repeat(150),
  },
});

type Sample = { rate: number; perCpu: number; worker: number; postgres: number; foreign: number };
type Stage = { box: Box; site: HookSite; worker: Child; port: number };

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const floor = async ({ port }: Stage): Promise<Sample> => {
  const child = await startChild(supportFile("hook-floor.ts"));
  const job: FloorJob = { port, body: BODY, inFlight: IN_FLIGHT, count: DELIVERIES };
  // The first ones compile the code.
  await ask<FloorResult>(child, { ...job, count: 2_000 });
  const stop = await startCosts(undefined, [child.pid]);
  const { seconds, cpuSeconds } = await ask<FloorResult>(child, job);
  const { foreign, wall } = await stop();
  await child.stop();
  return {
    rate: DELIVERIES / seconds,
    perCpu: DELIVERIES / cpuSeconds,
    worker: cpuSeconds / seconds,
    postgres: 0,
    foreign: foreign / wall,
  };
};

type Endpoints = { healthy: number; hanging?: number };

/** Waits until fewer wait. @returns how many */
const untilBelow = async ({ box }: Stage, webhooks: readonly string[], max: number): Promise<number> => {
  for (;;) {
    const { pending } = await countDeliveries(box.pool, webhooks);
    if (pending < max) return pending;
    await wait(POLL_MS);
  }
};

/** Has the worker empty the queues of healthy endpoints, some hanging ones beside them. */
const deliver = async (stage: Stage, { healthy, hanging = 0 }: Endpoints): Promise<Sample> => {
  const { box, site, worker, port } = stage;
  const urls = (count: number, path: string) =>
    // Hosts of their own, as tenants' endpoints are.
    Array.from({ length: count }, (_, i) => `http://127.0.1.${i + 1}:${port}/${path}/${i}`);
  const webhooks = await addWebhooks(box.pool, site, urls(healthy, "ok"));
  const hangs = await addWebhooks(
    box.pool,
    site,
    urls(hanging, "hang").map((url) => url.replace("127.0.1.", "127.0.2.")),
  );
  const body = BODY;
  if (hanging > 0) {
    await addDeliveries(box.pool, site, { webhooks: hangs, count: hanging * 1_000, body });
    // Until they are on their way.
    await wait(2_000);
  }
  await addDeliveries(box.pool, site, { webhooks, count: DELIVERIES, body });
  // The clock runs from where the worker has found them, by a sweep.
  const count = await untilBelow(stage, webhooks, DELIVERIES);
  const stop = await startCosts(box.pool, [worker.pid]);
  const startMs = performance.now();
  await untilBelow(stage, webhooks, 1);
  const seconds = (performance.now() - startMs) / 1000;
  const { byPid, postgres, foreign, wall } = await stop();
  const { logged } = await countDeliveries(box.pool, webhooks);
  if (logged !== DELIVERIES) throw new Error(`${logged} of ${DELIVERIES} deliveries were recorded right`);
  await box.pool.query("truncate webhooks, webhook_deliveries, webhook_events");
  const cpu = byPid.get(worker.pid)!;
  return {
    rate: count / seconds,
    perCpu: count / cpu,
    worker: cpu / wall,
    postgres: postgres / wall,
    foreign: foreign / wall,
  };
};

const CONTESTANTS: Record<string, (stage: Stage) => Promise<Sample>> = {
  "bare POST + HMAC": floor,
  "laurel, 64 endpoints": (stage) => deliver(stage, { healthy: 64 }),
  "laurel, 16 endpoints": (stage) => deliver(stage, { healthy: 16 }),
  "laurel, 1 endpoint": (stage) => deliver(stage, { healthy: 1 }),
  [`${HEALTHY} healthy`]: (stage) => deliver(stage, { healthy: HEALTHY }),
  [`${HEALTHY} healthy, ${HANGING} hanging`]: (stage) =>
    deliver(stage, { healthy: HEALTHY, hanging: HANGING }),
};

type Ratio = { name: string; value: number[]; goal?: number };

const ratiosOf = (rounds: ReadonlyMap<string, Sample[]>): Ratio[] => {
  const ratio = (name: string, other: string, read: (sample: Sample) => number): number[] =>
    (rounds.get(name) ?? []).flatMap((sample, i) => {
      const base = rounds.get(other)?.[i];
      return base ? [read(sample) / read(base)] : [];
    });
  const bare = "bare POST + HMAC";
  const perCpu = (name: string) => ratio(name, bare, (sample) => sample.perCpu);
  return [
    { name: "64 endpoints / bare, by CPU second", value: perCpu("laurel, 64 endpoints"), goal: GOAL },
    { name: "16 endpoints / bare, by CPU second", value: perCpu("laurel, 16 endpoints"), goal: GOAL },
    { name: "1 endpoint / bare, by CPU second", value: perCpu("laurel, 1 endpoint") },
    {
      name: "healthy beside hanging / alone, deliveries/s",
      value: ratio(`${HEALTHY} healthy, ${HANGING} hanging`, `${HEALTHY} healthy`, ({ rate }) => rate),
      goal: HEALTHY_GOAL,
    },
  ];
};

const report = (rounds: ReadonlyMap<string, Sample[]>): Ratio[] => {
  const lines = [...rounds].map(([name, samples]) => {
    const of = (field: keyof Sample) => spread(samples.map((sample) => sample[field]));
    return [
      name,
      spreadText(of("rate")),
      spreadText(of("perCpu")),
      ...(["worker", "postgres", "foreign"] as const).map((field) => rounded(of(field).median)),
    ];
  });
  const head = ["", "deliveries/s", "deliveries/CPU s", "worker cores", "PG cores", "other load"];
  console.log(`\n${table(head, lines)}\n`);
  const found = ratiosOf(rounds).filter(({ value }) => value.length > 0);
  const verdict = ({ goal, value }: Ratio) =>
    goal === undefined ? "" : `${spread(value).median >= goal ? "met" : "MISSED"}: ${goal}`;
  console.log(
    table(
      ["ratio", "of the same round", "goal"],
      found.map((one) => [one.name, spreadText(spread(one.value)), verdict(one)]),
    ),
  );
  return found;
};

const rssMiB = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1]) / 1024;

/** Fills the outbox while no worker runs, then has one relay it to a webhook that is paused. */
const relayBacklog = async (box: Box, site: HookSite, start: () => Promise<Child>) => {
  const [webhook] = await addWebhooks(box.pool, site, ["http://127.0.0.1:9/nobody"]);
  await box.pool.query(`update webhooks set status = 'PAUSED', events = '{*}' where id = $1`, [webhook]);
  await addOutbox(box.pool, site, { rows: BACKLOG, size: BACKLOG_COMMIT });
  const worker = await start();
  const startMs = performance.now();
  const sizes: number[] = [];
  for (;;) {
    await wait(1_000);
    sizes.push(rssMiB(worker.pid));
    const { rows } = await box.pool.query("select exists (select from outbox_q) as left");
    if (rows[0]!["left"] !== true) break;
  }
  const seconds = (performance.now() - startMs) / 1000;
  const { rows } = await box.pool.query("select count(*) as n from webhook_deliveries");
  await worker.stop();
  if (Number(rows[0]!["n"]) !== BACKLOG) throw new Error(`${String(rows[0]!["n"])} planned of ${BACKLOG}`);
  const tenth = Math.max(1, Math.floor(sizes.length / 10));
  const first = Math.max(...sizes.slice(0, tenth * 2));
  const last = Math.max(...sizes.slice(-tenth * 2));
  console.log(
    `\nA backlog of ${rounded(BACKLOG)} outbox rows: ${rounded(BACKLOG / seconds)} a second; ` +
      `RSS of the worker ${rounded(first)} MiB at most in the first fifth, ${rounded(last)} in the last, ` +
      `${rounded(Math.max(...sizes))} at all`,
  );
  return { rows: BACKLOG, seconds, sizes };
};

type Rounds = Map<string, Sample[]>;

const measureRound = async (stage: Stage, rounds: Rounds, round: number): Promise<void> => {
  for (const [name, measure] of Object.entries(CONTESTANTS)) {
    if (options.only !== undefined && !new RegExp(options.only).test(name)) continue;
    const sample = await measure(stage);
    rounds.set(name, [...(rounds.get(name) ?? []), sample]);
    const { rate, perCpu, foreign } = sample;
    const figures = `${rounded(rate)}/s, ${rounded(perCpu)}/CPU s`;
    console.error(`round ${round} ${name}: ${figures}, other load ${rounded(foreign)} cores`);
  }
};

const measureRounds = async (box: Box, site: HookSite, start: () => Promise<Child>): Promise<Rounds> => {
  const rounds: Rounds = new Map();
  if (ROUNDS === 0) return rounds;
  const receiver = await startChild(supportFile("hook-receiver.ts"));
  const worker = await start();
  const stage: Stage = { box, site, worker, port: Number(receiver.first) };
  // The first ones compile the code.
  await deliver(stage, { healthy: 16 });
  for (let round = 1; round <= ROUNDS; round++) await measureRound(stage, rounds, round);
  await worker.stop();
  await receiver.stop();
  return rounds;
};

const main = (): Promise<void> =>
  inBox(async (box, dir) => {
    const env = { ...box.env, WEBHOOKS_ALLOW_LOCAL: "on", ENCRYPTION_KEYS: ENCRYPTION_KEY };
    const outputFile = join(dir, "worker.log");
    const execArgv = options.profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${options.profile}`];
    const start = () => startChild(MAIN, { args: ["worker"], env, outputFile, execArgv });
    const site = await addHookSite(box.pool);
    const rounds = await measureRounds(box, site, start);
    const ratios = rounds.size > 0 ? report(rounds) : [];
    const backlog = BACKLOG > 0 ? await relayBacklog(box, site, start) : undefined;
    const machine = await describeMachine(box.pool);
    const found = { bench: "webhooks", machine, rounds: Object.fromEntries(rounds), ratios, backlog };
    await tell(found, options.json);
  });

await main();
