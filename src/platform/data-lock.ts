import cluster from "node:cluster";
import { access, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";
import { dataDirError, makeDir } from "../domain/kernel/data-dir.ts";

/** Locked by the process that owns the directory; it has no content, and stays when the directory is released. */
const LOCK_FILE = "laurel.lock";
/** Names the owner, for messages alone. */
const OWNER_FILE = "laurel.pid";
/** How often an owner checks that the lock file is still its own, in ms. */
const CHECK_EVERY_MS = 500;
/** Longer than an owner takes to put back a lock file that was deleted, in ms. */
const SETTLE_MS = 3 * CHECK_EVERY_MS;
/** How long a lock may be held by somebody who only looks whether it is, in ms. */
const LOOK_MAX_MS = 100;

/** Results of SQLite: another process holds the lock; the file holds something else than a database. */
const [BUSY, NOT_A_DATABASE] = [5, 26];

/** Default for a process whose directory was taken over: an orderly stop, as after a SIGTERM. */
const stopItself = (reason: string): void => {
  process.stderr.write(`${reason}: stopping\n`);
  process.kill(process.pid, "SIGTERM");
};

/**
 * Locks the data directory for this process. The embedded engine has no lock of its own, and a second process
 * on one directory destroys data. The lock is the kernel's, on a file: it ends with the process, and holds for
 * other containers that share the directory too.
 * @param onLost called with the reason when the directory no longer belongs to this process
 * @returns a function that releases the directory
 * @throws Error naming the process that holds it, or saying why the directory cannot be used
 */
export const lockDataDir = async (
  dataDir: string,
  { onLost = stopItself }: { onLost?: (reason: string) => void } = {},
): Promise<() => Promise<void>> => {
  if (cluster.isWorker) {
    throw new Error("MODE=embedded is one process: it cannot run under pm2 cluster mode. Use MODE=cluster");
  }
  try {
    await makeDir(dataDir);
    return await lock(dataDir, onLost);
  } catch (error) {
    throw dataDirError(dataDir, error);
  }
};

const lock = async (dataDir: string, onLost: (reason: string) => void): Promise<() => Promise<void>> => {
  const path = join(dataDir, LOCK_FILE);
  // An owner whose file was deleted puts it back.
  if ((await create(path)) && (await isThere(join(dataDir, "pglite")))) await delay(SETTLE_MS);
  const held = await lockWhatever(path);
  if (!held) throw new Error(`the data directory ${dataDir} is in use by ${await ownerOf(dataDir)}`);
  const owner = { dataDir, directory: await identityOf(dataDir), held, file: await identityOf(path) };
  await writeFile(join(dataDir, OWNER_FILE), `${process.pid} ${hostname()}\n`, { mode: 0o600 });
  const endWatch = watch(owner, onLost);
  return async () => {
    await endWatch();
    await rm(join(dataDir, OWNER_FILE), { force: true });
    owner.held.close();
  };
};

/** @returns whether the file was not there */
const create = async (path: string): Promise<boolean> => {
  try {
    await writeFile(path, "", { flag: "wx", mode: 0o600 });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
};

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

/** As `lockFile`, whatever the file holds: an earlier version of Laurel wrote its process into it. */
const lockWhatever = async (path: string): Promise<DatabaseSync | undefined> => {
  try {
    return lockFile(path);
  } catch (error) {
    if ((error as { errcode?: number }).errcode !== NOT_A_DATABASE) throw error;
    await truncate(path);
    return lockFile(path);
  }
};

/**
 * Locks a file until it is closed or the process ends; undefined if another process has. The process must not
 * open the file in another way: closing that would end the lock.
 */
const lockFile = (path: string): DatabaseSync | undefined => {
  let file: DatabaseSync | undefined;
  try {
    file = new DatabaseSync(path, { timeout: LOOK_MAX_MS });
    file.exec("begin exclusive");
    return file;
  } catch (error) {
    file?.close();
    if ((error as { errcode?: number }).errcode === BUSY) return undefined;
    throw Object.assign(error as Error, { syscall: "lock" });
  }
};

/** Identifies a file or directory independently of its path, even after another one has taken that path. */
const identityOf = async (path: string): Promise<string | undefined> => {
  try {
    const { dev, ino } = await stat(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
};

type Owner = {
  dataDir: string;
  directory: string | undefined;
  held: DatabaseSync;
  file: string | undefined;
};

/** Checks periodically that the lock is on the file that others find. @returns a function that stops it */
const watch = (owner: Owner, onLost: (reason: string) => void): (() => Promise<void>) => {
  let looking: Promise<void> | undefined;
  const look = async (): Promise<void> => {
    const reason = await keep(owner).catch(() => undefined);
    if (reason === undefined) return;
    clearInterval(timer);
    onLost(reason);
  };
  const timer = setInterval(() => {
    looking ??= look().finally(() => (looking = undefined));
  }, CHECK_EVERY_MS);
  timer.unref();
  return async () => {
    clearInterval(timer);
    await looking;
  };
};

/** Locks the lock file anew if it was deleted or replaced. @returns why the directory is lost, if it is */
const keep = async (owner: Owner): Promise<string | undefined> => {
  const { dataDir, directory, file, held } = owner;
  const path = join(dataDir, LOCK_FILE);
  if ((await identityOf(dataDir)) !== directory) return `the data directory ${dataDir} was deleted or moved`;
  if ((await identityOf(path)) === file) return undefined;
  const anew = await lockWhatever(path);
  if (!anew) return `the data directory ${dataDir} was taken by ${await ownerOf(dataDir)}`;
  Object.assign(owner, { held: anew, file: await identityOf(path) });
  held.close();
  return undefined;
};

type Named = { pid: number; host: string };

const readOwner = async (dataDir: string): Promise<Named | undefined> => {
  const text = await readFile(join(dataDir, OWNER_FILE), "utf8").catch(() => "");
  const [, pid, host = ""] = /^(\d+) (\S*)/.exec(text) ?? [];
  return pid === undefined ? undefined : { pid: Number(pid), host };
};

const ownerOf = async (dataDir: string): Promise<string> => {
  const owner = await readOwner(dataDir);
  if (!owner) return "another process; stop it or set DATA_DIR";
  const where = owner.host === hostname() ? "" : ` of ${owner.host}`;
  return `process ${owner.pid}${where}; stop it or set DATA_DIR`;
};

/** Returns the pid of the process that holds the data directory; undefined when it is free. */
export const findDataDirHolder = async (dataDir: string): Promise<number | undefined> => {
  const path = join(dataDir, LOCK_FILE);
  if (!(await isThere(path))) return undefined;
  try {
    const free = lockFile(path);
    free?.close();
    return free ? undefined : (await readOwner(dataDir))?.pid;
  } catch {
    // Whoever wants to use it is told why that is not possible.
    return undefined;
  }
};
