import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { migratedArchive } from "../domain/migrated-cluster.ts";

const MAIN = new URL("../../../src/main.ts", import.meta.url).pathname;

/** Below the ports that systems give to outgoing connections, one of which could take it meanwhile. */
const [PORT_MIN, PORT_MAX] = [10_240, 32_767];
let tried = process.pid * 97;

/** A port that nobody listens on, which this process gives once. */
export const freePort = async (): Promise<number> => {
  for (;;) {
    const port = PORT_MIN + (tried++ % (PORT_MAX - PORT_MIN));
    const server = createServer().listen(port, "127.0.0.1");
    const isFree = await once(server, "listening").then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, "close");
    return port;
  }
};

/** A directory of a test's own; `remove` takes it away. */
export const temporaryDir = async (): Promise<{ path: string; remove: () => Promise<void> }> => {
  const path = await mkdtemp(join(tmpdir(), "laurel-test-"));
  return { path, remove: () => rm(path, { recursive: true, force: true, maxRetries: 10 }) };
};

export type Laurel = {
  child: ChildProcess;
  output: () => string;
  /** Resolves with the exit code, or the signal's name. */
  ended: Promise<number | string>;
};

const running = new Set<ChildProcess>();
// A test that fails leaves its processes to nobody: they go with this one.
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** Where this process keeps compiled modules: others need not compile them again. */
const { NODE_COMPILE_CACHE: compiled } = process.env;
const COMPILED: Record<string, string> = compiled === undefined ? {} : { NODE_COMPILE_CACHE: compiled };

/** Runs `laurel` as a process of its own, with nothing of this process's settings. */
export const laurel = (args: readonly string[], env: Record<string, string> = {}): Laurel => {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { PATH: process.env["PATH"] ?? "", CONSOLE_BUILD: "off", ...COMPILED, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  running.add(child);
  child.on("close", () => running.delete(child));
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => (text += chunk.toString()));
  const ended = once(child, "close").then(([code, signal]: unknown[]) => (code ?? signal) as number | string);
  return { child, output: () => text, ended };
};

/** In the line by which a server or a worker says that it is ready. */
const READY = /"msg":"Laurel \S+ (the worker )?is ready\b/;

/** A line that a server writes. */
type Line = Record<string, unknown> & { level: string; time: string; msg: string };

/** The lines of a server's output, each of which is one JSON object. @throws SyntaxError for anything else */
export const linesOf = (output: string): Line[] =>
  output
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Line);

/**
 * Starts a server process and waits until it says that it is ready. @throws Error with its output when it
 * ends first
 */
export const startProcess = async (args: readonly string[], env: Record<string, string>): Promise<Laurel> => {
  const started = laurel(args, env);
  const isReady = new Promise<void>((resolve) => {
    const look = () => READY.test(started.output()) && resolve();
    started.child.stdout!.on("data", look);
  });
  await Promise.race([
    isReady,
    started.ended.then((code) => {
      throw new Error(`laurel ${args.join(" ")} ended with ${code}:\n${started.output()}`);
    }),
  ]);
  return started;
};

/** Ends a process the hard way, as a power cut of that process would. */
export const kill = async ({ child, ended }: Laurel): Promise<void> => {
  child.kill("SIGKILL");
  await ended;
};

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

/** A process that is started again at once whenever it has ended. */
export type Supervised = {
  /** How often it has ended. */
  deaths(): number;
  /** Ends the process the hard way; another one is started. */
  kill(): Promise<void>;
  stop(): Promise<void>;
};

/** Starts a process, and starts it again whenever it ends. */
export const supervise = (args: readonly string[], env: Record<string, string>): Supervised => {
  let deaths = 0;
  let isOver = false;
  let current: Laurel = laurel(args, env);
  const run = (async () => {
    for (;;) {
      await current.ended;
      if (isOver) return;
      deaths++;
      current = laurel(args, env);
    }
  })();
  return {
    deaths: () => deaths,
    kill: () => kill(current),
    stop: async () => {
      isOver = true;
      await kill(current);
      await run;
    },
  };
};
