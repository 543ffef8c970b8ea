import { spawnSync } from "node:child_process";
import { on } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import type { Child } from "./children.ts";
import type { Heard, Joined, Manner } from "./fanout-clients.ts";
import { spend, type Spent } from "./fanout-costs.ts";
import type { Memory, ProbeOrder } from "./fanout-probe.ts";
import { type Contestant, type Crowd, type Server, type Stage, startCrowd } from "./fanout-stage.ts";

export const CLIENTS = 1_000;
/** Join before anything is measured, so that code is compiled. */
const WARM_CLIENTS = 200;
const WARM_MESSAGES = 20;
const REST_MS = 1_500;
const WEIGH_MAX_MS = 20_000;
export const CROWDS = 2;
const JOINS_AT_ONCE = 16;
/** Of each crowd: messages on their way, and who says them in turn. */
const TALK: Manner = { window: 10, speakers: 40 };
/** As fast as two processes can. */
const FLOOD: Manner = { window: 150, speakers: 200 };
const FLOOD_TIMES = 10;
/** A steady rate that one process can keep, and for how many seconds. */
const PACE = { rate: 200, speakers: 200 } satisfies Manner;
const PACE_SECONDS = 5;

export type Setup = { stage: Stage; redis: number | undefined; messages: number };

/** Memory in bytes of one client. */
export type Session = {
  joins: { rate: number; cpuMs: number; p50Ms: number; p99Ms: number; spent: Spent };
  memory: { rss: number; heap: number };
  broadcast: { perCpuSecond: number; rate: number; bytes: number; spent: Spent };
};

type Parties = { server: Server; crowd: Crowd; redis: number | undefined };

const startServer = ({ stage }: Setup, contestant: Contestant): Promise<Server> =>
  contestant === "laurel" ? stage.startLaurel(1) : stage.startFloor(contestant);

/** Joins the clients of all crowds; where servers are several, each crowd has its own. */
export const joinAll = async (crowd: Crowd, server: Server, count: number): Promise<Joined[]> => {
  const { target, tokens } = server;
  const share = Math.ceil(count / crowd.children.length);
  const { ports } = target;
  return crowd.tell<Joined>((n) => ({
    kind: "join",
    target: { ...target, ports: [ports[n % ports.length]!] },
    tokens: tokens.slice(n * share, (n + 1) * share),
    count: share,
    atOnce: JOINS_AT_ONCE,
  }));
};

/** Says so many messages and waits for all deliveries. @throws Error unless each has reached everybody */
export const publishAll = async (crowd: Crowd, messages: number, talk: Manner = TALK) => {
  const share = messages / CROWDS;
  const order = {
    kind: "publish",
    messages: share,
    ...talk,
    expected: messages,
  } as const;
  const heard = await crowd.tell<Heard>((n) => ({ ...order, tag: `crowd${"ab"[n]!}` }));
  const deliveries = heard.reduce((sum, one) => sum + one.heard, 0);
  if (deliveries !== messages * CLIENTS) throw new Error(`${deliveries} deliveries of ${messages * CLIENTS}`);
  return {
    deliveries,
    bytes: heard.reduce((sum, one) => sum + one.bytes, 0) / deliveries,
    seconds: Math.max(...heard.map(({ seconds }) => seconds)),
  };
};

/** What a server holds; Colyseus's own tools send messages of theirs to a parent. */
const weigh = async ({ children }: Server): Promise<Memory> => {
  const [server] = children as readonly [Child];
  const isMemory = (message: unknown): message is Memory =>
    typeof message === "object" && message !== null && "rss" in message;
  const answers = on(server.process, "message", { signal: AbortSignal.timeout(WEIGH_MAX_MS) });
  server.process.send({ probe: "memory" } satisfies ProbeOrder);
  for await (const [message] of answers as AsyncIterable<[unknown]>) if (isMemory(message)) return message;
  throw new Error("a server ended");
};

/** Undefined where nothing is to be said. */
const runBroadcast = async (
  { stage, messages }: Setup,
  parties: Parties,
): Promise<Session["broadcast"] | undefined> => {
  if (messages === 0) return undefined;
  await publishAll(parties.crowd, WARM_MESSAGES);
  const { result, spent } = await spend(stage, parties, () => publishAll(parties.crowd, messages));
  const { deliveries, bytes, seconds } = result;
  return { perCpuSecond: deliveries / spent.server, rate: deliveries / seconds, bytes, spent };
};

/** Joins, memory and broadcast of one contestant, in a server of its own. */
export const runSession = async (setup: Setup, contestant: Contestant): Promise<Session> => {
  const { stage, redis } = setup;
  const server = await startServer(setup, contestant);
  const [early, crowd] = [await startCrowd(1), await startCrowd(CROWDS)];
  try {
    await joinAll(early, server, WARM_CLIENTS);
    const before = await weigh(server);
    const parties = { server, crowd, redis };
    const joins = await spend(stage, parties, () => joinAll(crowd, server, CLIENTS));
    const after = await weigh(server);
    await early.tell(() => ({ kind: "leave" }));
    const broadcast = await runBroadcast(setup, parties);
    await crowd.tell(() => ({ kind: "leave" }));
    const slowest = (field: "p50Ms" | "p99Ms") => Math.max(...joins.result.map((one) => one[field]));
    return {
      joins: {
        rate: CLIENTS / joins.spent.wall,
        cpuMs: (1_000 * joins.spent.server) / CLIENTS,
        p50Ms: slowest("p50Ms"),
        p99Ms: slowest("p99Ms"),
        spent: joins.spent,
      },
      memory: { rss: (after.rss - before.rss) / CLIENTS, heap: (after.heap - before.heap) / CLIENTS },
      broadcast: broadcast ?? { perCpuSecond: Number.NaN, rate: 0, bytes: 0, spent: joins.spent },
    };
  } finally {
    await Promise.all([early.stop(), crowd.stop()]);
    await server.stop();
  }
};

const pin = (pid: number, cores: string): void => {
  const { status } = spawnSync("taskset", ["--all-tasks", "--cpu-list", "--pid", cores, String(pid)]);
  if (status !== 0) throw new Error("taskset does not pin");
};

/** `rate` in deliveries a second as fast as it goes, `perCpuSecond` of deliveries at a steady rate. */
export type Scaled = { processes: number; perCpuSecond: number; rate: number; spent: Spent };

/** One channel in so many web processes, a core for each; the crowds have two others. */
export const runScaled = async ({ stage, redis, messages }: Setup, processes: number): Promise<Scaled> => {
  const server = await stage.startLaurel(processes);
  const crowd = await startCrowd(CROWDS);
  try {
    for (const [n, { pid }] of server.children.entries()) pin(pid, String(n));
    for (const { pid } of crowd.children) pin(pid, "2,3");
    await joinAll(crowd, server, CLIENTS);
    await publishAll(crowd, WARM_MESSAGES);
    const flood = await publishAll(crowd, messages * FLOOD_TIMES, FLOOD);
    // What was said counts for the limit of each client's messages in a second.
    await delay(REST_MS);
    const paced = PACE.rate * crowd.children.length * PACE_SECONDS;
    const { result, spent } = await spend(stage, { server, crowd, redis }, () =>
      publishAll(crowd, paced, PACE),
    );
    await crowd.tell(() => ({ kind: "leave" }));
    const rate = flood.deliveries / flood.seconds;
    return { processes, perCpuSecond: result.deliveries / spent.server, rate, spent };
  } finally {
    await crowd.stop();
    await server.stop();
  }
};
