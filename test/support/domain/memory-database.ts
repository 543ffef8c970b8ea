import { type Database, openEmbeddedDatabase } from "../../../src/platform/database.ts";

type Engine = { dumpDataDir(compression: "none"): Promise<Blob> };

const dumpOf = async ({ em }: Database): Promise<Blob> => {
  const connection = em.getConnection() as unknown as { getNativeClient(): Promise<Engine> };
  return (await connection.getNativeClient()).dumpDataDir("none");
};

let migrated: Blob | undefined;

/**
 * A migrated database in memory, of a test's own; the caller closes it. Only the first one of this process is
 * migrated, the others begin as it was then.
 */
export const openMemoryDatabase = async (): Promise<Database> => {
  if (migrated) return openEmbeddedDatabase("memory://", migrated);
  const database = await openEmbeddedDatabase("memory://");
  await database.migrateUp();
  migrated = await dumpOf(database);
  return database;
};
