// What one request costs: CPU of 1,000 of them by process, of the reads and writes that games make most,
// beside the least that such a request can cost. See README.md.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { describeMachine, startCosts } from "./support/box.ts";
import { ask, startChild, supportFile } from "./support/children.ts";
import type { LoadJob, LoadResult } from "./support/load.ts";
import { isDrained, isRelayed } from "./support/queued.ts";
import { KINDS, openRequestStage, type RequestStage } from "./support/request-stage.ts";
import { rounded, spread, spreadText, table } from "./support/stats.ts";

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    rounds: { type: "string" },
    connections: { type: "string", default: "16,64" },
    only: { type: "string" },
    json: { type: "string" },
  },
});
const ROUNDS = Number(options.rounds ?? (options.quick ? 1 : 3));
const WARM_MS = options.quick ? 250 : 500;
const MEASURE_MS = options.quick ? 1_200 : 3_000;
const CONNECTIONS = options.connections.split(",").map(Number);
const FLOORS = ["select", "select, Express", "update, Express", "ZREVRANGE, Express"] as const;
const FLOOR_CONNECTIONS = 16;
const ONLY = options.only?.split(",");
/** How long the worker may take for what was sent. */
const DRAIN_MAX_MS = 30_000;

/** CPU in ms of 1,000 requests. */
type Sample = {
  rate: number;
  p50Ms: number;
  p99Ms: number;
  web: number;
  worker: number;
  postgres: number;
  redis: number;
  /** Of all processes together. */
  sum: number;
  /** Of one core: other load. */
  foreign: number;
};

type Target = { requests: string[]; port: number; isFloor: boolean; isChanging: boolean };

const floorRequest = (path: string): string[] => [
  [`GET ${path} HTTP/1.1`, "Host: 127.0.0.1", "", ""].join("\r\n"),
];

const targetOf = (stage: RequestStage, name: string): Target => {
  const kind = KINDS[name];
  if (kind) {
    const { make, isChanging = false } = kind;
    return { requests: make(stage.site), port: stage.port, isFloor: false, isChanging };
  }
  const ports = stage.floors.first as { express: number; bare: number };
  const path = { "update, Express": "/update", "ZREVRANGE, Express": "/range" }[name] ?? "/select";
  const port = name === "select" ? ports.bare : ports.express;
  return { requests: floorRequest(path), port, isFloor: true, isChanging: false };
};

/** Waits until the worker has done what the requests have left to it: it is part of their cost. */
const settled = async ({ box: { pool } }: RequestStage): Promise<void> => {
  const endMs = performance.now() + DRAIN_MAX_MS;
  while (!(await isDrained(pool)) || !(await isRelayed(pool))) {
    if (performance.now() > endMs) throw new Error("the worker did not come to an end");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};

const measure = async (stage: RequestStage, name: string, connections: number): Promise<Sample> => {
  const { box, web, worker, floors, redisPid } = stage;
  const { requests, port, isFloor, isChanging } = targetOf(stage, name);
  const sender = await startChild(supportFile("load.ts"));
  const times = { warmMs: WARM_MS, measureMs: MEASURE_MS };
  const job: LoadJob = { port, path: "", headers: {}, batch: 0, requests, connections, ...times };
  const stopChanging = isChanging ? stage.keepChanging() : () => undefined;
  const server = isFloor ? floors : web;
  const stop = await startCosts(box.pool, [server.pid, worker.pid, redisPid, sender.pid]);
  const { eventsPerSecond: rate, sent, failures, p50Ms, p99Ms } = await ask<LoadResult>(sender, job);
  stopChanging();
  await settled(stage);
  const { wall, byPid, postgres: postgresSeconds, foreign } = await stop();
  await sender.stop();
  if (failures.length > 0) throw new Error(`${name}: answered ${failures.join(" ")}`);
  const of = (seconds: number): number => (1e6 * seconds) / sent;
  const [ofWeb, ofWorker] = [of(byPid.get(server.pid)!), isFloor ? 0 : of(byPid.get(worker.pid)!)];
  const [postgres, redis] = [of(postgresSeconds), of(byPid.get(redisPid)!)];
  const sum = ofWeb + ofWorker + postgres + redis;
  return { rate, p50Ms, p99Ms, web: ofWeb, worker: ofWorker, postgres, redis, sum, foreign: foreign / wall };
};

type Contest = { name: string; connections: number };
type Found = Map<string, Sample[]>;
const keyOf = ({ name, connections }: Contest): string => `${name} | ${connections}`;

const contests = (): Contest[] =>
  [
    ...FLOORS.map((name) => ({ name, connections: FLOOR_CONNECTIONS })),
    ...Object.keys(KINDS).flatMap((name) => CONNECTIONS.map((connections) => ({ name, connections }))),
  ].filter(({ name }) => !ONLY || name === "select" || ONLY.some((part) => name.includes(part)));

const runRounds = async (stage: RequestStage): Promise<Found> => {
  const found: Found = new Map();
  const all = contests();
  for (let round = 1; round <= ROUNDS; round++) {
    // Forth and back in turn, so that none always comes first.
    for (const contest of round % 2 === 1 ? all : all.toReversed()) {
      const sample = await measure(stage, contest.name, contest.connections);
      found.set(keyOf(contest), [...(found.get(keyOf(contest)) ?? []), sample]);
    }
    console.error(`round ${round} of ${ROUNDS}`);
  }
  return found;
};

const summarise = (found: Found): void => {
  const floor = found.get(keyOf({ name: "select", connections: FLOOR_CONNECTIONS }))!;
  const lines = [...found].map(([key, samples]) => {
    const of = (read: (sample: Sample) => number) => spreadText(spread(samples.map(read)));
    const median = (read: (sample: Sample) => number) => rounded(spread(samples.map(read)).median);
    const multiple = spread(samples.map(({ sum }, i) => sum / floor[i]!.sum));
    const parts = [median((s) => s.web), median((s) => s.worker), median((s) => s.postgres)];
    return [
      ...key.split(" | "),
      median((s) => s.rate),
      of((s) => s.sum),
      ...parts,
      median((s) => s.redis),
      spreadText(multiple),
      median((s) => s.p50Ms),
      median((s) => s.p99Ms),
      median((s) => s.foreign),
    ];
  });
  const costs = ["CPU ms of 1,000", "web", "worker", "PG", "Redis", "of a bare select"];
  const head = ["", "connections", "requests/s", ...costs, "p50 ms", "p99 ms", "other load"];
  console.log(table(head, lines));
};

const dir = await mkdtemp(join(tmpdir(), "laurel-bench-"));
const stage = await openRequestStage(dir);
try {
  for (const { name, connections } of contests()) if (connections === 16) await measure(stage, name, 16);
  const found = await runRounds(stage);
  summarise(found);
  const machine = await describeMachine(stage.box.pool);
  console.log(JSON.stringify(machine));
  if (options.json !== undefined)
    await writeFile(options.json, JSON.stringify({ machine, found: [...found] }));
} finally {
  await stage.close();
  await rm(dir, { recursive: true, force: true });
}
