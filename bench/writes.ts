// What changes of players cost that share transactions, against the same with a transaction each. See
// README.md.
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openBox, type Pool, startCosts } from "./support/box.ts";
import { ask, type Child, startChild, supportFile } from "./support/children.ts";
import type { LoadJob, LoadResult } from "./support/load.ts";
import { createSite, post, type Site } from "./support/setup.ts";
import { inModes, type Mode, MODE_OPTIONS } from "./support/run.ts";
import { calmest, rounded, spread, spreadText, table } from "./support/stats.ts";
import type { WriteCounts, WriteOrder, WritePorts } from "./support/write-server.ts";

const { values: options } = parseArgs({ options: MODE_OPTIONS });
const ROUNDS = Number(options.rounds ?? (options.quick ? 1 : 3));
const WARM_MS = options.quick ? 500 : 1_000;
const MEASURE_MS = options.quick ? 2_000 : 4_000;
const PLAYERS = options.quick ? 2_000 : 10_000;
const CONNECTIONS = [16, 64];

/** CPU of 1,000 requests, in ms. */
type Sample = {
  rate: number;
  serverMs: number;
  postgresMs: number;
  p50Ms: number;
  p99Ms: number;
  perCommit: number;
  foreign: number;
};
type Stage = {
  server: Child;
  ports: WritePorts;
  pool: Pool | undefined;
  site: Site;
  players: readonly string[];
  close(): Promise<void>;
};
type Write = {
  name: string;
  status: string;
  path: (player: string) => string;
  body: (player: string) => object;
};

const WRITES: Write[] = [
  {
    name: "score",
    status: "200",
    path: () => "/leaderboards/best/scores",
    body: (playerId) => ({ playerId, score: Math.floor(Math.random() * 1e6) }),
  },
  { name: "xp", status: "201", path: (id) => `/players/${id}/xp`, body: () => ({ amount: 5 }) },
  {
    name: "spend",
    status: "201",
    path: (id) => `/players/${id}/balances/coins/spend`,
    body: () => ({ amount: 1 }),
  },
];

const openStage = async (mode: Mode, dir: string): Promise<Stage> => {
  const dataDir = join(dir, mode);
  const box = mode === "cluster" ? await openBox(dataDir) : undefined;
  const env = box?.env ?? { MODE: "embedded", DATA_DIR: dataDir, DEMO: "off", AUTO_APPROVE_TENANTS: "on" };
  const execArgv =
    options.profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${options.profile}/${mode}`];
  const outputFile = join(dir, `${mode}.log`);
  const server = await startChild(supportFile("write-server.ts"), { env, outputFile, execArgv });
  const ports = server.first as WritePorts;
  const site = await createSite(`http://127.0.0.1:${ports.shared}`);
  const { projectId } = site;
  const coins = { key: "coins", name: "Coins", initialBalance: 1_000_000 };
  await post(site, "/currencies", coins);
  await post(site, "/leaderboards", {
    key: "best",
    name: "Best",
    operator: "BEST",
    metric: { source: "CUSTOM" },
  });
  const players = await tell<string[]>(server, { kind: "begin", projectId, players: PLAYERS });
  const close = async () => {
    await server.stop();
    await box?.close();
  };
  return { server, ports, pool: box?.pool, site, players, close };
};

const tell = <T>(server: Child, order: WriteOrder): Promise<T> => ask<T>(server, order);

const requestsOf = ({ path, body }: Write, { site, players }: Stage): string[] =>
  players.map((player) => {
    const json = JSON.stringify(body(player));
    const lines = [
      `POST /api/v1${path(player)} HTTP/1.1`,
      "Host: 127.0.0.1",
      `X-API-Key: ${site.key}`,
      "Content-Type: application/json",
      `Content-Length: ${json.length}`,
    ];
    return [...lines, "", json].join("\r\n");
  });

type Contestant = { write: Write; kind: keyof WritePorts; connections: number };

const nameOf = ({ write, kind, connections }: Contestant): string => `${write.name}, ${connections}, ${kind}`;

const CONTESTANTS = WRITES.flatMap((write) =>
  CONNECTIONS.flatMap((connections) =>
    (["alone", "shared"] as const).map((kind): Contestant => ({ write, kind, connections })),
  ),
).filter((contestant) => new RegExp(options.only ?? "").test(nameOf(contestant)));

const measure = async (stage: Stage, { write, kind, connections }: Contestant): Promise<Sample> => {
  const { server, ports, pool, site } = stage;
  const order = { kind: "count", projectId: site.projectId } as const;
  const before = await tell<WriteCounts>(server, order);
  const sender = await startChild(supportFile("load.ts"));
  const stop = await startCosts(pool, [server.pid, sender.pid]);
  const job: LoadJob = {
    port: ports[kind],
    path: "",
    headers: {},
    batch: 0,
    requests: requestsOf(write, stage),
    status: write.status,
    connections,
    warmMs: WARM_MS,
    measureMs: MEASURE_MS,
  };
  const { eventsPerSecond: rate, sent, failures, p50Ms, p99Ms } = await ask<LoadResult>(sender, job);
  const { wall, byPid, postgres, foreign } = await stop();
  await sender.stop();
  if (failures.length > 0) throw new Error(`${write.name}: answered ${failures.join(" ")}`);
  const after = await tell<WriteCounts>(server, order);
  const entries = after.entries - before.entries;
  // A first spending records the initial balance too.
  if (write.name !== "score" && entries < sent)
    throw new Error(`${write.name}: ${sent} answered, ${entries} in the ledger`);
  const serverMs = (1e6 * byPid.get(server.pid)!) / sent;
  const perCommit = sent / (after.transactions - before.transactions);
  return {
    rate,
    serverMs,
    postgresMs: (1e6 * postgres) / sent,
    p50Ms,
    p99Ms,
    perCommit,
    foreign: foreign / wall,
  };
};

type Rounds = Map<string, Sample[]>;

const runRounds = async (mode: Mode, stage: Stage): Promise<Rounds> => {
  const rounds: Rounds = new Map();
  for (let round = 1; round <= ROUNDS; round++) {
    // Forth and back in turn, so that nobody always comes after the same one.
    for (const contestant of round % 2 === 1 ? CONTESTANTS : CONTESTANTS.toReversed()) {
      const sample = await calmest(
        () => measure(stage, contestant),
        ({ foreign }) => foreign,
      );
      const name = nameOf(contestant);
      rounds.set(name, [...(rounds.get(name) ?? []), sample]);
      console.error(`${mode}, round ${round}, ${name}: ${rounded(sample.rate)}/s`);
    }
  }
  return rounds;
};

const cpuOf = ({ serverMs, postgresMs }: Sample): number => serverMs + postgresMs;

const report = (mode: Mode, rounds: Rounds): Record<string, unknown> => {
  const fields = ["p50Ms", "p99Ms", "serverMs", "postgresMs", "perCommit"] as const;
  const of = (samples: readonly Sample[], field: keyof Sample) => spread(samples.map((one) => one[field]));
  const lines = CONTESTANTS.map((contestant) => {
    const samples = rounds.get(nameOf(contestant))!;
    const alone = rounds.get(nameOf({ ...contestant, kind: "alone" }));
    const ratio = alone && spreadText(spread(samples.map((one, at) => cpuOf(one) / cpuOf(alone[at]!))));
    const numbers = fields.map((field) => rounded(of(samples, field).median));
    return [nameOf(contestant), spreadText(of(samples, "rate")), ...numbers, ratio ?? ""];
  });
  const head = [
    "",
    "requests/s",
    "p50 ms",
    "p99 ms",
    "server ms/1,000",
    "PG ms/1,000",
    "per commit",
    "CPU / alone",
  ];
  console.log(`\n### Writes, ${mode} mode\n\n${table(head, lines)}\n`);
  return { rounds: Object.fromEntries(rounds) };
};

await inModes("writes", options, {
  open: openStage,
  measure: async (mode, stage) => report(mode, await runRounds(mode, stage)),
});
