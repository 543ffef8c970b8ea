import { existsSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setImmediate as turn, setTimeout as delay } from "node:timers/promises";
import { createGunzip } from "node:zlib";
import type { Transaction } from "@mikro-orm/core";
import { Migrator } from "@mikro-orm/migrations";
import { createPostgreSqlTypeParsers, type SqlEntityManager } from "@mikro-orm/sql";
import { sql } from "kysely";
import { unpackTar } from "modern-tar/fs";
import type { Logger } from "pino";
import { makeDir } from "../domain/kernel/data-dir.ts";
import { isLockConflict } from "../domain/kernel/outages.ts";
import type { CommitAs, ReadAs, ReadStatement } from "../domain/kernel/read.ts";
import { CONNECTION_WAIT_MS } from "../domain/kernel/bulkhead.ts";
import { LONG, MIGRATION, type Timeouts, withTimeouts } from "../domain/kernel/timeouts.ts";
import { LOCKS, type RowScope } from "../domain/kernel/work.ts";
import { entities } from "../domain/registries/entities.ts";
import { BASELINE, BEFORE_BASELINE } from "../domain/registries/migrations/baseline.ts";
import { migrations } from "../domain/registries/migrations/migrations.ts";
import { ROLES_READY } from "../domain/registries/migrations/row-security.ts";
import type { PoolNumbers } from "../metrics.ts";
import { DatabaseWatch, type WatchedPool } from "./database-watch.ts";
import { sendInOneMessage } from "./pglite-statements.ts";
import { type ClientPool, pipelineStatements } from "./statements.ts";

/** Time for a dead client's holder to notice at its next query, in ms. */
const DEAD_CLIENT_GRACE_MS = 1_000;

type PoolClient = {
  on(event: "error", listener: () => void): void;
  query(text: string): Promise<unknown>;
  prepareScopes(): void;
  release?: (destroy: boolean) => void;
};
type Pool = { on(event: "connect", listener: (client: PoolClient) => void): void };

/**
 * Frees the pool slot of a client that died while a transaction held it. When commit and rollback both fail,
 * the layers above keep the client for ever, and as many connection losses as the pool has slots would leave
 * the process without a database.
 */
const freeDeadClients = (pool: Pool): void => {
  pool.on("connect", (client) => {
    client.on("error", () => {
      const { release } = client;
      // Keeps its timer referenced: a process that closes its pool waits for this, and for nothing else.
      setTimeout(() => {
        try {
          release?.(true);
        } catch {
          // The usual case: its holder has released it.
        }
      }, DEAD_CLIENT_GRACE_MS);
    });
  });
};

/** The part of pg's pool, with the clients of statements.ts, that is used. */
type ReadPool = {
  connect(): Promise<{
    scoped(
      rowScope: RowScope | undefined,
      statements: readonly ReadStatement[],
    ): Promise<{ rows: unknown[] }>;
    release(): void;
  }>;
};

/** Creates reads and transactions that are one message to PostgreSQL, whatever their scope. */
const inOneMessage = (pool: ReadPool): { readAs: ReadAs; commitAs: CommitAs } => {
  const commitAs =
    (rowScope?: RowScope) =>
    async <Row>(statements: readonly ReadStatement[]): Promise<Row[]> => {
      const client = await pool.connect();
      try {
        return (await client.scoped(rowScope, statements)).rows as Row[];
      } finally {
        // A failed statement leaves nothing behind, and the pool itself notices a connection that has died.
        client.release();
      }
    };
  return { commitAs, readAs: (rowScope) => (statement) => commitAs(rowScope)([statement]) };
};

/** Returns the options of a database in memory. @param cluster what it begins as, in place of an empty one */
const inMemory = async (cluster?: Blob) => ({
  loadDataDir: cloneable(cluster ?? (await emptyCluster())),
});

/** Creates an empty cluster as `initdb` does, which takes PGlite seconds of computing. */
const emptyCluster = async (): Promise<Blob> =>
  (await import("@electric-sql/pglite-prepopulatedfs")).dataDir();

/**
 * Returns the archive as PGlite needs it: the ORM copies its options field by field, which no Blob survives.
 */
const cloneable = (blob: Blob) => ({ type: blob.type, arrayBuffer: () => blob.arrayBuffer() });

/** Returns a whole number. @throws RangeError for one that would lose digits */
const wholeNumber = (text: string): number => {
  const value = Number(text);
  if (!Number.isSafeInteger(value))
    throw new RangeError(`${text} has too many digits for a number: read it as text`);
  return value;
};

/** Ids, none of them null, and none of them in quotes: the relay reads so many that parsing took a third of it. */
const idsOf = (text: string): string[] => (text === "{}" ? [] : text.slice(1, -1).split(","));

/** How int8, numeric, timestamptz and uuid[] arrive in rows; JSON that SQL makes of rows has times as text. */
const DECODERS = { 20: wholeNumber, 1700: Number, 1184: (text: string) => new Date(text), 2951: idsOf };

/** Types of arrays in results: bool, bytea, int2, 4, 8, text, varchar, float8, dates, numeric, JSON, UUID. */
const ARRAY_TYPES = [1000, 1001, 1005, 1007, 1016, 1009, 1015, 1022, 1182, 1185, 1231, 199, 3807, 2951];

/**
 * Adds the decoders, and removes unused parsers. PGlite copies all its parsers for every result, including
 * one per array type and table row type: most of the time of a small query. The ORM's own and those for used
 * array types stay; for other types PGlite uses a table that it does not copy.
 */
const setParsers = (parsers: object): void => {
  const own = createPostgreSqlTypeParsers((text) => [text]);
  const kept = new Set([...Object.keys(own), ...ARRAY_TYPES.map(String)]);
  for (const type of Object.keys(parsers)) if (!kept.has(type)) Reflect.deleteProperty(parsers, type);
  Object.assign(parsers, DECODERS);
};

/** What a pool of `pg` says about itself. */
type CountedPool = {
  readonly totalCount: number;
  readonly idleCount: number;
  readonly waitingCount: number;
};

/** @param max the most connections that the pool may have */
const numbersOf = (pool: CountedPool | undefined, max: number): PoolNumbers => {
  const { totalCount = 0, idleCount = 0, waitingCount = 0 } = pool ?? {};
  return { inUse: totalCount - idleCount, idle: idleCount, waiting: waitingCount, max };
};

/**
 * Tables that PostgreSQL's autovacuum would take, by its default thresholds, the most changed first. Counts
 * of changes do not outlive an engine within the process: tables that have grown by a fifth since their last
 * statistics belong to them, too.
 *
 * @see https://www.postgresql.org/docs/17/routine-vacuuming.html#AUTOVACUUM
 */
const CHANGED = sql<{ name: string }>`
  select format('%I.%I', s.schemaname, s.relname) as name
  from pg_stat_all_tables s
  join pg_class c on c.oid = s.relid and c.relkind = 'r' and c.relpersistence = 'p'
  cross join lateral (
    select greatest(c.reltuples, 0) as rows,
      pg_relation_size(c.oid) / current_setting('block_size')::int as pages
  ) size
  where s.n_dead_tup > 50 + 0.2 * rows
    or s.n_ins_since_vacuum > 1000 + 0.2 * rows
    or s.n_mod_since_analyze > 50 + 0.1 * rows
    or pages > 1.2 * c.relpages
  order by s.n_dead_tup + s.n_mod_since_analyze + pages desc`;

/**
 * Frees dead rows and updates the planner's statistics where much has changed, a table at a time: other
 * statements of an engine with one connection are served in between.
 */
const vacuumChanged = async (em: SqlEntityManager): Promise<void> => {
  const db = em.fork().getKysely();
  const { rows } = await CHANGED.execute(db);
  for (const { name } of rows) {
    // A part of a table that was dropped meanwhile is missing.
    const { rows: found } = await sql`select 1 where to_regclass(${name}) is not null`.execute(db);
    if (found.length > 0) await sql`vacuum analyze ${sql.raw(name)}`.execute(db);
    await turn();
  }
};

/** So much may be read again after a crash, and lie on the disk until then. */
const LOG_BYTES_MAX = 33_554_432;

/** An engine within the process checkpoints only when it is closed: its log would grow with every change. */
const shortenLog = async (em: SqlEntityManager): Promise<void> => {
  const db = em.fork().getKysely();
  const { rows } = await sql`
    select from pg_control_checkpoint()
    where pg_wal_lsn_diff(pg_current_wal_lsn(), redo_lsn) > ${LOG_BYTES_MAX}`.execute(db);
  if (rows.length > 0) await sql`checkpoint`.execute(db);
};

type MigrationState = {
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
   * Reverts the newest migration. @throws Error when that one is of a newer version, or is not the
   * `expected`, or another process uses the database
   */
  migrateDown(expected?: string): Promise<string[]>;
  migrationStates(): Promise<MigrationState[]>;
  /** Does for an embedded engine what PostgreSQL's background processes do: vacuum, statistics, checkpoints. */
  maintain(): Promise<void>;
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
 * Old times have offsets that a Date cannot read in any other zone. Compiling a plan with many branches (JIT)
 * takes longer than any statement here. Rows are looked up by keys, a few of many: where index access is
 * costed as expensive, small tables are read as a whole for each batch. A server that loses the client
 * releases its session's locks after 5 s of unacknowledged data, or about 20 s of idleness.
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

/** How this process is named in pg_stat_activity. */
const PROCESS = `laurel ${hostname()}/${process.pid}`;

const common = {
  entities,
  extensions: [Migrator],
  migrations: { migrationsList: migrations, snapshot: false, transactional: true, silent: true },
  discovery: { warnWhenNoEntities: false },
};

const IN_MEMORY = "memory://";
/**
 * What a laptop has for a database: the system keeps its files in memory as well, and a log whose files are
 * not kept for later, nor filled with zeros before, takes a fifth of the disk less.
 */
const SMALL = ["shared_buffers=16MB", "max_wal_size=32MB", "wal_recycle=off", "wal_init_zero=off"];

/**
 * @param dataDir where PGlite keeps its files, or `memory://`
 * @param cluster what a database in memory begins as, in place of an empty one
 */
export const openEmbeddedDatabase = async (dataDir: string, cluster?: Blob): Promise<Database> => {
  const { MikroORM } = await import("@mikro-orm/pglite");
  const library = await import("@electric-sql/pglite");
  if (dataDir !== IN_MEMORY) await makeDataDir(dataDir);
  const startParams = [...library.PGlite.defaultStartParams, ...SMALL.flatMap((setting) => ["-c", setting])];
  const driverOptions = { startParams, ...(dataDir === IN_MEMORY ? await inMemory(cluster) : {}) };
  const orm = await MikroORM.init({ ...common, dbName: dataDir, driverOptions });
  const engine = await orm.em.getConnection().getNativeClient();
  setParsers(engine.parsers);
  sendInOneMessage(engine, library);
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
  const archive = Readable.fromWeb((await emptyCluster()).stream());
  await pipeline(archive, createGunzip(), unpackTar(draft, { dmode: 0o700, fmode: 0o600 }));
  await rename(draft, dataDir);
};

type PostgresOptions = {
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
      application_name: PROCESS,
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
        for (const [type, decode] of Object.entries(DECODERS))
          pool.options.types.setTypeParser(Number(type), decode);
        freeDeadClients(pool);
        pipelineStatements(pool, timeouts);
        pool.on("connect", (client) => {
          client.prepareScopes();
          void client.query(LOOK_FOR_CLIENT).catch(() => undefined);
        });
        if (isWatched) watch = new DatabaseWatch(pool, log);
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

type DecodingPool = {
  options: { types: { setTypeParser(type: number, decode: (text: string) => unknown): void } };
};
type ServerPool = Pool & ClientPool & WatchedPool & CountedPool & ReadPool & DecodingPool;

/** Names the migrations of before in a database that has all of them as the one that they have become. */
const ADOPT = `do $$
  begin
    if to_regclass('mikro_orm_migrations') is null then return; end if;
    if not exists (select from mikro_orm_migrations where name < '${BASELINE}') then return; end if;
    update mikro_orm_migrations set name = '${BASELINE}' where name = '${BEFORE_BASELINE}';
    if not found then
      raise exception 'This database is of an earlier version: start the version of ${BEFORE_BASELINE} once, '
        'or make a new database';
    end if;
    delete from mikro_orm_migrations where name < '${BASELINE}';
  end $$`;

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

/**
 * Other processes of Laurel that use the database. Each asks for its time twice a second: what has rested for
 * a minute is kept by a pooler for whoever comes next.
 */
const OTHERS = sql<{ name: string }>`
  select distinct substr(application_name, 8) as name from pg_stat_activity
  where datname = current_database() and application_name like 'laurel %'
    and application_name <> current_setting('application_name')
    and coalesce(state_change, clock_timestamp()) > clock_timestamp() - interval '1 minute'
  order by 1`;

/** Runs a migration while no other runs, in the given transaction, if there is one. */
type Alone = <T>(run: (transaction?: Transaction) => Promise<T>) => Promise<T>;

/** Applies pending migrations one by one: the locks of each are released before the next begins. */
const migrateUp = async ({ em, migrator }: Orm, alone: Alone): Promise<string[]> => {
  await alone((transaction) => em.getConnection().execute(ADOPT, [], "run", transaction));
  const upTo = (to: string): Promise<string[]> =>
    alone(async (transaction) => (await migrator.up({ transaction, to })).map(({ name }) => name));
  // Creates the table of migrations too, if necessary.
  const done = await upTo(migrations[0]!.name);
  for (const { name } of await migrator.getPending()) done.push(...(await upTo(name)));
  for (const text of ROLES_READY)
    await alone((transaction) => em.getConnection().execute(text, [], "run", transaction));
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
      const { rows: others } = await OTHERS.execute(orm.em.fork().getKysely());
      if (others.length > 0)
        throw new Error(
          `Processes of Laurel use the database (${others.map(({ name }) => name).join(", ")}) and would fail ` +
            "without what it takes back: stop them first",
        );
      if (expected !== undefined && newest?.name !== expected)
        throw new Error(`${expected} is not the newest migration any more: nothing was taken back`);
      return (await orm.migrator.down({ transaction })).map(({ name }) => name);
    }),
  migrationStates: () => statesOf(orm),
  maintain: async () => {
    await vacuumChanged(orm.em);
    await shortenLog(orm.em);
  },
  ping: async () => void (await sql`select 1`.execute(orm.em.fork().getKysely())),
  close: () => orm.close(),
});
