import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { MatchMakerDriver, Presence } from "@colyseus/core";
import type { Logger } from "pino";
import type { Config } from "./config.ts";
import { createMemoryRanks } from "./domain/leaderboards/rank-index.ts";
import type { EntrySource, RankStore } from "./domain/evaluation/boards/ranks.ts";
import { CONNECTION_WAIT_MS } from "./domain/kernel/bulkhead.ts";
import { stampIdsBy } from "./domain/kernel/ids.ts";
import type { Limiter } from "./domain/accounts/rate-limits/limiter.ts";
import type { Topics } from "./domain/kernel/topics.ts";
import type { Peers } from "./domain/kernel/live-rooms.ts";
import { WEB } from "./domain/kernel/timeouts.ts";
import { createBullQueue, createLocalQueue, type Queue } from "./jobs/queue.ts";
import { lockDataDir } from "./platform/data-lock.ts";
import { createLimiter } from "./platform/limiter.ts";
import { type Database, openEmbeddedDatabase, openPostgres } from "./platform/database.ts";
import { type ListenerCheck, redisListenerCheck, topicsOver } from "./platform/topics.ts";

/** Limits on the size of one transaction, by engine. */
export type Limits = {
  /** Events of one project of a partition in one claim. */
  claimEvents: number;
  /** Partitions are claimed together until this many events wait in them. */
  claimTogether: number;
  /** Events in one ingest transaction and rows in one of its statements. */
  ingestEvents: number;
  ingestRows: number;
  ingestConcurrency: number;
  /** Connections to the database, and the maximum wait of a request for one, in ms. */
  connections: number;
  connectionWaitMs: number;
  /** Yields to the sockets between transactions of an engine that blocks the process. */
  pause?: () => Promise<void>;
  /** The database has one session, which cursors outlive their transactions in; see cursor.ts. */
  hasOneSession?: true;
};

export type Dependency = { name: string; check: () => Promise<void> };

/** Everything that differs between the two modes; nothing else checks the mode. */
export type Platform = {
  database: Database;
  /** A replica of the database, which questions of analytics read. */
  replica?: Database;
  /** The time shared by all processes; absent in a single process. */
  clock?: () => Date;
  presence: Presence;
  driver: MatchMakerDriver;
  /** The other processes that hold rooms, if there may be any. */
  peers?: Peers;
  topics: Topics;
  queue: Queue;
  ranks(source: EntrySource): RankStore;
  /** Empties shared ranks of a later database; absent where ranks end with the process. */
  followDatabase?: () => Promise<void>;
  limiter: Limiter;
  limits: Limits;
  /** Periodic maintenance for an engine without background processes. */
  maintain?: () => Promise<void>;
  dependencies: readonly Dependency[];
  close(): Promise<void>;
};

export type PlatformOptions = {
  /** Embedded mode without a data directory: its data ends with the process. */
  inMemory?: boolean;
  /** What the database in memory begins as, in place of an empty one. */
  cluster?: Blob;
};

/**
 * Opens the services that a process depends on. @throws Error that says which is unavailable and what to do
 */
export const openPlatform = (config: Config, log: Logger, options: PlatformOptions = {}): Promise<Platform> =>
  config.mode === "embedded" ? openEmbedded(config, log, options) : openCluster(config, log);

const openEmbedded = async (
  config: Config,
  log: Logger,
  { inMemory = false, cluster }: PlatformOptions,
): Promise<Platform> => {
  const { LocalDriver, LocalPresence } = await import("@colyseus/core");
  const onLost = (reason: string): void => {
    log.fatal(`${reason}: stopping`);
    process.kill(process.pid, "SIGTERM");
  };
  const unlock = inMemory ? async () => undefined : await lockDataDir(config.dataDir, { onLost });
  const database = await openEmbeddedDatabase(
    inMemory ? "memory://" : join(config.dataDir, "pglite"),
    cluster,
  );
  const presence = new LocalPresence();
  const hasListeners: ListenerCheck = async (topics) =>
    topics.map((topic) => presence.subscriptions.listenerCount(topic) > 0);
  // Two macrotasks: one for the sockets to be read, one for their requests to join the next transaction.
  const pause = () => new Promise<void>((resolve) => void setImmediate(() => setImmediate(resolve)));
  return {
    database,
    presence,
    driver: new LocalDriver(),
    topics: topicsOver(presence, { prefix: "", hasListeners, log }),
    queue: createLocalQueue(),
    ranks: createMemoryRanks,
    limiter: createLimiter(),
    limits: {
      claimEvents: 100,
      claimTogether: 100,
      ingestEvents: 1_000,
      ingestRows: 200,
      ingestConcurrency: 1,
      connections: 1,
      connectionWaitMs: ENGINE_WAIT_MS,
      pause,
      hasOneSession: true,
    },
    ...(inMemory ? {} : { maintain: () => database.maintain() }),
    dependencies: [{ name: "database", check: () => database.ping() }],
    close: async () => {
      await database.close();
      await unlock();
    },
  };
};

/** Maximum wait of a request for the engine of the process, in ms: until requests time out. */
const ENGINE_WAIT_MS = 30_000;

const clusterLimits = ({ databasePoolMax }: Config): Limits => ({
  claimEvents: 500,
  claimTogether: 100,
  ingestEvents: 500,
  ingestRows: 1_000,
  ingestConcurrency: 4,
  connections: databasePoolMax,
  connectionWaitMs: CONNECTION_WAIT_MS,
});

const openCluster = async (config: Config, log: Logger): Promise<Platform> => {
  const { redisConnections, ResubscribingPresence } = await import("./platform/redis-connection.ts");
  const { reachPostgres, reachRedis } = await import("./platform/probe.ts");
  const { IndexedRedisDriver } = await import("./platform/redis-driver.ts");
  const { RedisPeers } = await import("./platform/redis-peers.ts");
  const { createRedisRanks, followDatabase, readQueuePlace } = await import("./platform/redis-ranks.ts");
  const { databaseUrl = "", redisUrl = "", redisNamespace: namespace } = config;
  const connections = redisConnections(redisUrl, log);
  const database = await openPostgres(databaseUrl, config.databasePoolMax, {
    isWatched: true,
    timeouts: WEB,
    log,
  });
  const replica = await openReplica(config, log);
  const redis = connections.open();
  const presence = new ResubscribingPresence(connections);
  await reachPostgres(databaseUrl, () => database.ping(), log);
  await reachRedis(redisUrl, () => redis.ping(), log);
  const peers = new RedisPeers(connections.open(), { namespace, log, subscriptions: presence });
  const queue = await createBullQueue({ connections, prefix: `${namespace}:bull`, log });
  return {
    database,
    ...(replica ? { replica } : {}),
    clock: await sharedClock(database),
    presence,
    driver: new IndexedRedisDriver(connections.open(), { namespace, isAlive: (id) => peers.isAlive(id) }),
    peers,
    topics: topicsOver(presence, { prefix: `${namespace}:`, hasListeners: redisListenerCheck(redis), log }),
    queue,
    ranks: (source) => createRedisRanks(redis, namespace, source),
    followDatabase: async () => {
      if (await followDatabase(redis, namespace, () => readQueuePlace(database)))
        log.warn("the database is earlier than the ranks in Redis, as after a restore: they are built anew");
    },
    limiter: createLimiter(redis, namespace, log),
    limits: clusterLimits(config),
    dependencies: [
      { name: "database", check: () => database.ping() },
      // A Redis that answers but refuses writes is of no use, nor is one whose messages do not arrive.
      {
        name: "redis",
        check: async () => {
          await Promise.all([
            redis.set(`${namespace}:ready`, 1, "PX", READY_KEPT_MS),
            presence.checkSubscriber(),
          ]);
        },
      },
    ],
    close: async () => {
      await database.close();
      await replica?.close();
      presence.shutdown();
      peers.close();
      redis.disconnect();
    },
  };
};

/** Connects when it is first asked: a replica that is down keeps nothing else from running. */
const openReplica = async (
  { analyticsDatabaseUrl, databasePoolMax }: Config,
  log: Logger,
): Promise<Database | undefined> =>
  analyticsDatabaseUrl === undefined
    ? undefined
    : openPostgres(analyticsDatabaseUrl, databasePoolMax, { timeouts: WEB, log });

/** How long the key of a readiness check is kept, in ms. */
const READY_KEPT_MS = 60_000;
/** The database's clock, which stamps ids too; that of this process where the database is not watched. */
const sharedClock = async ({ watch }: Database): Promise<() => Date> => {
  if (!watch) return () => new Date();
  // A server without a free connection for the watch answers it later.
  await Promise.race([watch.begun, delay(CLOCK_WAIT_MS, undefined, { ref: false })]);
  stampIdsBy(() => watch.clock().getTime());
  return watch.clock;
};

/** How long a starting process waits for the database's time, in ms. */
const CLOCK_WAIT_MS = 5_000;
