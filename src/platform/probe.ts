import { Redis } from "ioredis";
import { type Kysely, sql } from "kysely";
import { type Db, readTableSizes, type TableSize } from "../domain/kernel/db.ts";
import { migrations } from "../domain/registries/migrations/migrations.ts";
import { openPostgres } from "./database.ts";
import { within } from "./within.ts";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import { outageOf } from "../domain/kernel/outages.ts";

/** Time limit for a service's answer to a probe, in ms. */
const PROBE_TIMEOUT_MS = 5_000;

export type PostgresProbe = {
  /** For example "15.10". */
  version: string;
  major: number;
  /** Whether it is a standby, which accepts no writes. */
  isReadOnly: boolean;
  maxConnections: number;
  /** How far its clock is ahead of ours, in ms; accurate to half of the round trip. */
  clockAheadMs: number;
  /** Names of migrations that have not been applied. */
  pendingMigrations: string[];
  /** Settings under which an acknowledged commit may be lost. */
  unsafeSettings: string[];
  /** The largest first. */
  tables: TableSize[];
};

/** SQLSTATE invalid_catalog_name. */
const NO_SUCH_DATABASE = "3D000";
/** SQLSTATE invalid_password, and invalid_authorization_specification: no such role, or no entry for it. */
const LOGIN_REFUSED: ReadonlySet<unknown> = new Set(["28P01", "28000"]);

/**
 * Says what is wrong with an address that the server refuses, and what to do: its database does not exist, or
 * its user may not log in. Undefined for every other error. Of the address no password is shown.
 */
export const refusedAddress = (
  error: unknown,
  url: string,
): { message: string; remedy: string } | undefined => {
  if (!(error instanceof Error && "code" in error)) return undefined;
  const { hostname, port, username, pathname } = new URL(url);
  const owner = decodeURIComponent(username);
  if (LOGIN_REFUSED.has(error.code))
    return {
      message: `PostgreSQL refuses the user of DATABASE_URL (${error.message})`,
      remedy: "correct its user and password, or the server's pg_hba.conf",
    };
  if (error.code !== NO_SUCH_DATABASE) return undefined;
  const name = decodeURIComponent(pathname.slice(1)) || owner;
  const server = `-h ${hostname}${port === "" ? "" : ` -p ${port}`} -U postgres`;
  return {
    message: `The database ${name} of DATABASE_URL does not exist`,
    remedy: `make it: createdb ${server}${owner === "" ? "" : ` -O ${owner}`} ${name}`,
  };
};

/** Turns the driver's error about an address that the server refuses into one that helps. @throws Error */
export const throwRefusedAddress = (error: unknown, url: string): void => {
  const refused = refusedAddress(error, url);
  if (refused) throw new Error(`${refused.message}; ${refused.remedy}`, { cause: error });
};

/** First words of Redis about a password that is missing or wrong. */
const REDIS_LOGIN_REFUSED = /^(NOAUTH|WRONGPASS|ERR invalid password|ERR AUTH)/;

/** Turns the error of Redis about a password into one that names the setting. @throws Error */
const throwRefusedPassword = (error: unknown): void => {
  if (error instanceof Error && REDIS_LOGIN_REFUSED.test(error.message))
    throw new Error(`Redis refuses the password of REDIS_URL (${error.message}); correct it`, {
      cause: error,
    });
};

/** Inspects a PostgreSQL server without changing anything. @throws when it cannot be reached or refuses */
export const probePostgres = async (url: string): Promise<PostgresProbe> => {
  const database = await openPostgres(url, 1);
  try {
    return await within(
      PROBE_TIMEOUT_MS,
      readPostgres(database.em.fork().getKysely() as unknown as Kysely<unknown>),
    );
  } finally {
    await database.close();
  }
};

type ServerRow = {
  version: string;
  number: number;
  is_standby: boolean;
  max_connections: number;
  clock_ms: number;
  has_migrations: boolean;
  fsync: string;
  synchronous_commit: string;
  full_page_writes: string;
};

const readPostgres = async (db: Kysely<unknown>): Promise<PostgresProbe> => {
  // Opens the connection, so that the next round trip measures nothing else.
  await sql`select 1`.execute(db);
  const sentMs = Date.now();
  const { rows } = await sql<ServerRow>`
    select current_setting('server_version') as version, current_setting('server_version_num')::int as number,
      pg_is_in_recovery() as is_standby, current_setting('max_connections')::int as max_connections,
      (extract(epoch from clock_timestamp()) * 1000)::bigint as clock_ms,
      to_regclass('mikro_orm_migrations') is not null as has_migrations,
      current_setting('fsync') as fsync, current_setting('synchronous_commit') as synchronous_commit,
      current_setting('full_page_writes') as full_page_writes`.execute(db);
  const receivedMs = Date.now();
  const row = rows[0]!;
  const applied = row.has_migrations
    ? (await sql<{ name: string }>`select name from mikro_orm_migrations`.execute(db)).rows
    : [];
  const names = new Set(applied.map(({ name }) => name));
  const settings = {
    fsync: row.fsync,
    synchronous_commit: row.synchronous_commit,
    full_page_writes: row.full_page_writes,
  };
  return {
    version: row.version.split(" ")[0]!,
    major: Math.floor(row.number / 10_000),
    isReadOnly: row.is_standby,
    maxConnections: row.max_connections,
    clockAheadMs: row.clock_ms - (sentMs + receivedMs) / 2,
    pendingMigrations: migrations.map(({ name }) => name).filter((name) => !names.has(name)),
    unsafeSettings: Object.entries(settings)
      .filter(([, value]) => value === "off")
      .map(([name]) => name),
    tables: await readTableSizes(db as unknown as Db),
  };
};

export type RedisProbe = {
  version: string;
  major: number;
  maxMemoryBytes: number;
  /** Its eviction policy; "noeviction" evicts nothing. */
  maxMemoryPolicy: string;
  isAppendOnly: boolean;
  /** False when it failed to save to disk, after which it refuses writes by default. */
  lastSaveSucceeded: boolean;
  isReplica: boolean;
};

/** Inspects a Redis server without changing anything. @throws when it cannot be reached or refuses */
export const probeRedis = async (url: string): Promise<RedisProbe> => {
  const redis = new Redis(url, {
    lazyConnect: true,
    connectTimeout: PROBE_TIMEOUT_MS,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
  });
  let failure: Error | undefined;
  redis.on("error", (error) => (failure = error));
  try {
    await redis.connect();
    const info = readInfo(await within(PROBE_TIMEOUT_MS, redis.info()));
    const version = info.get("redis_version") ?? "unknown";
    return {
      version,
      major: Number.parseInt(version, 10) || 0,
      maxMemoryBytes: Number(info.get("maxmemory") ?? 0),
      maxMemoryPolicy: info.get("maxmemory_policy") ?? "unknown",
      isAppendOnly: info.get("aof_enabled") === "1",
      lastSaveSucceeded: info.get("rdb_last_bgsave_status") !== "err",
      isReplica: info.get("role") === "slave",
    };
  } catch (error) {
    // The event names the cause; the rejection says only that the connection is closed.
    throw failure ?? error;
  } finally {
    redis.disconnect();
  }
};

const readInfo = (text: string): Map<string, string> => {
  const pairs = text.split(/\r?\n/).filter((line) => line.includes(":"));
  return new Map(pairs.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]));
};

/** How long a starting process waits for its dependencies, and the pause between two attempts, in ms. */
const REACH_MAX_MS = 60_000;
const REACH_EVERY_MS = 1_000;

type Dependency = {
  name: string;
  setting: string;
  ping: () => Promise<unknown>;
  /** Says why it does not answer. @throws Error when waiting is of no use */
  explain: (error: unknown) => Promise<string>;
};

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Waits until a dependency answers: it may be starting too. @throws Error naming the setting */
const reach = async ({ name, setting, ping, explain }: Dependency, log: Logger): Promise<void> => {
  const startedMs = performance.now();
  for (;;) {
    try {
      await ping();
      return;
    } catch (cause) {
      const reason = await explain(cause);
      const waitedMs = Math.round(performance.now() - startedMs);
      if (waitedMs > REACH_MAX_MS) {
        throw new Error(`${name} does not answer (${reason}). Is it running, and is ${setting} right?`, {
          cause,
        });
      }
      log.warn({ waitedMs, reason }, `waiting for ${name} (${setting})`);
      await delay(REACH_EVERY_MS);
    }
  }
};

const OF_OUTAGES: Readonly<Record<string, string>> = {
  database: "PostgreSQL (DATABASE_URL)",
  redis: "Redis (REDIS_URL)",
};

/** Returns the error of a start, which names the dependency that has failed since it was reached. */
export const namingDependency = (error: unknown): unknown => {
  const name = OF_OUTAGES[outageOf(error) ?? ""];
  const message = messageOf(error);
  if (name === undefined || /_URL\b/.test(message)) return error;
  return new Error(`${name} failed during the start: ${message}`, { cause: error });
};

/** Waits until PostgreSQL answers. @throws Error when it does not, or refuses the database or the user */
export const reachPostgres = (url: string, ping: () => Promise<unknown>, log: Logger): Promise<void> => {
  const explain = async (error: unknown): Promise<string> => {
    throwRefusedAddress(error, url);
    return messageOf(error);
  };
  return reach({ name: "PostgreSQL", setting: "DATABASE_URL", ping, explain }, log);
};

/** Waits until Redis answers. @throws Error when it does not, or refuses the password */
export const reachRedis = (url: string, ping: () => Promise<unknown>, log: Logger): Promise<void> => {
  // A command of the client fails with the number of attempts; a probe says why they fail.
  const explain = async (error: unknown): Promise<string> => {
    try {
      await probeRedis(url);
      return messageOf(error);
    } catch (reason) {
      throwRefusedPassword(reason);
      return messageOf(reason);
    }
  };
  return reach({ name: "Redis", setting: "REDIS_URL", ping, explain }, log);
};
