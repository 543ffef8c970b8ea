import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { link, readFile, rename, rm, writeFile } from "node:fs/promises";

/** The process named by a lock file. */
export type Holder = { pid: number; startedAt: string };

/**
 * Returns when a process started, as the system counts it; distinguishes a living holder from a later process
 * with the same pid. Empty for a process that is gone, or a zombie.
 */
const startOf = (pid: number): string => (process.platform === "linux" ? startOnLinux(pid) : startByPs(pid));

const startOnLinux = (pid: number): string => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // After the command's name in brackets: the state first, the start time as the 20th.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" ? "" : (fields[19] ?? "");
  } catch {
    return "";
  }
};

const startByPs = (pid: number): string => {
  try {
    return execFileSync("ps", ["-o", "lstart=", "-p", String(pid)], { encoding: "utf8" }).trim();
  } catch {
    return "";
  }
};

export const isAlive = ({ pid, startedAt }: Holder): boolean => {
  let isOthers = false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM") return false;
    isOthers = true;
  }
  const start = startOf(pid);
  // Systems may hide the start times of other users' processes.
  return start === startedAt || (isOthers && start === "");
};

/** Parses the holder from a lock file; undefined when the text is no lock's. */
export const holderOf = (text: string): Holder | undefined => {
  try {
    const { pid, startedAt } = JSON.parse(text) as Partial<Record<string, unknown>>;
    if (!Number.isSafeInteger(pid) || (pid as number) <= 0 || typeof startedAt !== "string") return undefined;
    return { pid: pid as number, startedAt };
  } catch {
    return undefined;
  }
};

/** Returns the text of a file; undefined when there is none. */
export const readText = async (path: string): Promise<string | undefined> => {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    // Also when the directory's path is a file: nobody holds it, and using it reports the reason.
    if (["ENOENT", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
};

/** Returns a unique text for a lock of this process. */
export const ownText = (): string =>
  JSON.stringify({ pid: process.pid, startedAt: startOf(process.pid), id: randomUUID() });

/** Creates the lock file atomically; false when it exists already. Of several processes one succeeds. */
export const create = (path: string, text: string): Promise<boolean> =>
  withDraft(path, text, async (draft) => {
    try {
      await link(draft, path);
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
      throw error;
    }
  });

/** Writes the lock file over an existing one. */
export const overwrite = (path: string, text: string): Promise<void> =>
  withDraft(path, text, (draft) => rename(draft, path));

const withDraft = async <T>(path: string, text: string, use: (draft: string) => Promise<T>): Promise<T> => {
  const draft = `${path}.${randomUUID()}`;
  try {
    await writeFile(draft, text, { mode: 0o600 });
    return await use(draft);
  } finally {
    await rm(draft, { force: true });
  }
};

/** Removes a dead process's lock; false when another's had replaced it, which is put back. */
export const removeStale = async (path: string, text: string): Promise<boolean> => {
  const aside = `${path}.${randomUUID()}`;
  try {
    await rename(path, aside);
    if ((await readFile(aside, "utf8")) === text) return true;
    await link(aside, path);
    return false;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return true;
    // Its owner has restored it.
    if (code === "EEXIST") return false;
    throw error;
  } finally {
    await rm(aside, { force: true });
  }
};
