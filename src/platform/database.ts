import { existsSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Transaction } from "@mikro-orm/core";
import type { SqlEntityManager } from "@mikro-orm/sql";
import { Migrator } from "@mikro-orm/migrations";
import { sql } from "kysely";
import type { Logger } from "pino";
import { LOCKS } from "../domain/kernel/advisory-locks.ts";
import { CONNECTION_WAIT_MS } from "../domain/kernel/connection-slots.ts";
import { makeDir } from "../domain/kernel/data-dir.ts";
import { entities } from "../domain/registries/entities.ts";
import { isLockConflict } from "../domain/kernel/outages.ts";
import { migrations } from "../domain/registries/migrations/list.ts";
import { LONG, MIGRATION, type Timeouts, withTimeouts } from "../domain/kernel/timeouts.ts";
import type { CommitAs } from "../domain/kernel/commit.ts";
import type { ReadAs } from "../domain/kernel/read.ts";
import type { PoolNumbers } from "../metrics/queues.ts";
import { DatabaseWatch, type WatchedPool } from "./database-watch.ts";
import { emptyCluster, inMemory, keepFewParsers } from "./pglite.ts";
import { type CountedPool, numbersOf } from "./pool-numbers.ts";
import { freeDeadClients, type Pool } from "./dead-clients.ts";
import { inOneMessage, type ReadPool } from "./one-message.ts";
import { sendInOneMessage } from "./pglite-statements.ts";
import { type ClientPool, pipelineStatements } from "./statements.ts";
import { vacuumChanged } from "./vacuum.ts";

export type MigrationState = {
  name: string;
  isApplied: boolean;
  /** Whether it was applied by a newer version, and is unknown to this one. */
  isNewer: boolean;
};

export type Database = {
  em: SqlEntityManager;
  /** Applies pending migrations; simultaneous starts wait for one another. */
  migrateUp(): Promise<string[]>;
  /**
   * Reverts the newest migration. @throws Error when that one is of a newer version, or is not the `expected`
   */
  migrateDown(expected?: string): Promise<string[]>;
  migrationStates(): Promise<MigrationState[]>;
  /** Frees dead rows and updates the planner's statistics where much has changed. Returns these tables. */
  vacuum(): Promise<string[]>;
  /** @throws when the database does not answer */
  ping(): Promise<void>;
  /** The connections of this process as they are now; absent where the engine is in the process. */
  pool?: () => PoolNumbers;
  /** Reads in one message each; absent where the engine is in the process, and waits for none. */
  readAs?: ReadAs;
  /** Commits in one message each; absent there too. */
  commitAs?: CommitAs;
  /** Watches the connections; only for a server that was opened with one. */
  watch?: DatabaseWatch;
  close(): Promise<void>;
};

/**
 * How long a migration waits for a table, in ms: other users of the table queue behind it. Then it gives way,
 * and is retried after a pause. Less than PostgreSQL's deadlock timeout, whose check might end a claim.
 */
const TABLE_WAIT_MS = 800;
const GIVEN_WAY_MS = 3_000;
/** How long a migration keeps giving way before it fails, in ms. */
const GIVING_WAY_MAX_MS = 600_000;
/** Idle time after which TCP keepalive checks a connection, in ms. */
const KEEPALIVE_AFTER_MS = 5_000;

/**
 * Times are read as text, and old ones have offsets that a Date cannot read in any other zone. Compiling a
 * plan with many branches (JIT) takes longer than any statement here. Rows are looked up by keys, a few of
 * many: where index access is costed as expensive, small tables are read as a whole for each batch. A server
 * that loses the client releases its session's locks after 5 s of unacknowledged data, or about 20 s of
 * idleness.
 */
const CONNECTION_OPTIONS =
  "-c TimeZone=UTC -c jit=off -c random_page_cost=1.1 -c tcp_user_timeout=5000 " +
  "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=3 -c tcp_keepalives_count=3";

/**
 * Makes PostgreSQL check during a statement whether its client has closed the connection. A separate
 * statement, since a server on a system without support refuses it, and then continues as if nothing had been
 * asked.
 */
const LOOK_FOR_CLIENT = "set client_connection_check_interval = 1000";

const common = {
  entities,
  extensions: [Migrator],
  migrations: { migrationsList: migrations, snapshot: false, transactional: true, silent: true },
  discovery: { warnWhenNoEntities: false },
};

const IN_MEMORY = "memory://";

/**
 * @param dataDir where PGlite keeps its files, or `memory://`
 * @param cluster what a database in memory begins as, in place of an empty one
 */
export const openEmbeddedDatabase = async (dataDir: string, cluster?: Blob): Promise<Database> => {
  const { MikroORM } = await import("@mikro-orm/pglite");
  if (dataDir !== IN_MEMORY) await makeDataDir(dataDir);
  const driverOptions = dataDir === IN_MEMORY ? await inMemory(cluster) : {};
  const orm = await MikroORM.init({ ...common, dbName: dataDir, driverOptions });
  const engine = await orm.em.getConnection().getNativeClient();
  keepFewParsers(engine.parsers);
  sendInOneMessage(engine, await import("@electric-sql/pglite"));
  return databaseOf(orm, (run) => run());
};

/**
 * Fills a data directory that does not exist yet: completely or not at all, whenever the process is ended.
 */
const makeDataDir = async (dataDir: string): Promise<void> => {
  if (existsSync(join(dataDir, "PG_VERSION"))) return;
  const draft = `${dataDir}.new`;
  await rm(draft, { recursive: true, force: true });
  await makeDir(draft);
  const { PGlite } = await import("@electric-sql/pglite");
  const engine = await PGlite.create({ dataDir: draft, loadDataDir: await emptyCluster() });
  await engine.close();
  await rename(draft, dataDir);
};

export type PostgresOptions = {
  /** Whether to watch the connections, over an additional one. */
  isWatched?: boolean;
  /** Timeouts of statements that specify none. */
  timeouts?: Timeouts;
  log?: Logger;
};

export const openPostgres = async (
  url: string,
  poolMax: number,
  { isWatched = false, timeouts = LONG, log }: PostgresOptions = {},
): Promise<Database> => {
  const { MikroORM } = await import("@mikro-orm/postgresql");
  let watch: DatabaseWatch | undefined;
  let opened: ServerPool | undefined;
  const orm = await MikroORM.init({
    ...common,
    clientUrl: url,
    pool: { min: 0, max: poolMax },
    driverOptions: {
      connectionTimeoutMillis: CONNECTION_WAIT_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEPALIVE_AFTER_MS,
      statement_timeout: timeouts.statementMs,
      lock_timeout: timeouts.lockMs,
      idle_in_transaction_session_timeout: timeouts.idleMs,
      options: CONNECTION_OPTIONS,
      pipeline: true,
      onPoolCreated: (pool: ServerPool) => {
        opened = pool;
        freeDeadClients(pool);
        pipelineStatements(pool, timeouts);
        pool.on("connect", (client) => {
          client.prepareScopes();
          void client.query(LOOK_FOR_CLIENT).catch(() => undefined);
        });
        if (isWatched) watch = new DatabaseWatch(pool, timeouts, log);
      },
    },
  });
  const em = orm.em as unknown as SqlEntityManager;
  // Creates the pool, which otherwise happens with the first statement.
  em.getConnection().getClient();
  // In the migrating transaction itself, so that losing either means losing both.
  const alone: Alone = (run) =>
    withTimeouts(MIGRATION, () =>
      em.fork().transactional(async (tx) => {
        const db = tx.getKysely();
        await sql`select pg_advisory_xact_lock(${LOCKS.MIGRATION}::bigint)`.execute(db);
        await sql`set local lock_timeout = ${sql.lit(TABLE_WAIT_MS)}`.execute(db);
        return run(tx.getTransactionContext());
      }),
    );
  const pool = () => numbersOf(opened, poolMax);
  const database = {
    ...databaseOf(orm, (run) => givingWay(() => alone(run), log)),
    ...inOneMessage(opened!),
    pool,
  };
  return watch ? withWatch(database, watch) : database;
};

/** Retries a migration that waited for a table for too long. */
const givingWay = async <T>(migrate: () => Promise<T>, log?: Logger): Promise<T> => {
  const endMs = performance.now() + GIVING_WAY_MAX_MS;
  for (;;) {
    try {
      return await migrate();
    } catch (error) {
      if (!isLockConflict(error) || performance.now() > endMs) throw error;
      log?.warn("a migration waits for those who use its tables, such as a backup");
      await delay(GIVEN_WAY_MS);
    }
  }
};

const withWatch = (database: Database, watch: DatabaseWatch): Database => ({
  ...database,
  watch,
  ping: async () => {
    watch.check();
    await database.ping();
  },
  close: async () => {
    await watch.stop();
    await database.close();
  },
});

type ServerPool = Pool & ClientPool & WatchedPool & CountedPool & ReadPool;

type Orm = {
  em: SqlEntityManager;
  migrator: Pick<Migrator, "up" | "down" | "getPending" | "getExecuted">;
  close(): Promise<void>;
};

const statesOf = async ({ migrator }: Orm): Promise<MigrationState[]> => {
  const executed = new Set((await migrator.getExecuted()).map(({ name }) => name));
  const known = migrations.map(({ name }) => ({ name, isApplied: executed.delete(name), isNewer: false }));
  return [...known, ...[...executed].toSorted().map((name) => ({ name, isApplied: true, isNewer: true }))];
};

/** Runs a migration while no other runs, in the given transaction, if there is one. */
type Alone = <T>(run: (transaction?: Transaction) => Promise<T>) => Promise<T>;

/** Applies pending migrations one by one: the locks of each are released before the next begins. */
const migrateUp = async ({ migrator }: Orm, alone: Alone): Promise<string[]> => {
  const upTo = (to: string): Promise<string[]> =>
    alone(async (transaction) => (await migrator.up({ transaction, to })).map(({ name }) => name));
  // Creates the table of migrations too, if necessary.
  const done = await upTo(migrations[0]!.name);
  for (const { name } of await migrator.getPending()) done.push(...(await upTo(name)));
  return done;
};

const databaseOf = (orm: Orm, alone: Alone): Database => ({
  em: orm.em,
  migrateUp: () => migrateUp(orm, alone),
  migrateDown: (expected) =>
    alone(async (transaction) => {
      const newest = (await statesOf(orm)).findLast(({ isApplied }) => isApplied);
      if (newest?.isNewer)
        throw new Error(`${newest.name} belongs to a newer version of Laurel: revert it with that version`);
      if (expected !== undefined && newest?.name !== expected)
        throw new Error(`${expected} is not the newest migration any more: nothing was taken back`);
      return (await orm.migrator.down({ transaction })).map(({ name }) => name);
    }),
  migrationStates: () => statesOf(orm),
  vacuum: () => vacuumChanged(orm.em),
  ping: async () => void (await sql`select 1`.execute(orm.em.fork().getKysely())),
  close: () => orm.close(),
});
