import type { z } from "zod";
import type { SETTINGS } from "./settings.ts";

/** Where data are kept. */
export type StoreSettings = {
  dataDir: string;
  /** Set in cluster mode, undefined in embedded mode. */
  databaseUrl: string | undefined;
  databasePoolMax: number;
  /** A replica that questions of analytics read; undefined in embedded mode. */
  analyticsDatabaseUrl: string | undefined;
  /** Set in cluster mode, undefined in embedded mode. */
  redisUrl: string | undefined;
  redisNamespace: string;
};

type Given = Pick<
  z.output<z.ZodObject<typeof SETTINGS>>,
  | "MODE"
  | "DATA_DIR"
  | "DATABASE_URL"
  | "DATABASE_POOL_MAX"
  | "ANALYTICS_DATABASE_URL"
  | "REDIS_URL"
  | "REDIS_NAMESPACE"
>;

export const storesOf = (env: Given): StoreSettings => {
  const inCluster = (url: string | undefined): string | undefined =>
    env.MODE === "cluster" ? url : undefined;
  return {
    dataDir: env.DATA_DIR,
    databaseUrl: inCluster(env.DATABASE_URL),
    databasePoolMax: env.DATABASE_POOL_MAX,
    analyticsDatabaseUrl: inCluster(env.ANALYTICS_DATABASE_URL),
    redisUrl: inCluster(env.REDIS_URL),
    redisNamespace: env.REDIS_NAMESPACE,
  };
};
