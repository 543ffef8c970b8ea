import cluster from "node:cluster";
import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { dataDirError, makeDir } from "../domain/kernel/data-dir.ts";
import { identityOf, takeName } from "./kernel-name.ts";
import { create, holderOf, isAlive, overwrite, ownText, readText, removeStale } from "./lock-file.ts";

const LOCK_FILE = "laurel.lock";
/** Maximum number of consecutive stale locks: each means that another process was just as quick. */
const ATTEMPTS_MAX = 3;
/** How long a new lock must stand before it counts, in ms: longer than another takes to put it back. */
const SETTLE_MS = 100;
/** How often a holder checks that the lock file is still its own, in ms. */
const CHECK_EVERY_MS = 500;
/** As SETTLE_MS, when there is only the lock file: longer than a holder takes to notice that it is gone. */
const SETTLE_BY_FILE_MS = 3 * CHECK_EVERY_MS;

export type LockOptions = {
  /** Called with the reason when the directory no longer belongs to this process and must not be used. */
  onLost?: (reason: string) => void;
  /** Uses the lock file alone, as on systems other than Linux. */
  byFile?: boolean;
};

/** Default for a process whose directory was taken over: an orderly stop, as after a SIGTERM. */
const stopItself = (reason: string): void => {
  process.stderr.write(`${reason}: stopping\n`);
  process.kill(process.pid, "SIGTERM");
};

/**
 * Locks the data directory for this process. The embedded engine has no lock of its own, and a second process
 * on one directory destroys data. The lock is an abstract socket name in the kernel, plus a file that names
 * the holder: a deleted or damaged file is restored while the process runs.
 * @returns a function that releases the directory
 * @throws Error naming the process that holds it, or saying why the directory cannot be used
 */
export const lockDataDir = async (
  dataDir: string,
  options: LockOptions = {},
): Promise<() => Promise<void>> => {
  if (cluster.isWorker) {
    throw new Error("MODE=embedded is one process: it cannot run under pm2 cluster mode. Use MODE=cluster");
  }
  try {
    await makeDir(dataDir);
    return await lock(dataDir, options);
  } catch (error) {
    throw dataDirError(dataDir, error);
  }
};

const lock = async (dataDir: string, { onLost = stopItself, byFile = false }: LockOptions) => {
  const identity = await identityOf(dataDir);
  const release = byFile ? undefined : await takeName(identity);
  if (release === "taken") throw inUse(dataDir, await holderName(dataDir));
  try {
    const own = await lockFile(dataDir, release ? SETTLE_MS : SETTLE_BY_FILE_MS);
    const held: Held = { dataDir, identity, own, isNamed: release !== undefined };
    const endWatch = watch(held, onLost);
    return async () => {
      await endWatch();
      const path = join(dataDir, LOCK_FILE);
      if ((await readText(path)) === own) await rm(path, { force: true });
      await release?.();
    };
  } catch (error) {
    await release?.();
    throw error;
  }
};

/** Creates the lock file for this process. @returns its text */
const lockFile = async (dataDir: string, settleMs: number): Promise<string> => {
  const path = join(dataDir, LOCK_FILE);
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const own = ownText();
    if (await create(path, own)) {
      // A process that judged the lock before this one stale may have moved this one aside, and a third may
      // have come before it could put it back: whichever text stands there after a moment owns the directory.
      await delay(settleMs);
      if ((await readText(path)) !== own) throw inUse(dataDir, "another process");
      return own;
    }
    const text = await readText(path);
    const holder = text === undefined ? undefined : holderOf(text);
    if (holder && isAlive(holder)) throw inUse(dataDir, `process ${holder.pid}`);
    if (text !== undefined && !(await removeStale(path, text))) break;
  }
  throw inUse(dataDir, "another process");
};

const inUse = (dataDir: string, by: string): Error =>
  new Error(`the data directory ${dataDir} is in use by ${by}; stop it or set DATA_DIR`);

type Held = { dataDir: string; identity: string; own: string; isNamed: boolean };

/** Checks the lock file periodically. @returns a function that stops it */
const watch = (held: Held, onLost: (reason: string) => void): (() => Promise<void>) => {
  let looking: Promise<void> | undefined;
  const look = async (): Promise<void> => {
    const reason = await keep(held).catch(() => undefined);
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

/** Restores the lock file if it was deleted or damaged. @returns why the directory is lost, if it is */
const keep = async ({ dataDir, identity, own, isNamed }: Held): Promise<string | undefined> => {
  const path = join(dataDir, LOCK_FILE);
  const found = await identityOf(dataDir).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (found !== identity) return `the data directory ${dataDir} was deleted or moved`;
  const text = await readText(path);
  if (text === own) return undefined;
  const other = text === undefined ? undefined : holderOf(text);
  if (other && isAlive(other) && (isNamed || (await hasSettled(path))))
    return `the data directory ${dataDir} was taken by process ${other.pid}`;
  await overwrite(path, own);
  return undefined;
};

/**
 * Whether a lock file's creator may be using the directory already: until then it checks the file once more.
 */
const hasSettled = async (path: string): Promise<boolean> => {
  const { mtimeMs } = await stat(path);
  return Date.now() - mtimeMs > SETTLE_BY_FILE_MS - CHECK_EVERY_MS;
};

/** Returns the pid of the living process that holds the data directory; undefined when it is free. */
export const findDataDirHolder = async (dataDir: string): Promise<number | undefined> => {
  const text = await readText(join(dataDir, LOCK_FILE));
  const holder = text === undefined ? undefined : holderOf(text);
  return holder && isAlive(holder) ? holder.pid : undefined;
};

const holderName = async (dataDir: string): Promise<string> => {
  const pid = await findDataDirHolder(dataDir);
  return pid === undefined ? "another process" : `process ${pid}`;
};
