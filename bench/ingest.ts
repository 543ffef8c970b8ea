// How fast events are taken in, against COPY and against the smallest server, in one run. See README.md.
import { join } from "node:path";
import { parseArgs } from "node:util";
import { freePort } from "../test/support/processes/process.ts";
import { type Box, describeMachine, startCosts } from "./support/box.ts";
import { ask, type Child, MAIN, startChild, supportFile } from "./support/children.ts";
import type { CopyJob, CopyResult } from "./support/copy-load.ts";
import { clearEvents, createOnceTable, fillEvents, storedEvents } from "./support/fill.ts";
import type { LoadJob, LoadResult } from "./support/load.ts";
import { createSite, type Site, untilReady } from "./support/setup.ts";
import { inBox, tell } from "./support/run.ts";
import { calmest, rounded, spread, spreadText, table } from "./support/stats.ts";

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    rounds: { type: "string" },
    rows: { type: "string" },
    only: { type: "string" },
    json: { type: "string" },
    profile: { type: "string" },
  },
});
const ROUNDS = Number(options.rounds ?? (options.quick ? 2 : 5));
const LARGE_ROWS = Number(options.rows ?? (options.quick ? 200_000 : 5_000_000));
const WARM_MS = 1_000;
const MEASURE_MS = options.quick ? 2_000 : 3_000;
/** A COPY commits this many rows; more made it no faster. */
const COPY_ROWS = 1_000;
const COPY_CONNECTIONS = 4;
const CONNECTIONS: Record<number, number> = { 0: 64, 1: 64, 100: 32, 1_000: 16 };

/** One figure of one round. Rates are events a second, CPU is in cores. */
type Sample = {
  rate: number;
  sender: number;
  server: number;
  postgres: number;
  foreign: number;
  p50Ms?: number;
  p99Ms?: number;
};
type Contestant = { name: string; measure: () => Promise<Sample> };
type Stage = {
  box: Box;
  site: Site;
  laurel: Child;
  oneCommit: Child;
  plain: Child;
  once: Child;
  laurelPort: number;
};

const openStage = async (box: Box, dir: string): Promise<Stage> => {
  const laurelPort = await freePort();
  const env = { ...box.env, PORT: String(laurelPort), ROLES: "web" };
  const outputFile = join(dir, "server.log");
  const execArgv = options.profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${options.profile}`];
  const laurel = await startChild(MAIN, { args: ["serve"], env, outputFile, execArgv });
  const url = `http://127.0.0.1:${laurelPort}`;
  await untilReady(url);
  const site = await createSite(url);
  const oneCommit = await startChild(supportFile("one-commit-server.ts"), { env, outputFile });
  await createOnceTable(box.pool);
  const minimal = (kind: string) =>
    startChild(supportFile("minimal-server.ts"), { args: [site.projectId, kind], env });
  const [plain, once] = [await minimal("plain"), await minimal("once")];
  return { box, site, laurel, oneCommit, plain, once, laurelPort };
};

type Target = { server: Child; port: number; path: string; headers: Record<string, string>; batch: number };

const measureLoad = async ({ box, site }: Stage, { server, ...target }: Target): Promise<Sample> => {
  const sender = await startChild(supportFile("load.ts"));
  const before = await storedEvents(box.pool, site.projectId);
  const stop = await startCosts(box.pool, [server.pid, sender.pid]);
  const connections = CONNECTIONS[target.batch]!;
  const job: LoadJob = { ...target, connections, warmMs: WARM_MS, measureMs: MEASURE_MS };
  const result = await ask<LoadResult>(sender, job);
  const costs = await stop();
  await sender.stop();
  if (result.failures.length > 0)
    throw new Error(`answers that are no success: ${result.failures.join(" ")}`);
  const stored = (await storedEvents(box.pool, site.projectId)) - before;
  if (stored !== result.sent) throw new Error(`${result.sent} events accepted, ${stored} stored`);
  const { wall, byPid, postgres, foreign } = costs;
  const server_ = byPid.get(server.pid)! / wall;
  const { p50Ms, p99Ms, cpu } = result;
  const rest = { postgres: postgres / wall, foreign: foreign / wall, p50Ms, p99Ms };
  return { rate: result.eventsPerSecond, sender: cpu, server: server_, ...rest };
};

const measureCopy = async ({ box, site }: Stage, tables: CopyJob["tables"]): Promise<Sample> => {
  const sender = await startChild(supportFile("copy-load.ts"));
  const before = await storedEvents(box.pool, site.projectId);
  const stop = await startCosts(box.pool, [sender.pid]);
  const { databaseUrl } = box;
  const size = { rows: COPY_ROWS, connections: COPY_CONNECTIONS, warmMs: WARM_MS, measureMs: MEASURE_MS };
  const result = await ask<CopyResult>(sender, {
    databaseUrl,
    projectId: site.projectId,
    tables,
    ...size,
  } satisfies CopyJob);
  const { wall, postgres, foreign } = await stop();
  await sender.stop();
  const stored = (await storedEvents(box.pool, site.projectId)) - before;
  if (stored !== result.sent) throw new Error(`${result.sent} events copied, ${stored} stored`);
  return {
    rate: result.eventsPerSecond,
    sender: result.cpu,
    server: 0,
    postgres: postgres / wall,
    foreign: foreign / wall,
  };
};

const contestantsOf = (stage: Stage): Contestant[] => {
  const { site, laurel, oneCommit, plain, once, laurelPort } = stage;
  const headers = { "X-API-Key": site.key };
  const http = (name: string, target: Target): Contestant => ({
    name,
    measure: () => measureLoad(stage, target),
  });
  const batches = [1, 100, 1_000].flatMap((batch) => [
    http(`laurel ${batch}`, {
      server: laurel,
      port: laurelPort,
      path: "/api/v1/events/batch",
      headers,
      batch,
    }),
    http(`minimal ${batch}`, {
      server: plain,
      port: Number(plain.first),
      path: "/events",
      headers: {},
      batch,
    }),
    http(`minimal once ${batch}`, {
      server: once,
      port: Number(once.first),
      path: "/events",
      headers: {},
      batch,
    }),
  ]);
  const single = { path: "/api/v1/events", headers, batch: 0 };
  return [
    { name: "copy", measure: () => measureCopy(stage, "all") },
    { name: "copy events only", measure: () => measureCopy(stage, "events") },
    ...batches,
    http("laurel single", { server: laurel, port: laurelPort, ...single }),
    http("one commit single", { server: oneCommit, port: Number(oneCommit.first), ...single }),
  ].filter(({ name }) => options.only === undefined || new RegExp(options.only).test(name));
};

type Rounds = Map<string, Sample[]>;

const runRounds = async (stage: Stage, prepare: () => Promise<void>): Promise<Rounds> => {
  const rounds: Rounds = new Map();
  for (let round = 1; round <= ROUNDS; round++) {
    for (const { name, measure } of contestantsOf(stage)) {
      const attempt = async () => {
        await prepare();
        return measure();
      };
      const sample = await calmest(attempt, ({ foreign }) => foreign);
      rounds.set(name, [...(rounds.get(name) ?? []), sample]);
      console.error(
        `round ${round} ${name}: ${rounded(sample.rate)}/s, other load ${rounded(sample.foreign)} cores`,
      );
    }
  }
  return rounds;
};

/** Ratios of the same round, so that slow minutes of the machine strike both sides. */
const ratios = (rounds: Rounds, name: string, other: string): number[] => {
  const others = rounds.get(other) ?? [];
  return (rounds.get(name) ?? []).flatMap(({ rate }, i) => (others[i] ? [rate / others[i].rate] : []));
};

const GOALS = [
  { name: "laurel 1", other: "copy" },
  { name: "laurel 100", other: "copy", goal: 0.5 },
  { name: "laurel 1000", other: "copy", goal: 0.5 },
  { name: "laurel 1", other: "minimal 1" },
  { name: "laurel 100", other: "minimal 100", goal: 0.6 },
  { name: "laurel 1000", other: "minimal 1000" },
  { name: "laurel 1", other: "minimal once 1" },
  { name: "laurel 100", other: "minimal once 100", goal: 0.6 },
  { name: "laurel 1000", other: "minimal once 1000" },
  { name: "laurel single", other: "one commit single", goal: 2 },
];

const report = (title: string, rounds: Rounds): Record<string, unknown> => {
  const of = (samples: readonly Sample[], field: keyof Sample) =>
    spread(samples.map((sample) => sample[field] ?? Number.NaN));
  const lines = [...rounds].map(([name, samples]) => [
    name,
    spreadText(of(samples, "rate")),
    ...(["p50Ms", "p99Ms", "server", "postgres", "sender", "foreign"] as const).map((field) =>
      rounded(of(samples, field).median),
    ),
  ]);
  const found = GOALS.map((goal) => ({ ...goal, ratio: spread(ratios(rounds, goal.name, goal.other)) }));
  const known = found.filter(({ ratio }) => Number.isFinite(ratio.median));
  console.log(`\n## ${title}\n`);
  console.log(
    table(
      ["", "events/s", "p50 ms", "p99 ms", "server cores", "PG cores", "sender cores", "other load"],
      lines,
    ),
  );
  console.log(
    `\n${table(
      ["ratio", "of the same round", "goal"],
      known.map(({ name, other, ratio, goal }) => [
        `${name} / ${other}`,
        spreadText(ratio),
        goal === undefined ? "" : `${ratio.median >= goal ? "met" : "MISSED"}: ${goal}`,
      ]),
    )}`,
  );
  return { rounds: Object.fromEntries(rounds), ratios: known };
};

const main = (): Promise<void> =>
  inBox(async (box, dir) => {
    const result: Record<string, unknown> = {
      bench: "ingest",
      machine: await describeMachine(box.pool),
      rounds: ROUNDS,
      largeRows: LARGE_ROWS,
    };
    const stage = await openStage(box, dir);
    const fresh = await runRounds(stage, () => clearEvents(box.pool));
    result["fresh"] = report("Empty tables", fresh);
    if (LARGE_ROWS > 0) {
      console.error(`filling ${LARGE_ROWS} rows`);
      await clearEvents(box.pool);
      await fillEvents(box.pool, stage.site.projectId, LARGE_ROWS);
      const large = await runRounds(stage, async () => void (await box.pool.query("truncate event_q")));
      result["large"] = report(`Tables that began with ${rounded(LARGE_ROWS)} events`, large);
      result["rowsAtEnd"] = await storedEvents(box.pool, stage.site.projectId);
    }
    for (const child of [stage.laurel, stage.oneCommit, stage.plain, stage.once]) await child.stop();
    await tell(result, options.json);
  });

await main();
