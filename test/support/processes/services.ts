import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { Redis } from "ioredis";
import { once } from "node:events";
import type { Kysely, sql } from "kysely";
import { type Database, openPostgres } from "../../../src/platform/database.ts";
import { type Domain, openDomain } from "../domain/domain.ts";
import { eventually } from "../eventually.ts";
import { freePort, type Laurel, startProcess, supervise, type Supervised, temporaryDir } from "./process.ts";
import { type Client, clientOf } from "../http/client.ts";
import { madeOnce } from "../made.ts";

const ADMIN_URL = process.env["DATABASE_URL"] ?? "postgres://postgres@127.0.0.1:5432/postgres";
const REDIS_URL = process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379";

const admin = async (statement: string): Promise<void> => {
  const database = await openPostgres(ADMIN_URL, 1);
  try {
    await database.em.fork().getConnection().execute(statement);
  } finally {
    await database.close();
  }
};

const urlOf = (name: string): string => {
  const url = new URL(ADMIN_URL);
  url.pathname = `/${name}`;
  return url.href;
};

const newName = (): string => `laurel_test_${randomUUID().replaceAll("-", "").slice(0, 16)}`;

const left: string[] = [];

/** Drops a database when this process ends: one that its tests share has no test to drop it. */
const dropAtExit = (name: string): void => {
  if (left.length === 0)
    process.on("exit", () => {
      const statements = left.map((one) => `drop database if exists ${one} with (force)`);
      const flags = statements.flatMap((statement) => ["-c", statement]);
      spawnSync("psql", ["--no-psqlrc", "--quiet", ...flags, ADMIN_URL], { stdio: "ignore" });
    });
  left.push(name);
};

let template: Promise<string> | undefined;

/** A migrated database that others are copied from: a copy takes a twentieth of the time of migrating. */
const migratedTemplate = async (): Promise<string> => {
  const name = newName();
  await admin(`create database ${name}`);
  const database = await openPostgres(urlOf(name), 2);
  await database.migrateUp();
  await database.close();
  dropAtExit(name);
  return name;
};

/** Redis is shared with other runs: only the keys of this one go. */
const removeKeys = async (namespace: string): Promise<void> => {
  const redis = new Redis(REDIS_URL);
  try {
    for await (const keys of redis.scanStream({ match: `*${namespace}*`, count: 1_000 })) {
      if ((keys as string[]).length > 0) await redis.unlink(...(keys as string[]));
    }
  } finally {
    redis.disconnect();
  }
};

/** A database and a Redis namespace of a test's own. */
export type Services = {
  env: Record<string, string>;
  databaseUrl: string;
  namespace: string;
  /** In place of `remove`, where tests of several files share them. */
  removeAtExit: () => void;
  remove: () => Promise<void>;
};

/**
 * @param dataDir where the processes keep their shared secrets
 * @param isEmpty whether the database is not migrated yet
 */
export const startServices = async (dataDir: string, { isEmpty = false } = {}): Promise<Services> => {
  const name = newName();
  const origin = isEmpty ? undefined : await (template ??= migratedTemplate());
  await admin(`create database ${name}${origin ? ` template ${origin}` : ""}`);
  const namespace = name.slice(0, 28);
  const env = {
    MODE: "cluster",
    DATABASE_URL: urlOf(name),
    REDIS_URL,
    REDIS_NAMESPACE: namespace,
    DATA_DIR: join(dataDir, "data"),
    AUTO_APPROVE_TENANTS: "on",
    LOG_LEVEL: "error",
  };
  return {
    env,
    databaseUrl: urlOf(name),
    namespace,
    removeAtExit: () => dropAtExit(name),
    remove: async () => {
      await admin(`drop database if exists ${name} with (force)`);
      await removeKeys(namespace);
    },
  };
};

/** A migrated database on PostgreSQL, without processes, and what goes on in it. */
type StartedDatabase = { database: Database; domain: Domain; remove: () => Promise<void> };

/** A StartedDatabase of a test's own, at the clock of the test. */
export const startDatabase = async (poolMax: number, clock?: () => Date): Promise<StartedDatabase> => {
  const services = await startServices("");
  const database = await openPostgres(services.databaseUrl, poolMax);
  const remove = async (): Promise<void> => {
    await database.close();
    await services.remove();
  };
  return { database, domain: openDomain(database, clock), remove };
};

/** A Redis of a test's own that keeps nothing. */
export type RedisServer = {
  url: string;
  /** Ends it the hard way. */
  kill(): Promise<void>;
  /** Starts it again, empty, at the same port. */
  start(): Promise<void>;
};

const servers = new Set<ChildProcess>();
process.on("exit", () => {
  for (const server of servers) server.kill("SIGKILL");
});

/** Starts a Redis at a free port, which asks for a password where one is given. */
export const startRedis = async ({ password }: { password?: string } = {}): Promise<RedisServer> => {
  const port = await freePort();
  let server: ChildProcess;
  const start = async (): Promise<void> => {
    const settings = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    if (password !== undefined) settings.push("--requirepass", password);
    server = spawn("redis-server", settings, { stdio: "ignore", cwd: "/tmp" });
    servers.add(server);
    const redis = new Redis(port, "127.0.0.1", {
      password: password!,
      lazyConnect: true,
      retryStrategy: null,
    });
    redis.on("error", () => undefined);
    await eventually(async () => {
      if (redis.status !== "ready") await redis.connect();
      return (await redis.ping()) === "PONG";
    });
    redis.disconnect();
  };
  await start();
  return {
    url: `redis://127.0.0.1:${port}`,
    start,
    kill: async () => {
      const ended = once(server, "exit");
      server.kill("SIGKILL");
      await ended;
      servers.delete(server);
    },
  };
};

/** A database and a Redis for the tests of one `describe`, and a connection to the database. */
type OwnServices = {
  /** A folder that ends with them. */
  path: string;
  services: Services;
  database: Database;
  db(): Kysely<unknown>;
  /** The number `n` in the first row of a query. */
  numberOf(query: NumberQuery): Promise<number>;
};

type NumberQuery = ReturnType<typeof sql<{ n: number }>>;

type OwnServicesOptions = {
  /** Connections of the test's own; default 2. */
  poolMax?: number;
  /** Whether the tests run at all; default true. */
  isWanted?: boolean;
};

/** Starts services before the tests of a `describe`, and ends them after. */
export const ownServices = (options: OwnServicesOptions = {}): OwnServices => hookServices({}, options);

const hookServices = <T extends Partial<OwnServices>>(
  into: T,
  { poolMax = 2, isWanted = true }: OwnServicesOptions,
): T & OwnServices => {
  const own = into as T & OwnServices;
  let dir: Awaited<ReturnType<typeof temporaryDir>> | undefined;
  own.db = () => own.database.em.fork().getKysely<unknown>();
  own.numberOf = async (query) => (await query.execute(own.db())).rows[0]!.n;
  before(async function () {
    if (!isWanted) this.skip();
    dir = await temporaryDir();
    own.path = dir.path;
    own.services = await startServices(dir.path);
    own.database = await openPostgres(own.services.databaseUrl, poolMax);
  });
  after(async () => {
    await own.database?.close();
    await own.services?.remove();
    await dir?.remove();
  });
  return own;
};

/** Services with a web process, and a worker that is started again whenever it ends. */
type OwnWeb = OwnServices & {
  /** What a worker beside the web process is started with. */
  env: Record<string, string>;
  web: Laurel;
  api: Client;
  worker?: Supervised;
  /** Starts the worker, which ends with the tests. */
  startWorker(more?: Record<string, string>): Supervised;
};

/** As `ownServices`, with a web process; the worker starts when a test says so. */
export const ownWeb = (options: OwnServicesOptions = {}): OwnWeb => {
  const own: Partial<OwnWeb> = {};
  // Hooks run in their order: the processes end before what they use.
  after(async () => {
    await own.worker?.stop();
    own.web?.child.kill("SIGTERM");
    await own.web?.ended;
  });
  hookServices(own, options);
  own.startWorker = (more = {}) => {
    own.worker = supervise(["worker"], { ...own.env, ...more });
    return own.worker;
  };
  before(async () => {
    own.env = { ...own.services!.env, PORT: String(await freePort()) };
    own.web = await startProcess(["serve"], { ...own.env, ROLES: "web" });
    own.api = clientOf(`http://127.0.0.1:${own.env["PORT"]}`);
  });
  return own as OwnWeb;
};

/** The domain over a database on PostgreSQL of its own, for the tests of one `describe`. */
export const postgresDomain = (poolMax: number, clock?: () => Date) => {
  const started = madeOnce(
    () => startDatabase(poolMax, clock),
    (made) => made.remove(),
  );
  return { database: madeOnce(() => started.database), domain: madeOnce(() => started.domain) };
};
