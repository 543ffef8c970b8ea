import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { cpus, loadavg, totalmem } from "node:os";
import { Redis } from "ioredis";
import { type Database, openPostgres } from "../../src/platform/database.ts";

const ADMIN_URL = process.env["DATABASE_URL"] ?? "postgres://postgres@127.0.0.1:5432/postgres";
const REDIS_URL = process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379";

/** The part of pg's pool that the benchmarks use. */
export type Pool = {
  query(text: string, values?: readonly unknown[]): Promise<{ rows: Record<string, unknown>[] }>;
  connect(): Promise<PoolClient>;
};
export type PoolClient = { query(query: unknown): unknown; release(destroy?: boolean): void };

export const poolOf = (database: Database): Promise<Pool> =>
  (database.em.getConnection() as unknown as { getNativeClient(): Promise<Pool> }).getNativeClient();

/** A migrated database and a Redis namespace of one run's own. */
export type Box = {
  database: Database;
  pool: Pool;
  databaseUrl: string;
  /** Settings of a process in cluster mode on this box. */
  env: Record<string, string>;
  close(): Promise<void>;
};

/** Takes away what the processes left in Redis: wakes that no worker was there to hear. */
const removeKeys = async (namespace: string): Promise<void> => {
  const redis = new Redis(REDIS_URL);
  for await (const keys of redis.scanStream({ match: `${namespace}:*`, count: 1_000 })) {
    if ((keys as string[]).length > 0) await redis.unlink(...(keys as string[]));
  }
  redis.disconnect();
};

/** @param dataDir where the processes keep the secrets they share */
export const openBox = async (dataDir: string): Promise<Box> => {
  const name = `laurel_bench_${randomUUID().replaceAll("-", "").slice(0, 12)}`;
  const admin = await openPostgres(ADMIN_URL, 1);
  await (await poolOf(admin)).query(`create database ${name}`);
  const url = new URL(ADMIN_URL);
  url.pathname = `/${name}`;
  const database = await openPostgres(url.href, 4);
  const env = {
    MODE: "cluster",
    DATABASE_URL: url.href,
    REDIS_URL,
    REDIS_NAMESPACE: name,
    DATA_DIR: dataDir,
    DEMO: "off",
    AUTO_APPROVE_TENANTS: "on",
  };
  await database.migrateUp();
  return {
    database,
    pool: await poolOf(database),
    databaseUrl: url.href,
    env,
    close: async () => {
      await database.close();
      await removeKeys(name);
      await (await poolOf(admin)).query(`drop database if exists ${name} with (force)`);
      await admin.close();
    },
  };
};

const TICKS_PER_SECOND = 100;

/** CPU seconds a process has used, all its threads; undefined when it has gone. */
const cpuSecondsOf = (pid: number): number | undefined => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
  } catch {
    return undefined;
  }
};

/** CPU seconds the whole machine has been busy. */
const busySeconds = (): number => {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = readFileSync("/proc/stat", "latin1")
    .split("\n", 1)[0]!
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return (user + nice + system + irq + softirq) / TICKS_PER_SECOND;
};

/** What a stretch of time cost, in seconds of CPU. `foreign` is what nobody asked about used: other load. */
export type Costs = { wall: number; byPid: Map<number, number>; postgres: number; foreign: number };

const backends = async (pool: Pool | undefined): Promise<number[]> => {
  if (!pool) return [];
  const { rows } = await pool.query("select pid from pg_stat_activity where datname = current_database()");
  return rows.map((row) => Number(row["pid"]));
};

/**
 * Starts counting the CPU of `pids`, of this process, and of the backends of the box's database, where there
 * is one.
 */
export const startCosts = async (
  pool: Pool | undefined,
  pids: readonly number[],
): Promise<() => Promise<Costs>> => {
  const watched = [...pids, process.pid];
  const snapshot = (all: readonly number[]) => new Map(all.map((pid) => [pid, cpuSecondsOf(pid) ?? 0]));
  const before = snapshot([...watched, ...(await backends(pool))]);
  const [busy, startMs] = [busySeconds(), performance.now()];
  return async () => {
    const wall = (performance.now() - startMs) / 1000;
    const spent = busySeconds() - busy;
    const serverPids = await backends(pool);
    const after = snapshot([...watched, ...serverPids]);
    const used = (pid: number) => (after.get(pid) ?? 0) - (before.get(pid) ?? 0);
    const byPid = new Map(watched.map((pid) => [pid, used(pid)]));
    const postgres = serverPids.reduce((sum, pid) => sum + used(pid), 0);
    const ours = postgres + [...byPid.values()].reduce((sum, seconds) => sum + seconds, 0);
    return { wall, byPid, postgres, foreign: Math.max(0, spent - ours) };
  };
};

/** What the figures were measured on. */
export const describeMachine = async (pool?: Pool): Promise<Record<string, unknown>> => {
  const names = [
    "server_version",
    "shared_buffers",
    "max_wal_size",
    "fsync",
    "synchronous_commit",
    "autovacuum",
  ];
  const text = "select name, setting || coalesce(unit, '') as value from pg_settings where name = any($1)";
  const settings = pool && (await pool.query(text, [names]));
  return {
    at: new Date().toISOString(),
    node: process.version,
    cpu: cpus()[0]?.model,
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    loadAverage: loadavg(),
    ...(settings && { postgres: Object.fromEntries(settings.rows.map(({ name, value }) => [name, value])) }),
  };
};
