import cluster from "node:cluster";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { link, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const LOCK_FILE = "laurel.lock";
/** Stale locks met in a row before giving up: each means that another process was just as quick. */
const ATTEMPTS_MAX = 3;
/** How long a new lock must stand before it counts, in ms: longer than another takes to put it back. */
const SETTLE_MS = 100;

type Holder = { pid: number; startedAt: string };

/**
 * When a process started, as the kernel counts it; tells a living holder from a later process with the same
 * pid. Empty for one that is gone, or dead and only not yet reaped.
 */
const startOf = (pid: number): string => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // After the command's name in brackets: the state first, the start time as the 20th.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" ? "" : (fields[19] ?? "");
  } catch {
    return "";
  }
};

const isAlive = ({ pid, startedAt }: Holder): boolean => {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
  return startedAt === startOf(pid);
};

/**
 * Takes the data directory for this process. The embedded engine has no lock of its own, and a second process
 * on one directory destroys data.
 * @returns what gives the directory back
 * @throws Error naming the process that holds it
 */
export const lockDataDir = async (dataDir: string): Promise<() => Promise<void>> => {
  if (cluster.isWorker) {
    throw new Error("MODE=embedded is one process: it cannot run under pm2 cluster mode. Use MODE=cluster");
  }
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const path = join(dataDir, LOCK_FILE);
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const own = await create(path);
    if (own !== undefined) {
      // One who judged the lock before this one stale may have moved this one aside, and a third may
      // have come before it could put it back: whose text stands there after a moment has the directory.
      await delay(SETTLE_MS);
      if ((await readText(path)) !== own) throw inUse(dataDir, "another process");
      return () => rm(path, { force: true });
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

/** Whole or not at all: the file gets its name by a link, which one of several starting processes wins. */
const create = async (path: string): Promise<string | undefined> => {
  const id = randomUUID();
  const draft = `${path}.${id}`;
  const text = JSON.stringify({ pid: process.pid, startedAt: startOf(process.pid), id });
  await writeFile(draft, text, { mode: 0o600 });
  try {
    await link(draft, path);
    return text;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return undefined;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
};

/** Takes a dead process's lock away; false when what was there by then was another's, which is put back. */
const removeStale = async (path: string, text: string): Promise<boolean> => {
  const aside = `${path}.${randomUUID()}`;
  try {
    await rename(path, aside);
    if ((await readFile(aside, "utf8")) === text) return true;
    await link(aside, path);
    return false;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return true;
    throw error;
  } finally {
    await rm(aside, { force: true });
  }
};

/** The pid of the living process that holds the data directory, undefined when it is free. */
export const findDataDirHolder = async (dataDir: string): Promise<number | undefined> => {
  const text = await readText(join(dataDir, LOCK_FILE));
  const holder = text === undefined ? undefined : holderOf(text);
  return holder && isAlive(holder) ? holder.pid : undefined;
};

const readText = async (path: string): Promise<string | undefined> => {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    // Also when what should be the directory is a file: then nobody holds it, and using it says why not.
    if (["ENOENT", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
};

const holderOf = (text: string): Holder | undefined => {
  try {
    return JSON.parse(text) as Holder;
  } catch {
    return undefined;
  }
};
