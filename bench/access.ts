// What authentication, limits and idempotency take of the throughput of one request, against the same
// operation without them. See README.md.
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { AccessCounts, AccessOrder, AccessPorts } from "./support/access-server.ts";
import { openBox, type Pool, startCosts } from "./support/box.ts";
import { ask, type Child, startChild, supportFile } from "./support/children.ts";
import type { LoadJob, LoadResult } from "./support/load.ts";
import { KEY_MARK } from "./support/sample.ts";
import { createSite, type Site } from "./support/setup.ts";
import { inModes, type Mode, MODE_OPTIONS } from "./support/run.ts";
import { calmest, rounded, spread, spreadText, table } from "./support/stats.ts";

const { values: options } = parseArgs({ options: MODE_OPTIONS });
const ROUNDS = Number(options.rounds ?? (options.quick ? 2 : 7));
const WARM_MS = options.quick ? 500 : 1_000;
const MEASURE_MS = options.quick ? 1_500 : 4_000;
const CONNECTIONS = 32;
const KNOWN_PLAYERS = 1_000;
/** Of the throughput without them, this much must be left. */
const GOAL = 0.75;

/** CPU is in cores, of a request in us. */
type Sample = {
  rate: number;
  serverUs: number;
  postgresUs: number;
  p50Ms: number;
  p99Ms: number;
  server: number;
  postgres: number;
  sender: number;
  foreign: number;
};
type Stage = {
  server: Child;
  ports: AccessPorts;
  pool: Pool | undefined;
  limited: Site;
  unlimited: Site;
  close(): Promise<void>;
};
type Kind = "write" | "read";
type Contestant = {
  name: string;
  kind: Kind;
  site: (stage: Stage) => Site;
  isBare: boolean;
  isKeyed: boolean;
};

const limited = ({ limited: site }: Stage) => site;
const unlimited = ({ unlimited: site }: Stage) => site;
const CONTESTANTS: Contestant[] = [
  { name: "write, bare", kind: "write", site: unlimited, isBare: true, isKeyed: false },
  { name: "write, key", kind: "write", site: unlimited, isBare: false, isKeyed: false },
  { name: "write, key + limits", kind: "write", site: limited, isBare: false, isKeyed: false },
  { name: "write, key + limits + once", kind: "write", site: limited, isBare: false, isKeyed: true },
  { name: "read, bare", kind: "read", site: unlimited, isBare: true, isKeyed: false },
  { name: "read, key", kind: "read", site: unlimited, isBare: false, isKeyed: false },
  { name: "read, key + limits", kind: "read", site: limited, isBare: false, isKeyed: false },
];

const openStage = async (mode: Mode, dir: string): Promise<Stage> => {
  const dataDir = join(dir, mode);
  const box = mode === "cluster" ? await openBox(dataDir) : undefined;
  const env = box?.env ?? { MODE: "embedded", DATA_DIR: dataDir, DEMO: "off" };
  const outputFile = join(dir, `${mode}.log`);
  const execArgv =
    options.profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${options.profile}/${mode}`];
  const server = await startChild(supportFile("access-server.ts"), { env, outputFile, execArgv });
  const ports = server.first as AccessPorts;
  const siteWith = async (isLimited: boolean): Promise<Site> => {
    const site = await createSite(`http://127.0.0.1:${ports.setup}`);
    await tell(server, { kind: "plan", projectId: site.projectId, isLimited });
    return site;
  };
  const close = async () => {
    await server.stop();
    await box?.close();
  };
  const sites = { limited: await siteWith(true), unlimited: await siteWith(false) };
  return { server, ports, pool: box?.pool, ...sites, close };
};

const tell = <T>(server: Child, order: AccessOrder): Promise<T> => ask<T>(server, order);

const headersOf = ({ isBare, isKeyed, site }: Contestant, stage: Stage): string[] => [
  "Host: 127.0.0.1",
  ...(isBare ? [] : [`X-API-Key: ${site(stage).key}`]),
  ...(isKeyed ? [`X-Idempotency-Key: ${KEY_MARK}`] : []),
];

const requestsOf = (contestant: Contestant, stage: Stage, players: readonly string[]): string[] => {
  const headers = headersOf(contestant, stage);
  const http = (first: string, more: readonly string[], body: string) =>
    [`${first} HTTP/1.1`, ...headers, ...more, "", body].join("\r\n");
  if (contestant.kind === "read") return players.map((id) => http(`GET /api/v1/players/${id}`, [], ""));
  const body = JSON.stringify({
    externalUserId: KEY_MARK,
    displayName: "Ada of the Whispering Forest",
    country: "SE",
    attributes: { class: "mage", guild: "north" },
    tags: ["beta"],
  });
  const more = ["Content-Type: application/json", `Content-Length: ${body.length}`];
  return [http("POST /api/v1/players", more, body)];
};

/** @throws Error unless every answered request has left its rows, and nothing else has */
const checkCounts = ({ name, kind, isKeyed }: Contestant, counts: AccessCounts, sent: number): void => {
  const made = kind === "write" ? sent : 0;
  const wanted: AccessCounts = {
    players: KNOWN_PLAYERS + made,
    announced: made,
    answers: isKeyed ? sent : 0,
  };
  const [found, expected] = [JSON.stringify(counts), JSON.stringify(wanted)];
  if (found !== expected) throw new Error(`${name}: ${sent} answered, ${found} stored, not ${expected}`);
};

const measure = async (stage: Stage, contestant: Contestant): Promise<Sample> => {
  const { server, ports, pool } = stage;
  const { projectId } = contestant.site(stage);
  const players = await tell<string[]>(server, { kind: "begin", projectId, players: KNOWN_PLAYERS });
  const sender = await startChild(supportFile("load.ts"));
  const stop = await startCosts(pool, [server.pid, sender.pid]);
  const job: LoadJob = {
    port: contestant.isBare ? ports.bare : ports.guarded,
    path: "",
    headers: {},
    batch: 0,
    requests: requestsOf(contestant, stage, players),
    status: contestant.kind === "write" ? "201" : "200",
    connections: CONNECTIONS,
    warmMs: WARM_MS,
    measureMs: MEASURE_MS,
  };
  const { eventsPerSecond: rate, sent, failures, p50Ms, p99Ms, cpu } = await ask<LoadResult>(sender, job);
  const { wall, byPid, postgres, foreign } = await stop();
  await sender.stop();
  if (failures.length > 0) throw new Error(`${contestant.name}: answered ${failures.join(" ")}`);
  checkCounts(contestant, await tell<AccessCounts>(server, { kind: "count", projectId }), sent);
  const serverCpu = byPid.get(server.pid)!;
  const cores = { server: serverCpu / wall, postgres: postgres / wall, sender: cpu, foreign: foreign / wall };
  const costs = { serverUs: (1e6 * serverCpu) / sent, postgresUs: (1e6 * postgres) / sent };
  return { rate, ...costs, p50Ms, p99Ms, ...cores };
};

type Rounds = Map<string, Sample[]>;

const runRounds = async (mode: Mode, stage: Stage): Promise<Rounds> => {
  const rounds: Rounds = new Map();
  const taking = CONTESTANTS.filter(({ name }) => new RegExp(options.only ?? "").test(name));
  for (let round = 1; round <= ROUNDS; round++) {
    // Forth and back in turn, so that nobody always comes after the same one.
    for (const contestant of round % 2 === 1 ? taking : taking.toReversed()) {
      const sample = await calmest(
        () => measure(stage, contestant),
        ({ foreign }) => foreign,
      );
      const { name } = contestant;
      rounds.set(name, [...(rounds.get(name) ?? []), sample]);
      const load = `other load ${rounded(sample.foreign)} cores`;
      console.error(`${mode}, round ${round}, ${name}: ${rounded(sample.rate)}/s, ${load}`);
    }
  }
  return rounds;
};

/** What is left of the throughput of the bare operation, of the same round. */
const leftOf = (rounds: Rounds, { name, kind }: Contestant): number[] => {
  const bare = rounds.get(`${kind}, bare`) ?? [];
  return (rounds.get(name) ?? []).flatMap(({ rate }, at) => (bare[at] ? [rate / bare[at].rate] : []));
};

/** The operation as it is served: all that its kind has. */
const isWhole = ({ kind, name, isKeyed }: Contestant): boolean =>
  kind === "write" ? isKeyed : name === "read, key + limits";

const report = (mode: Mode, rounds: Rounds): Record<string, unknown> => {
  const of = (samples: readonly Sample[], field: keyof Sample) =>
    spread(samples.map((sample) => sample[field]));
  const fields = [
    "p50Ms",
    "p99Ms",
    "serverUs",
    "postgresUs",
    "server",
    "postgres",
    "sender",
    "foreign",
  ] as const;
  const lines = [...rounds]
    .toSorted(([a], [b]) => orderOf(a) - orderOf(b))
    .map(([name, samples]) => [
      name,
      spreadText(of(samples, "rate")),
      ...fields.map((field) => rounded(of(samples, field).median)),
    ]);
  const head = [
    "",
    "requests/s",
    "p50 ms",
    "p99 ms",
    "server cores",
    "PG cores",
    "sender cores",
    "other load",
  ];
  console.log(`\n### Access, ${mode} mode\n\n${table(head, lines)}\n`);
  const ratios = CONTESTANTS.filter(({ isBare }) => !isBare)
    .map((contestant) => ({ contestant, left: spread(leftOf(rounds, contestant)) }))
    .filter(({ left }) => Number.isFinite(left.median));
  const verdict = (contestant: Contestant, median: number) =>
    isWhole(contestant) ? `${median >= GOAL ? "met" : "MISSED"}: ${GOAL}` : "";
  console.log(
    table(
      ["ratio", "of the same round", "goal"],
      ratios.map(({ contestant, left }) => [
        `${contestant.name} / bare`,
        spreadText(left),
        verdict(contestant, left.median),
      ]),
    ),
  );
  const found = ratios.map(({ contestant: { name }, left }) => ({ name, left }));
  return { rounds: Object.fromEntries(rounds), ratios: found };
};

const orderOf = (name: string): number => CONTESTANTS.findIndex((contestant) => contestant.name === name);

await inModes("access", options, {
  open: openStage,
  measure: async (mode, stage) => report(mode, await runRounds(mode, stage)),
});
