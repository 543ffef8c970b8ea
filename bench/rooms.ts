// What rooms cost where little happens: joins, a channel in which 200 sockets hear 20 messages a second, and
// silence; beside a bare Colyseus room. See README.md.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { describeMachine, openBox } from "./support/box.ts";
import { type Paced, runPace } from "./support/chat-crowds.ts";
import { redisPid, spend, type Spent } from "./support/fanout-costs.ts";
import { joinAll } from "./support/fanout-crowds.ts";
import { type Contestant, openStage, type Server, type Stage, startCrowd } from "./support/fanout-stage.ts";
import { rounded, spread, spreadText, table } from "./support/stats.ts";

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    rounds: { type: "string" },
    only: { type: "string", default: "joins,pace,rest" },
    json: { type: "string" },
    profile: { type: "string" },
  },
});
const only = new Set(options.only.split(","));
const ROUNDS = Number(options.rounds ?? (options.quick ? 1 : 5));
const CLIENTS = 200;
/** Crowds that join and leave before the one that counts, so that code is compiled. */
const WARM_CROWDS = 2;
const RATE = 20;
const PACE_S = options.quick ? 10 : 20;
const REST_S = options.quick ? 10 : 30;
/** Until what a join has left behind is done. */
const SETTLE_MS = 3_000;
const CONTESTANTS = ["laurel", "colyseus redis"] as const satisfies Contestant[];
type Name = (typeof CONTESTANTS)[number];

/** CPU in seconds of web, worker, PostgreSQL and Redis. */
const sumOf = ({ server, worker, postgres, redis }: Spent): number => server + worker + postgres + redis;

type Setup = { stage: Stage; redis: number | undefined };
type Joins = { name: Name; spent: Spent };
type Rest = { where: string; spent: Spent };

const startServer = ({ startLaurel, startFloor }: Stage, name: Name): Promise<Server> =>
  name === "laurel" ? startLaurel(1) : startFloor(name);

/** So many clients join one room, after others have. */
const measureJoins = async ({ stage, redis }: Setup, name: Name): Promise<Joins> => {
  const server = await startServer(stage, name);
  const crowd = await startCrowd(1);
  try {
    for (let n = 0; n < WARM_CROWDS; n++) {
      await joinAll(crowd, server, CLIENTS);
      await crowd.tell(() => ({ kind: "leave" }));
      // Joins of one player are limited.
      await delay(SETTLE_MS);
    }
    const { spent } = await spend(stage, { server, crowd, redis }, () => joinAll(crowd, server, CLIENTS));
    await crowd.tell(() => ({ kind: "leave" }));
    return { name, spent };
  } finally {
    await crowd.stop();
    await server.stop();
  }
};

const PLACES = {
  nobody: undefined,
  "a channel": { room: "chat" },
  "player rooms": { room: "player", options: {} },
} as const;

/** Nothing happens, with all sockets in one channel, each in a player's room, or without any. */
const measureRest = async ({ stage, redis }: Setup, where: keyof typeof PLACES): Promise<Rest> => {
  const server = await stage.startLaurel(1);
  const crowd = await startCrowd(1);
  try {
    const place = PLACES[where];
    const there = { ...server, target: { ...server.target, ...place } };
    if (place) await joinAll(crowd, there, CLIENTS);
    await delay(SETTLE_MS);
    const { spent } = await spend(stage, { server, crowd, redis }, () => delay(REST_S * 1_000));
    if (place) await crowd.tell(() => ({ kind: "leave" }));
    return { where, spent };
  } finally {
    await crowd.stop();
    await server.stop();
  }
};

const medianOf = <T>(list: readonly T[], value: (one: T) => number): string =>
  spreadText(spread(list.map(value)));

const showJoins = (joins: readonly Joins[]): void => {
  const floor = joins.filter(({ name }) => name !== "laurel").map(({ spent }) => sumOf(spent));
  const rows = CONTESTANTS.map((name) => {
    const own = joins.filter((one) => one.name === name).map(({ spent }) => spent);
    const ratios = own.map((spent, n) => ({ ratio: sumOf(spent) / floor[n]! }));
    return [
      name,
      medianOf(own, sumOf),
      medianOf(own, ({ server }) => server),
      medianOf(own, ({ postgres }) => postgres),
      medianOf(own, ({ redis }) => redis),
      medianOf(ratios, ({ ratio }) => ratio),
    ];
  });
  const head = [`${CLIENTS} joins, CPU s`, "all", "web", "PG", "Redis", "of bare Colyseus"];
  console.log(`\n${table(head, rows)}\n`);
};

const showPaces = (paces: readonly Paced[]): void => {
  const row = [
    `${CLIENTS} sockets, ${RATE} messages/s`,
    medianOf(paces, ({ perThousand: { web, worker, postgres } }) => web + worker + postgres),
    medianOf(paces, ({ perThousand }) => perThousand.web),
    medianOf(paces, ({ perThousand }) => perThousand.worker),
    medianOf(paces, ({ perThousand }) => perThousand.postgres),
    medianOf(paces, ({ p50Ms }) => p50Ms),
    medianOf(paces, ({ p99Ms }) => p99Ms),
    rounded(spread(paces.map(({ foreign }) => foreign)).median),
  ];
  const head = ["", "CPU ms of 1,000 deliveries", "web", "worker", "PG", "p50 ms", "p99 ms", "other load"];
  console.log(`\n${table(head, [row])}\n`);
};

const showRests = (rests: readonly Rest[]): void => {
  const cores = (list: readonly Rest[], of: (spent: Spent) => number): string =>
    medianOf(list, ({ spent }) => (100 * of(spent)) / spent.wall);
  const rows = Object.keys(PLACES).map((where) => {
    const own = rests.filter((one) => one.where === where);
    const [web, worker] = [cores(own, ({ server }) => server), cores(own, (spent) => spent.worker)];
    return [where, web, worker, cores(own, ({ postgres }) => postgres), cores(own, ({ redis }) => redis)];
  });
  console.log(`\n${table([`${CLIENTS} silent in`, "web, % of a core", "worker", "PG", "Redis"], rows)}\n`);
};

type Found = { joins: Joins[]; paces: Paced[]; rests: Rest[] };

const runRound = async (setup: Setup, round: number, { joins, paces, rests }: Found): Promise<void> => {
  // Forth and back in turn, so that none always comes first.
  const names = round % 2 === 1 ? CONTESTANTS : CONTESTANTS.toReversed();
  for (const name of only.has("joins") ? names : []) joins.push(await measureJoins(setup, name));
  if (only.has("pace"))
    paces.push(await runPace(setup.stage, { rate: RATE, seconds: PACE_S, members: CLIENTS }));
  const places = Object.keys(PLACES) as (keyof typeof PLACES)[];
  for (const where of only.has("rest") ? places : []) rests.push(await measureRest(setup, where));
  console.error(`round ${round} of ${ROUNDS}`);
};

const run = async (setup: Setup): Promise<Found> => {
  const found: Found = { joins: [], paces: [], rests: [] };
  for (let round = 1; round <= ROUNDS; round++) await runRound(setup, round, found);
  if (only.has("joins")) showJoins(found.joins);
  if (only.has("pace")) showPaces(found.paces);
  if (only.has("rest")) showRests(found.rests);
  return found;
};

const dir = await mkdtemp(join(tmpdir(), "laurel-bench-"));
const box = await openBox(join(dir, "data"));
try {
  const stage = await openStage(box, dir, { count: CLIENTS, profile: options.profile });
  try {
    const found = await run({ stage, redis: await redisPid(box.env["REDIS_URL"]!) });
    const text = JSON.stringify({ bench: "rooms", machine: await describeMachine(box.pool), ...found });
    if (options.json !== undefined) await writeFile(options.json, text);
  } finally {
    await stage.close();
  }
} finally {
  await box.close();
  await rm(dir, { recursive: true, force: true });
}
