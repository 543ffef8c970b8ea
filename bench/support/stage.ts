import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { openSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { freePort } from "../../test/support/processes/process.ts";
import { type Services, startServices } from "../../test/support/processes/services.ts";
import { inDirectory } from "./turns.ts";

/** A checkout of Laurel whose programs run; benchmarks know of it only what clients and operators know. */
export type Build = { name: string; root: string };

const OWN: Build = { name: "this build", root: join(import.meta.dirname, "../..") };

/** This checkout, and that of `--against`, if there is one. */
export const buildsOf = (against: string | undefined): Build[] =>
  against === undefined ? [OWN] : [OWN, { name: "the other", root: resolve(against) }];

export type Child = { process: ChildProcess; pid: number; stop(): Promise<void> };

type StartOptions = { env: Record<string, string>; logFile?: string; execArgv?: string[]; execPath?: string };

/** Starts a program, and waits for the first message that it sends, which says that it is ready. */
export const start = async (
  [path = "", ...args]: readonly string[],
  { env, logFile, execArgv = [], execPath = process.execPath }: StartOptions,
): Promise<Child & { first: unknown }> => {
  const output = logFile === undefined ? "inherit" : openSync(logFile, "a");
  const child = fork(path, args, {
    cwd: join(import.meta.dirname, "../.."),
    execArgv,
    execPath,
    env: { PATH: process.env["PATH"] ?? "", CONSOLE_BUILD: "off", ...env },
    stdio: ["ignore", output, output, "ipc"],
  });
  const ended = once(child, "exit");
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
  };
  const failed = async (): Promise<never> => {
    const [code] = (await ended) as unknown[];
    throw new Error(`${path} ${args.join(" ")} ended with ${String(code)}; its log is ${logFile ?? "above"}`);
  };
  // A library in there greets pm2, whoever has started it.
  const told = new Promise((done) => {
    child.on("message", (message) => JSON.stringify(message).includes("axm:") || done(message));
  });
  const first = await Promise.race([told, failed()]);
  return { process: child, pid: child.pid!, first, stop };
};

/** How `npm start` of a build, which is for embedded mode, runs Node. */
const flagsOf = ({ root }: Build): string[] =>
  /"start": "exec node ((?:--max\S+ )*)/
    .exec(readFileSync(join(root, "package.json"), "utf8"))?.[1]
    ?.split(" ")
    .filter(Boolean) ?? [];

/** Between its turns a process is idle, for which V8 would take its heap apart, and the quieter build would pay. */
const IN_TURNS = ["--no-memory-reducer"];

/** Starts `laurel serve` or `laurel worker` of a build, on the Node that it brings. */
export const startLaurel = (build: Build, command: string, options: StartOptions): Promise<Child> =>
  start([join(build.root, "src/main.ts"), command], {
    ...options,
    execArgv: options.env["MODE"] === "embedded" ? flagsOf(build) : IN_TURNS,
    execPath: join(build.root, "node_modules/node/bin/node"),
  });

/** A project of a new tenant, with a key for everything. */
export type Site = { url: string; projectId: string; key: string };

type Body = Record<string, unknown>;

const call = async (url: string, body: Body, headers: Record<string, string>): Promise<Body> => {
  const response = await fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  const answer = (await response.json()) as Body;
  if (!response.ok) throw new Error(`${url}: ${response.status} ${JSON.stringify(answer)}`);
  return answer;
};

/** Registers a tenant with a project and a key over the API, as an integrator would. */
export const createSite = async (url: string): Promise<Site> => {
  const owner = { email: `${randomUUID()}@example.com`, password: "Correct-horse-7", name: "Bench" };
  const { accessToken } = await call(`${url}/api/v1/auth/register`, { ...owner, tenantName: "Bench" }, {});
  const Authorization = `Bearer ${String(accessToken)}`;
  const { id } = await call(`${url}/api/v1/projects`, { name: "Bench" }, { Authorization });
  const keys = `${url}/api/v1/projects/${String(id)}/api-keys`;
  const made = await call(keys, { name: "Bench", scopes: ["*"] }, { Authorization });
  return { url, projectId: String(id), key: String(made["key"]) };
};

/** Posts with the site's key. @throws Error unless the answer is a success */
export const post = ({ url, key }: Site, path: string, body: Body): Promise<Body> =>
  call(`${url}/api/v1${path}`, body, { "X-API-Key": key });

/** Waits until `check` says yes. @throws Error after `maxMs` */
export const until = async (
  check: () => boolean | Promise<boolean>,
  { maxMs = 300_000, everyMs = 5 } = {},
): Promise<void> => {
  const endMs = performance.now() + maxMs;
  while (!(await check())) {
    if (performance.now() > endMs) throw new Error(`it did not happen within ${maxMs} ms`);
    await new Promise((done) => setTimeout(done, everyMs));
  }
};

export type Mode = "cluster" | "embedded";

/** The database of a stage: SQL that answers with rows. Only cluster mode has one that others can ask. */
export type Sql = (text: string) => Promise<Record<string, unknown>[]>;

/** A running web process, or an embedded server, with a site, in a directory, database and Redis of its own. */
export type Stage = {
  build: Build;
  url: string;
  web: Child;
  sql: Sql;
  /** Settings for other processes of this cluster. */
  env: Record<string, string>;
  logFile: string;
  close(): Promise<void>;
};

const EMBEDDED = { MODE: "embedded", DEMO: "off" };

/** Starts a build, in cluster mode without a worker. `dir` goes with the benchmark. */
export const openStage = async (build: Build, mode: Mode, dir: string): Promise<Stage> => {
  const own = join(dir, randomUUID());
  const services: Services | undefined =
    mode === "cluster" ? await startServices(own, { isEmpty: true }) : undefined;
  services?.removeAtExit();
  const database: Database | undefined = services && (await openPostgres(services.databaseUrl, 1));
  const port = await freePort();
  const env: Record<string, string> = {
    ...(services?.env ?? { ...EMBEDDED, DATA_DIR: own }),
    LOG_LEVEL: "info",
    PORT: String(port),
  };
  const logFile = join(dir, "servers.log");
  const web = await startLaurel(build, "serve", { env: services ? { ...env, ROLES: "web" } : env, logFile });
  const close = async (): Promise<void> => {
    await web.stop();
    await database?.close();
    await services?.remove();
  };
  const sql: Sql = async (text) => database!.em.fork().getConnection().execute(text);
  return { build, url: `http://127.0.0.1:${port}`, web, sql, env, logFile, close };
};

/** Starts a worker beside the web process of a stage. */
export const startWorker = async ({ build, env, logFile }: Stage): Promise<Child> =>
  startLaurel(build, "worker", { env: { ...env, PORT: String(await freePort()) }, logFile });

/** A stage with a project, and the worker beside it where there is one. */
export type Visited = { name: string; stage: Stage; site: Site; worker?: Child; pids: readonly number[] };
export type Wanted = { against?: string | undefined; mode?: Mode; hasWorker?: boolean };

/** Runs with a stage of this build, and of `against` if that is one; they end with it. */
export const onStages = async (
  { against, mode = "cluster", hasWorker = false }: Wanted,
  run: (visited: Visited[], dir: string) => Promise<void>,
): Promise<void> =>
  inDirectory(async (dir) => {
    const visited: Visited[] = [];
    try {
      for (const build of buildsOf(against)) {
        const stage = await openStage(build, mode, dir);
        const worker = hasWorker ? await startWorker(stage) : undefined;
        const pids = [stage.web.pid, ...(worker ? [worker.pid] : [])];
        const site = await createSite(stage.url);
        visited.push({ name: build.name, stage, site, pids, ...(worker ? { worker } : {}) });
      }
      await run(visited, dir);
    } finally {
      for (const { stage, worker } of visited) {
        await worker?.stop();
        await stage.close();
      }
    }
  });

/** Rows that wait for a worker: events, and commits to be told of. */
export const waiting = async ({ sql }: Pick<Stage, "sql">): Promise<{ events: number; commits: number }> => {
  const [row] = await sql(
    "select (select count(*) from event_q) as events, (select count(*) from outbox_q) as commits",
  );
  return { events: Number(row!["events"]), commits: Number(row!["commits"]) };
};

const TICKS_PER_SECOND = 100;

/** CPU seconds that a process has used, all its threads; 0 when it has gone. */
export const cpuSecondsOf = (pid: number): number => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
  } catch {
    return 0;
  }
};

const backends = async (sql: Sql | undefined): Promise<number[]> =>
  (
    await sql?.(
      "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
    )
  )?.map((row) => Number(row["pid"])) ?? [];

/**
 * Starts counting the CPU of processes and, with `sql`, of PostgreSQL's backends of that database.
 * @returns what ends it, with the seconds of CPU of each process and of the backends together
 */
export const startCosts = async (pids: readonly number[], sql?: Sql) => {
  const before = new Map([...pids, ...(await backends(sql))].map((pid) => [pid, cpuSecondsOf(pid)]));
  return async (): Promise<{ of: number[]; postgres: number }> => {
    const used = (pid: number): number => Math.max(0, cpuSecondsOf(pid) - (before.get(pid) ?? 0));
    const of = pids.map(used);
    return { of, postgres: (await backends(sql)).reduce((sum, pid) => sum + used(pid), 0) };
  };
};

/** A program that is less than Laurel; see there. */
export const FLOOR = join(import.meta.dirname, "floor.ts");
