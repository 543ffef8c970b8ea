// What counting the usage of plans costs the commits that take events. See README.md.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { sql } from "kysely";
import { createApp } from "../src/app.ts";
import { loadConfig } from "../src/config.ts";
import { newId, partitionOf } from "../src/domain/kernel/ids.ts";
import type { Plan } from "../src/domain/kernel/caller.ts";
import type { Work } from "../src/domain/kernel/work.ts";
import { groupSlot } from "../src/domain/tracking/group-commit.ts";
import { type NewEvent, storeEvents } from "../src/domain/tracking/event-input.ts";
import { type MeteredRequest, storeMetered } from "../src/domain/tracking/meter.ts";
import { createLog } from "../src/log.ts";
import { createMetrics } from "../src/metrics.ts";
import { openPlatform } from "../src/platform.ts";
import { openBox } from "./support/box.ts";
import { rounded, spread, spreadText, table } from "./support/stats.ts";

const { values: options } = parseArgs({ options: { quick: { type: "boolean", default: false } } });
/** Short and many: other load comes and goes within seconds. */
const ROUNDS = options.quick ? 25 : 60;
const MEASURE_MS = 500;
const ROWS = 1_000_000;
/** Requests in a commit, and events in a request: of two tenants, as group commit mixes them. */
const SHAPES = [
  { requests: 20, events: 1 },
  { requests: 10, events: 20 },
] as const;

type Store = (work: Work, requests: readonly MeteredRequest[], lane: number) => Promise<unknown>;
const plain: Store = (work, requests) =>
  storeEvents(
    work,
    requests.flatMap(({ events }) => events),
  );
const metered: Store = (work, requests, lane) =>
  storeMetered(work, requests, { chunk: ROWS, slot: groupSlot(lane) });

const directory = await mkdtemp(join(tmpdir(), "laurel-bench-"));
const box = await openBox(directory);
Object.assign(process.env, box.env, { LOG_LEVEL: "error" });
const config = await loadConfig();
const log = createLog(config);
const platform = await openPlatform(config, log);
const app = createApp({ config, log, metrics: createMetrics(), platform });

const projects = Array.from({ length: 2 }, newId);
const eventOf = (projectId: string): NewEvent => {
  const [id, user, now] = [newId(), `player-${Math.floor(Math.random() * 10_000)}`, Date.now()];
  return {
    id,
    p: projectId,
    u: user,
    t: "level_finished",
    d: '{"level":12,"mode":"ranked","score":48213,"stars":3}',
    ts: now,
    at: now,
    k: id,
    x: id.replaceAll("-", ""),
    h: partitionOf(projectId, user),
  };
};

const groupOf = (plan: Plan, { requests, events }: (typeof SHAPES)[number]): MeteredRequest[] =>
  Array.from({ length: requests }, (_, n) => {
    const projectId = projects[n % projects.length]!;
    const tenant = { plan, planOverrides: { eventsPerMonth: plan === "FREE" ? 1_000_000_000 : null } };
    return {
      sender: { tenantId: projectId, tenant },
      events: Array.from({ length: events }, () => eventOf(projectId)),
    };
  });

type Contestant = { name: string; plan: Plan; store: Store };
const CONTESTANTS: readonly Contestant[] = [
  { name: "not counted", plan: "ENTERPRISE", store: plain },
  { name: "counted", plan: "ENTERPRISE", store: metered },
  { name: "with a quota", plan: "FREE", store: metered },
];

/** Ticks of a clock that /proc counts in, in ms. */
const TICK_MS = 10;

/** Returns the processor time that this process and its connections' servers have taken, in ms. */
const cpuMs = async (): Promise<number> => {
  const { rows } = await box.pool.query(
    `select pid from pg_stat_activity where datname = current_database() and backend_type = 'client backend'`,
  );
  const { user, system } = process.cpuUsage();
  let ms = (user + system) / 1_000;
  for (const { pid } of rows) {
    // The name, in parentheses, may have spaces; after it, user and system time are the 12th and 13th field.
    const stat = await readFile(`/proc/${String(pid)}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    ms += (Number(fields[11]) + Number(fields[12])) * TICK_MS;
  }
  return ms;
};

type Measured = { rate: number; cpu: number };

/** Returns events stored in a second by as many transactions at once as a process has, and CPU ms of each. */
const measure = async (shape: (typeof SHAPES)[number], { plan, store }: Contestant): Promise<Measured> => {
  const fromCpu = await cpuMs();
  const fromMs = performance.now();
  let stored = 0;
  await Promise.all(
    Array.from({ length: app.limits.ingestConcurrency }, async (_, lane) => {
      while (performance.now() - fromMs < MEASURE_MS) {
        const group = groupOf(plan, shape);
        await app.transact((work) => store(work, group, lane));
        stored += shape.requests * shape.events;
      }
    }),
  );
  const rate = (stored / (performance.now() - fromMs)) * 1_000;
  return { rate, cpu: ((await cpuMs()) - fromCpu) / stored };
};

/** Measures all in turn, each as often the first as the others. The round before the first warms up. */
const compare = async (shape: (typeof SHAPES)[number]): Promise<Map<string, Measured[]>> => {
  const measured = new Map(CONTESTANTS.map(({ name }) => [name, [] as Measured[]]));
  for (let round = -1; round < ROUNDS; round++) {
    const turn = (round + CONTESTANTS.length) % CONTESTANTS.length;
    for (const one of [...CONTESTANTS.slice(turn), ...CONTESTANTS.slice(0, turn)]) {
      const of = await measure(shape, one);
      if (round >= 0) measured.get(one.name)!.push(of);
    }
  }
  return measured;
};

try {
  for (const shape of SHAPES) {
    const all = await compare(shape);
    await sql`truncate tracked_events, event_dedupe, event_q`.execute(box.database.em.fork().getKysely());
    const base = all.get("not counted")!;
    console.log(`\n${shape.requests} requests of ${shape.events} events in a commit\n`);
    const rows = [...all].map(([name, own]) => [
      name,
      rounded(spread(own.map(({ rate }) => rate)).median),
      spreadText(spread(own.map(({ rate }, n) => rate / base[n]!.rate))),
      spreadText(spread(own.map(({ cpu }, n) => cpu / base[n]!.cpu))),
    ]);
    console.log(table(["", "events/s", "of not counted", "CPU of not counted"], rows));
  }
} finally {
  await platform.close();
  await box.close();
  await rm(directory, { recursive: true, force: true });
}
