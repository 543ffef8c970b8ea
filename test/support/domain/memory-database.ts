import { type Database, openEmbeddedDatabase } from "../../../src/platform/database.ts";
import { migratedCluster } from "./migrated-cluster.ts";

/** A migrated database in memory, of a test's own; the caller closes it. */
export const openMemoryDatabase = async (): Promise<Database> =>
  openEmbeddedDatabase("memory://", await migratedCluster());
