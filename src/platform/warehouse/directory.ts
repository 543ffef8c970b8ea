import { randomUUID } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Config } from "../../config.ts";
import type { WarehouseSettings } from "../../config/sections.ts";
import { COMMIT_MS } from "../../domain/analytics/rollups/roll-up.ts";
import { StoreError, type Warehouse, type WarehouseStore } from "../../domain/analytics/warehouse/store.ts";
import { onceLoaded } from "../../domain/kernel/flights.ts";
import { within } from "../within.ts";

/** Time limit of one operation, in ms: a directory of another machine may hang. */
const TIMEOUT_MS = 50_000;

const WHY: Readonly<Record<string, string>> = {
  EACCES: "this user has no rights to it",
  EPERM: "this user has no rights to it",
  EROFS: "it is read-only",
  ENOSPC: "no space is left",
  EDQUOT: "the quota is used up",
  ENOTDIR: "it is not a directory",
  EEXIST: "it is not a directory",
};

/** Errors that may be of one file: it has other rights, a bad block, or a directory in its place. */
const OF_FILE = new Set(["EACCES", "EPERM", "EIO", "EISDIR"]);

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === "ENOENT";

/** Returns undefined where the file is not there. */
const orMissing = async <T>(read: () => Promise<T>): Promise<T | undefined> => {
  try {
    return await read();
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
};

/** Writes a directory's own list of files down. */
const syncDirectory = async (path: string): Promise<void> => {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
};

/** @param signal aborted when nobody waits for the file any more: then it does not appear */
const writeWhole = async (path: string, body: Buffer, signal: AbortSignal): Promise<void> => {
  const folder = dirname(path);
  await mkdir(folder, { recursive: true });
  // Loaders look for names that end otherwise.
  const begun = `${path}.${randomUUID()}.tmp`;
  try {
    const file = await open(begun, "wx");
    try {
      await file.writeFile(body);
      await file.sync();
    } finally {
      await file.close();
    }
    signal.throwIfAborted();
    await rename(begun, path);
  } catch (error) {
    await rm(begun, { force: true }).catch(() => undefined);
    throw error;
  }
  await syncDirectory(folder);
};

/** Removes a file, and what is left of attempts to write it. */
const removeWhole = async (path: string): Promise<void> => {
  await rm(path, { force: true });
  const folder = dirname(path);
  const begun = `${basename(path)}.`;
  for (const name of await readdir(folder).catch(() => []))
    if (name.startsWith(begun) && name.endsWith(".tmp")) await rm(join(folder, name), { force: true });
};

/**
 * A warehouse in a directory: a file is there whole, or not at all. An operation on a directory that hangs
 * keeps one of the few threads that all of this process shares, and nothing can end it: until it comes to an
 * end, all others are refused.
 */
export const createDirectoryStore = (root: string, timeoutMs = TIMEOUT_MS): WarehouseStore => {
  let hanging = 0;
  const fault = (what: string, options?: { cause: unknown; isOfFile: boolean }): StoreError =>
    new StoreError(`the directory ${root} (WAREHOUSE_URL) fails: ${what}`, options);

  const attempt = async <T>(
    run: (givenUp: AbortSignal) => Promise<T>,
    signal: AbortSignal | undefined,
  ): Promise<T> => {
    if (signal?.aborted) throw fault("this process stops");
    if (hanging > 0) throw fault("it does not answer, since an earlier operation");
    const givenUp = new AbortController();
    const running = run(givenUp.signal);
    let isRunning = true;
    const end = (): void => {
      isRunning = false;
    };
    running.then(end, end);
    try {
      return await within(timeoutMs, running, signal);
    } catch (cause) {
      if (isRunning) {
        givenUp.abort();
        hanging++;
        const goOn = (): void => void hanging--;
        running.then(goOn, goOn);
      }
      const { code = "", message } = cause as NodeJS.ErrnoException;
      throw fault(WHY[code] ?? message, { cause, isOfFile: OF_FILE.has(code) });
    }
  };
  const store: WarehouseStore = {
    name: root,
    put: (path, body, signal) => attempt((givenUp) => writeWhole(join(root, path), body, givenUp), signal),
    size: (path, signal) => attempt(() => orMissing(async () => (await stat(join(root, path))).size), signal),
    get: (path, signal) =>
      attempt((givenUp) => orMissing(() => readFile(join(root, path), { signal: givenUp })), signal),
    remove: (path, signal) => attempt(() => removeWhole(join(root, path)), signal),
    check: async () => {
      const path = `.laurel-check-${randomUUID()}`;
      await store.put(path, Buffer.from("laurel\n"));
      await store.remove(path);
    },
  };
  return store;
};

/** Opens the store of a warehouse; connects to nothing. */
export const openWarehouseStore = async ({ store }: WarehouseSettings): Promise<WarehouseStore> => {
  if (store.kind === "directory") return createDirectoryStore(store.path);
  // Loaded here: most servers have no warehouse.
  const { createS3Store } = await import("./s3.ts");
  return createS3Store(store);
};

/** Returns where the configuration says that files for a warehouse go; undefined for nowhere. */
export const warehouseOf = ({ warehouse }: Pick<Config, "warehouse">): Warehouse | undefined => {
  if (!warehouse) return undefined;
  return {
    store: onceLoaded(() => openWarehouseStore(warehouse)),
    everyMs: warehouse.everyMs,
    lagMs: COMMIT_MS,
  };
};
