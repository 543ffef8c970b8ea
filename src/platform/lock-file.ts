import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { link, readFile, rename, rm, writeFile } from "node:fs/promises";

/** The process that a lock file names. */
export type Holder = { pid: number; startedAt: string };

/**
 * When a process started, as the system counts it; tells a living holder from a later process with the same
 * pid. Empty for one that is gone, or dead and only not yet reaped.
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
  // Systems may hide when other users' processes began.
  return start === startedAt || (isOthers && start === "");
};

/** Who wrote a lock file; undefined when its text is no lock's. */
export const holderOf = (text: string): Holder | undefined => {
  try {
    const { pid, startedAt } = JSON.parse(text) as Partial<Record<string, unknown>>;
    if (!Number.isSafeInteger(pid) || (pid as number) <= 0 || typeof startedAt !== "string") return undefined;
    return { pid: pid as number, startedAt };
  } catch {
    return undefined;
  }
};

/** The text of a file; undefined when there is none. */
export const readText = async (path: string): Promise<string | undefined> => {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    // Also when what should be the directory is a file: then nobody holds it, and using it says why not.
    if (["ENOENT", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
};

/** The text of a lock of this process, which no other lock has. */
export const ownText = (): string =>
  JSON.stringify({ pid: process.pid, startedAt: startOf(process.pid), id: randomUUID() });

/** Makes the lock file, whole or not at all; false when there is one, which one of several processes made. */
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

/** Makes the lock file over whatever is there. */
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

/** Takes a dead process's lock away; false when what was there by then was another's, which is put back. */
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
    // Its owner has put it back.
    if (code === "EEXIST") return false;
    throw error;
  } finally {
    await rm(aside, { force: true });
  }
};
