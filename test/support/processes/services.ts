import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { Redis } from "ioredis";
import { openPostgres } from "../../../src/platform/database.ts";
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
  remove: () => Promise<void>;
};

/** @param dataDir where the processes keep their shared secrets */
export const startServices = async (dataDir: string): Promise<Services> => {
  const name = `laurel_test_${randomUUID().replaceAll("-", "").slice(0, 16)}`;
  await admin(`create database ${name}`);
  const url = new URL(ADMIN_URL);
  url.pathname = `/${name}`;
  const namespace = name.slice(0, 28);
  const env = {
    MODE: "cluster",
    DATABASE_URL: url.href,
    REDIS_URL,
    REDIS_NAMESPACE: namespace,
    DATA_DIR: join(dataDir, "data"),
    AUTO_APPROVE_TENANTS: "on",
    LOG_LEVEL: "error",
  };
  return {
    env,
    databaseUrl: url.href,
    namespace,
    remove: async () => {
      await admin(`drop database if exists ${name} with (force)`);
      await removeKeys(namespace);
    },
  };
};

/** A migrated database of a test's own, without processes, and what goes on in it. */
export const startDatabase = async (
  poolMax: number,
): Promise<{ domain: Domain; remove: () => Promise<void> }> => {
  const services = await startServices("");
  const database = await openPostgres(services.databaseUrl, poolMax);
  await database.migrateUp();
  const remove = async (): Promise<void> => {
    await database.close();
    await services.remove();
  };
  return { domain: openDomain(database), remove };
};
