import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { type Config, loadConfig, loadSettings } from "../config.ts";
import { createTransact, NO_WAKE_UPS } from "../domain/kernel/transact.ts";
import type { Transact } from "../domain/kernel/work.ts";
import { findDataDirHolder, lockDataDir } from "../platform/data-lock.ts";
import { type Database, openEmbeddedDatabase, openPostgres } from "../platform/database.ts";
import { throwRefusedAddress } from "../platform/probe.ts";
import { UsageError } from "./api-flags.ts";

const CONNECTIONS_MAX = 2;

/**
 * Makes V8 optimise code of the embedded engine only after a hundred times as much use as otherwise. For a
 * command of a few statements the optimising takes more CPU than what it speeds up.
 */
const optimiseLate = (): void => setFlagsFromString("--wasm-tiering-budget=1300000000");

declare const named: unique symbol;
/** The configuration of a command on a database, once it is certain which database is meant. */
export type CommandConfig = Config & { readonly [named]: true };

/**
 * Loads the configuration of a command that opens the database, and creates nothing when it refuses: an
 * embedded database that was not meant would answer that all is well.
 * @throws UsageError when DATABASE_URL is set and MODE is not; ConfigError
 */
export const loadCommandConfig = async (): Promise<CommandConfig> => {
  if (loadSettings().unusedStores.includes("DATABASE_URL"))
    throw new UsageError(
      "DATABASE_URL is set, but without MODE it is not used: set MODE=cluster for that database, or " +
        "MODE=embedded for the one in DATA_DIR",
    );
  return (await loadConfig()) as CommandConfig;
};

/**
 * Fails early when another process holds the embedded database, before anything is prompted for.
 * @throws Error naming the process and what to do
 */
export const refuseRunningServer = async ({ mode, dataDir }: Config): Promise<void> => {
  const holder = mode === "embedded" ? await findDataDirHolder(dataDir) : undefined;
  if (holder === undefined) return;
  throw new Error(
    `A server is running on the data directory ${dataDir} (process ${holder}), and an embedded database\n` +
      "belongs to one process. Stop the server, run this command again, then start the server.",
  );
};

/**
 * Runs `run` on the configured database as it is found, without any other part of a server.
 * @throws Error naming the server that holds the embedded database, if one does
 */
export const withDatabase = async <T>(
  config: CommandConfig,
  run: (database: Database) => Promise<T>,
): Promise<T> => {
  await refuseRunningServer(config);
  const isEmbedded = config.mode === "embedded";
  if (isEmbedded) optimiseLate();
  const unlock = isEmbedded ? await lockDataDir(config.dataDir) : async () => undefined;
  try {
    const database = isEmbedded
      ? await openEmbeddedDatabase(join(config.dataDir, "pglite"))
      : await openPostgres(config.databaseUrl!, CONNECTIONS_MAX, { isWatched: true });
    try {
      // A migrator would create a database that does not exist, where its user may.
      if (!isEmbedded) await database.ping();
      return await run(database);
    } catch (error) {
      if (config.databaseUrl !== undefined) throwRefusedAddress(error, config.databaseUrl);
      throw error;
    } finally {
      await database.close();
    }
  } finally {
    await unlock();
  }
};

/**
 * Migrates an embedded database to this version: no other process uses it, and the next start would do the
 * same.
 */
const requireSchema = async ({ mode }: Config, database: Database): Promise<void> => {
  if (mode === "embedded") await database.migrateUp();
  const states = await database.migrationStates();
  if (states.every(({ isApplied }) => isApplied)) return;
  throw new Error("The database's schema is not this version's: npm run migrate first");
};

/**
 * As `withDatabase`, with the schema of this version and a transaction function.
 * @throws Error also when the schema of a cluster is another version's
 */
export const withTransact = <T>(config: CommandConfig, run: (transact: Transact) => Promise<T>): Promise<T> =>
  withDatabase(config, async (database) => {
    await requireSchema(config, database);
    const transact = createTransact({
      em: database.em,
      clock: () => new Date(),
      wakeUps: NO_WAKE_UPS,
      onError: (error) => console.error(error),
    });
    return run(transact);
  });
