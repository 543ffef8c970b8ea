import { createHash } from "node:crypto";
import { existsSync, globSync, readFileSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Database, openEmbeddedDatabase } from "../../../src/platform/database.ts";
import { isCovered } from "../coverage.ts";

const ROOT = join(import.meta.dirname, "../../..");
const CACHE = join(ROOT, "node_modules/.cache/laurel-migrated");

type Engine = { dumpDataDir(compression: "none"): Promise<Blob> };

const dumpOf = async ({ em }: Database): Promise<Blob> => {
  const connection = em.getConnection() as unknown as { getNativeClient(): Promise<Engine> };
  return (await connection.getNativeClient()).dumpDataDir("none");
};

const make = async (): Promise<Blob> => {
  const database = await openEmbeddedDatabase("memory://");
  try {
    await database.migrateUp();
    return await dumpOf(database);
  } finally {
    await database.close();
  }
};

/** Named by all that it depends on: the code, the engine, and the day, with which partitions begin. */
const nameOf = (): string => {
  const hash = createHash("sha256").update(new Date().toISOString().slice(0, 10));
  for (const file of ["package-lock.json", ...globSync("src/**/*.ts", { cwd: ROOT }).toSorted()])
    hash.update(file).update(readFileSync(join(ROOT, file)));
  return `${hash.digest("hex").slice(0, 32)}.tar`;
};

/** Other runs, and processes that began on the day before, may need theirs. */
const OLD_AFTER_MS = 2 * 86_400_000;

const removeOld = async (): Promise<void> => {
  for (const name of await readdir(CACHE)) {
    const file = join(CACHE, name);
    const { mtimeMs } = await stat(file).catch(() => ({ mtimeMs: Infinity }));
    if (Date.now() - mtimeMs > OLD_AFTER_MS) await rm(file, { force: true });
  }
};

let name: string | undefined;

/** The archive of a migrated embedded database, which the first process that needs it makes. */
export const migratedArchive = async (): Promise<string> => {
  const file = join(CACHE, (name ??= nameOf()));
  if (existsSync(file)) return file;
  await mkdir(CACHE, { recursive: true });
  await removeOld();
  // Several processes may make it at once: each its own, of which the last one stays.
  const draft = `${file}.${process.pid}`;
  await writeFile(draft, Buffer.from(await (await make()).arrayBuffer()));
  await rename(draft, file);
  return file;
};

let cluster: Promise<Blob> | undefined;

/** What a migrated database in memory begins as. Where coverage is collected, every process migrates. */
export const migratedCluster = (): Promise<Blob> =>
  (cluster ??= isCovered ? make() : migratedArchive().then(async (file) => new Blob([await readFile(file)])));
