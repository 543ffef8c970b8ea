import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { migratedArchive } from "../domain/migrated-cluster.ts";
import { temporaryDir } from "./process.ts";

/**
 * Puts a migrated database into a data directory that has none: for tests that are not about the first start,
 * which computes for seconds.
 */
export const fillDataDir = async (dataDir: string): Promise<void> => {
  const target = join(dataDir, "pglite");
  await mkdir(target, { recursive: true, mode: 0o700 });
  await promisify(execFile)("tar", ["-xf", await migratedArchive(), "-C", target]);
  // Where it is missing, a server waits for an owner to put it back.
  await writeFile(join(dataDir, "laurel.lock"), "");
};

/** As `temporaryDir`: a data directory whose database is migrated. */
export const migratedDataDir = async (): ReturnType<typeof temporaryDir> => {
  const dir = await temporaryDir();
  await fillDataDir(dir.path);
  return dir;
};
