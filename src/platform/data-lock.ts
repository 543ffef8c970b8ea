import { mkdir, open, readFile, rm } from "node:fs/promises";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import cluster from "node:cluster";

type Holder = { pid: number; startedAt: string };

/** When a process started, as the kernel counts it; tells a living holder from a later process with the same pid. */
const startOf = (pid: number): string => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
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
 * Takes the data directory for this process. The embedded engine has no lock of its own, and a second process on one
 * directory destroys data.
 * @returns what gives the directory back
 * @throws Error naming the process that holds it
 */
export const lockDataDir = async (dataDir: string): Promise<() => Promise<void>> => {
  if (cluster.isWorker) {
    throw new Error("MODE=embedded is one process: it cannot run under pm2 cluster mode. Use MODE=cluster");
  }
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const path = join(dataDir, "laurel.lock");
  for (let attempt = 0; ; attempt++) {
    try {
      const file = await open(path, "wx", 0o600);
      await file.writeFile(JSON.stringify({ pid: process.pid, startedAt: startOf(process.pid) }));
      await file.close();
      return () => rm(path, { force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      const holder = await readHolder(path);
      if (attempt >= 3 || (holder && isAlive(holder))) {
        const by = holder ? `process ${holder.pid}` : "another process";
        throw new Error(`the data directory ${dataDir} is in use by ${by}; stop it or set DATA_DIR`, {
          cause: error,
        });
      }
      await rm(path, { force: true });
    }
  }
};

/** The pid of the living process that holds the data directory, undefined when it is free. */
export const findDataDirHolder = async (dataDir: string): Promise<number | undefined> => {
  const holder = await readHolder(join(dataDir, "laurel.lock"));
  return holder && isAlive(holder) ? holder.pid : undefined;
};

const readHolder = async (path: string): Promise<Holder | undefined> => {
  try {
    return JSON.parse(await readFile(path, "utf8")) as Holder;
  } catch {
    return undefined;
  }
};
