// What leaderboards cost as they grow: submitting, the first places and the places around a player over HTTP,
// and keeping the rank index against the least that Redis can do. See README.md.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { freePort } from "../test/support/processes/process.ts";
import { type Box, describeMachine, openBox, startCosts } from "./support/box.ts";
import { ask, type Child, MAIN, startChild, supportFile } from "./support/children.ts";
import type { LoadJob, LoadResult } from "./support/load.ts";
import { fillBoards, keyOf, unlimit, untilBuilt } from "./support/filled-boards.ts";
import { playerIdOf, type RankPace, rankPace } from "./support/rank-floor.ts";
import { createSite, type Site, untilReady } from "./support/setup.ts";
import { calmest, rounded, spread, spreadText, table } from "./support/stats.ts";

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    rounds: { type: "string" },
    sizes: { type: "string", default: "10000,100000,1000000" },
    json: { type: "string" },
  },
});
const ROUNDS = Number(options.rounds ?? (options.quick ? 2 : 5));
const WARM_MS = options.quick ? 500 : 1_000;
const MEASURE_MS = options.quick ? 2_000 : 5_000;
const SIZES = options.sizes.split(",").map(Number);
const CONNECTIONS = 16;
/** Players that requests name in turn. */
const NAMED = 500;
/** Of the cost on the smallest board, at most. */
const GROWTH_GOAL = 1.5;
/** Of the pace of the bare script with one update in a call, at least. */
const FLOOR_GOAL = 0.5;

const KINDS = ["submit a score", "first 50 places", "11 places around a player"] as const;
type Kind = (typeof KINDS)[number];
type Sample = {
  rate: number;
  p50Ms: number;
  p99Ms: number;
  serverUs: number;
  postgresUs: number;
  foreign: number;
};
type Stage = { box: Box; site: Site; server: Child; port: number };

const openStage = async (dir: string): Promise<Stage> => {
  const [box, port] = [await openBox(dir), await freePort()];
  const env = { ...box.env, PORT: String(port), LOG_LEVEL: "error" };
  const server = await startChild(MAIN, { args: ["serve"], env, outputFile: join(dir, "server.log") });
  const url = `http://127.0.0.1:${port}`;
  await untilReady(url);
  const site = await createSite(url);
  await unlimit(box, site);
  return { box, site, server, port };
};

const requestsOf = ({ site }: Stage, kind: Kind, size: number): string[] => {
  const head = (first: string, more: readonly string[], body: string) =>
    [`${first} HTTP/1.1`, "Host: 127.0.0.1", `X-API-Key: ${site.key}`, ...more, "", body].join("\r\n");
  const path = `/api/v1/leaderboards/${keyOf(size)}`;
  if (kind === "first 50 places") return [head(`GET ${path}/entries?limit=50`, [], "")];
  return Array.from({ length: NAMED }, (_, i) => {
    const playerId = playerIdOf(Math.floor((i * size) / NAMED));
    if (kind !== "submit a score") return head(`GET ${path}/entries?around=${playerId}`, [], "");
    const body = JSON.stringify({ playerId, score: (i * 104_729) % 1_000_003 });
    const more = ["Content-Type: application/json", `Content-Length: ${body.length}`];
    return head(`POST ${path}/scores`, more, body);
  });
};

const measure = async (stage: Stage, kind: Kind, size: number): Promise<Sample> => {
  const { box, server, port } = stage;
  const sender = await startChild(supportFile("load.ts"));
  const job: LoadJob = {
    port,
    path: "",
    headers: {},
    batch: 0,
    requests: requestsOf(stage, kind, size),
    connections: CONNECTIONS,
    warmMs: WARM_MS,
    measureMs: MEASURE_MS,
  };
  const stop = await startCosts(box.pool, [server.pid, sender.pid]);
  const { eventsPerSecond: rate, sent, failures, p50Ms, p99Ms } = await ask<LoadResult>(sender, job);
  const { wall, byPid, postgres, foreign } = await stop();
  await sender.stop();
  if (failures.length > 0) throw new Error(`${kind}, ${size}: answered ${failures.join(" ")}`);
  const costs = { serverUs: (1e6 * byPid.get(server.pid)!) / sent, postgresUs: (1e6 * postgres) / sent };
  return { rate, p50Ms, p99Ms, ...costs, foreign: foreign / wall };
};

type Rounds = { http: Map<string, Sample[]>; ranks: Map<number, RankPace[]> };

const runRounds = async (stage: Stage): Promise<Rounds> => {
  const rounds: Rounds = { http: new Map(), ranks: new Map() };
  const keep = <K, V>(map: Map<K, V[]>, key: K, value: V) => map.set(key, [...(map.get(key) ?? []), value]);
  for (let round = 1; round <= ROUNDS; round++) {
    // Forth and back in turn, so that no size always comes first.
    for (const size of round % 2 === 1 ? SIZES : SIZES.toReversed()) {
      for (const kind of KINDS) {
        const sample = await calmest(
          () => measure(stage, kind, size),
          ({ foreign }) => foreign,
        );
        keep(rounds.http, `${kind} | ${size}`, sample);
      }
      keep(rounds.ranks, size, await rankPace(stage.box.env, size));
    }
    console.error(`round ${round} of ${ROUNDS}`);
  }
  return rounds;
};

const verdict = (isMet: boolean, goal: string): string => `${isMet ? "met" : "MISSED"}: ${goal}`;

const summarise = ({ http, ranks }: Rounds): void => {
  const lines = [...http].map(([name, samples]) => {
    const of = (read: (sample: Sample) => number) => spreadText(spread(samples.map(read)));
    const figures = [of((s) => s.rate), of((s) => s.p50Ms), of((s) => s.p99Ms), of((s) => s.serverUs)];
    return [...name.split(" | "), ...figures, of((s) => s.postgresUs), of((s) => s.foreign)];
  });
  const head = ["", "members", "requests/s", "p50 ms", "p99 ms", "server us", "PG us", "other load"];
  console.log(table(head, lines), "\n");
  const paces = [...ranks].map(([size, found]) => {
    const of = (read: (pace: RankPace) => number) => spreadText(spread(found.map(read)));
    return [rounded(size), of((p) => p.laurel), of((p) => p.batched), of((p) => p.single)];
  });
  console.log(
    table(["members", "update + rank/s", "bare script, 200 a call", "bare script, one a call"], paces),
    "\n",
  );
  console.log(table(["ratio", "of the same round", "goal"], ratiosOf({ http, ranks })));
};

const ratiosOf = ({ http, ranks }: Rounds): string[][] => {
  const smallest = Math.min(...SIZES);
  const growth = KINDS.flatMap((kind) =>
    SIZES.filter((size) => size > smallest).map((size) => {
      const base = http.get(`${kind} | ${smallest}`)!;
      const ratio = spread(http.get(`${kind} | ${size}`)!.map((s, i) => s.serverUs / base[i]!.serverUs));
      const goal = verdict(ratio.median <= GROWTH_GOAL, `${GROWTH_GOAL} at most`);
      return [`${kind}: server CPU, ${rounded(size)} / ${rounded(smallest)}`, spreadText(ratio), goal];
    }),
  );
  const floors = [...ranks].flatMap(([size, found]) => {
    const single = spread(found.map((pace) => pace.laurel / pace.single));
    const batched = spread(found.map((pace) => pace.laurel / pace.batched));
    const goal = verdict(single.median >= FLOOR_GOAL, String(FLOOR_GOAL));
    return [
      [`update + rank / bare script, one a call, ${rounded(size)}`, spreadText(single), goal],
      [`update + rank / bare script, 200 a call, ${rounded(size)}`, spreadText(batched), ""],
    ];
  });
  return [...growth, ...floors];
};

const dir = await mkdtemp(join(tmpdir(), "laurel-bench-"));
const stage = await openStage(dir);
try {
  await fillBoards(stage.box, stage.site, SIZES);
  for (const size of SIZES) await untilBuilt(stage.site, size);
  const rounds = await runRounds(stage);
  summarise(rounds);
  const machine = await describeMachine(stage.box.pool);
  console.log(JSON.stringify(machine));
  const kept = { machine, http: [...rounds.http], ranks: [...rounds.ranks] };
  if (options.json !== undefined) await writeFile(options.json, JSON.stringify(kept));
} finally {
  await stage.server.stop();
  await stage.box.close();
  await rm(dir, { recursive: true, force: true });
}
