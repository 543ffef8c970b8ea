import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { Redis } from "ioredis";
import { type Database, openPostgres } from "../../../src/platform/database.ts";
import { type Domain, openDomain } from "../domain/domain.ts";

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
export type StartedDatabase = { database: Database; domain: Domain; remove: () => Promise<void> };

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
