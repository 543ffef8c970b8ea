import { spawnSync } from "node:child_process";
import { chownSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "./process.ts";

const VERSIONS = "/usr/lib/postgresql";

/** Folder of the programs of PostgreSQL 15, or of the newest that there is. */
const programs = (): string => {
  const versions = readdirSync(VERSIONS).toSorted((a, b) => Number(a) - Number(b));
  return join(VERSIONS, versions.includes("15") ? "15" : versions.at(-1)!, "bin");
};

const isRoot = process.getuid?.() === 0;

/** Runs a program of PostgreSQL, which refuses to run as root. @throws Error with what it printed */
const run = (name: string, args: readonly string[]): void => {
  const program = join(programs(), name);
  const [command, ...all] = isRoot
    ? ["runuser", "--user", "postgres", "--", program, ...args]
    : [program, ...args];
  // Servers stay behind: nobody waits for what they print.
  const { status, stderr } = spawnSync(command, all, { stdio: ["ignore", "ignore", "pipe"], cwd: "/" });
  if (status !== 0) throw new Error(`${name} ended with ${status}: ${stderr.toString()}`);
};

const started: string[] = [];
process.on("exit", () => {
  for (const dataDir of started) spawnSync("kill", ["-QUIT", pidOf(dataDir)], { stdio: "ignore" });
});

const pidOf = (dataDir: string): string =>
  spawnSync("head", ["-1", join(dataDir, "postmaster.pid")])
    .stdout.toString()
    .trim();

const start = (dataDir: string, port: number): void => {
  const options = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=${dataDir}`;
  run("pg_ctl", ["start", "--wait", "-D", dataDir, "-l", join(dataDir, "log"), "-o", options]);
  started.push(dataDir);
};

const stop = (dataDir: string): void => {
  run("pg_ctl", ["stop", "--wait", "--mode", "immediate", "-D", dataDir]);
  started.splice(started.indexOf(dataDir), 1);
};

/** A PostgreSQL of a test's own, and a replica that follows it by streaming. */
export type PostgresPair = {
  primaryUrl: string;
  replicaUrl: string;
  /** Ends the replica, or starts it again. */
  stopReplica(): void;
  startReplica(): void;
  remove(): void;
};

export const startPostgresPair = async (): Promise<PostgresPair> => {
  const folder = mkdtempSync(join(tmpdir(), "laurel-pair-"));
  if (isRoot) {
    const { stdout } = spawnSync("id", ["-u", "postgres"]);
    chownSync(folder, Number(stdout.toString()), -1);
  }
  const [primary, replica] = [join(folder, "primary"), join(folder, "replica")];
  const [primaryPort, replicaPort] = [await freePort(), await freePort()];
  run("initdb", [
    "-D",
    primary,
    "--username",
    "postgres",
    "--auth",
    "trust",
    "--encoding",
    "UTF8",
    "--no-sync",
  ]);
  start(primary, primaryPort);
  const primaryUrl = `postgres://postgres@127.0.0.1:${primaryPort}/postgres`;
  run("pg_basebackup", ["-D", replica, "-d", primaryUrl, "-R", "-X", "stream", "-c", "fast", "--no-sync"]);
  start(replica, replicaPort);
  return {
    primaryUrl,
    replicaUrl: `postgres://postgres@127.0.0.1:${replicaPort}/postgres`,
    stopReplica: () => stop(replica),
    startReplica: () => start(replica, replicaPort),
    remove: () => {
      for (const dataDir of [replica, primary]) if (started.includes(dataDir)) stop(dataDir);
      rmSync(folder, { recursive: true, force: true });
    },
  };
};
