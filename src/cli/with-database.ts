import { join } from "node:path";
import type { Config } from "../config.ts";
import { createTransact, type Transact } from "../domain/work.ts";
import { findDataDirHolder, lockDataDir } from "../platform/data-lock.ts";
import { type Database, openEmbeddedDatabase, openPostgres } from "../platform/database.ts";

const CONNECTIONS_MAX = 2;

/**
 * Says early that the embedded database is another process's, before anybody is asked anything.
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

const openEmbedded = async ({ dataDir }: Config): Promise<Database> => {
  const database = await openEmbeddedDatabase(join(dataDir, "pglite"));
  // Nobody else has it: what the next start would do may as well be done now.
  await database.migrateUp();
  return database;
};

const openCluster = async ({ databaseUrl }: Config): Promise<Database> => {
  const database = await openPostgres(databaseUrl!, CONNECTIONS_MAX);
  const states = await database.migrationStates();
  if (states.every(({ isApplied }) => isApplied)) return database;
  await database.close();
  throw new Error("The database's schema is not this version's; run laurel migrate first");
};

/**
 * Runs `run` on the database of the configuration, with nothing else of a server.
 * @throws Error when a server holds the embedded database, or the schema is another version's
 */
export const withDatabase = async <T>(
  config: Config,
  run: (transact: Transact) => Promise<T>,
): Promise<T> => {
  await refuseRunningServer(config);
  const isEmbedded = config.mode === "embedded";
  const unlock = isEmbedded ? await lockDataDir(config.dataDir) : async () => undefined;
  try {
    const database = await (isEmbedded ? openEmbedded(config) : openCluster(config));
    try {
      const transact = createTransact({
        em: database.em,
        clock: () => new Date(),
        doorbell: { outbox: () => undefined },
        onError: (error) => console.error(error),
      });
      return await run(transact);
    } finally {
      await database.close();
    }
  } finally {
    await unlock();
  }
};
