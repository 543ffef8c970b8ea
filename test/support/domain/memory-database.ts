import { type Database, openEmbeddedDatabase } from "../../../src/platform/database.ts";

/** A migrated database in memory, of a test's own; the caller closes it. */
export const openMemoryDatabase = async (): Promise<Database> => {
  const database = await openEmbeddedDatabase("memory://");
  await database.migrateUp();
  return database;
};
