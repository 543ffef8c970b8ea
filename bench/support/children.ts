import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { openSync } from "node:fs";

export type Child = { process: ChildProcess; pid: number; first: unknown; stop(): Promise<void> };

export type ChildOptions = {
  args?: readonly string[];
  env?: Record<string, string>;
  /** Where its output goes; default: nowhere, for a program that says nothing. */
  outputFile?: string;
  execArgv?: readonly string[];
};

const launch = (path: string, options: ChildOptions) => {
  const output = options.outputFile === undefined ? "ignore" : openSync(options.outputFile, "a");
  const child = fork(path, options.args ?? [], {
    env: { PATH: process.env["PATH"] ?? "", ...options.env },
    stdio: ["ignore", output, "inherit", "ipc"],
    execArgv: [...(options.execArgv ?? [])],
  });
  const ended = once(child, "exit");
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
  };
  return { child, ended, stop };
};

/** Starts a program as a process of its own. */
export const spawnChild = (path: string, options: ChildOptions = {}): Child => {
  const { child, stop } = launch(path, options);
  return { process: child, pid: child.pid!, first: undefined, stop };
};

/** As `spawnChild`, and waits for the program's first message, which says that it is ready. */
export const startChild = async (path: string, options: ChildOptions = {}): Promise<Child> => {
  const { child, ended, stop } = launch(path, options);
  const first = await Promise.race([
    once(child, "message").then(([message]: unknown[]) => message),
    ended.then(([code]: unknown[]) => {
      throw new Error(`${path} ended with ${String(code)} before it was ready`);
    }),
  ]);
  return { process: child, pid: child.pid!, first, stop };
};

/** Sends a child a message and waits for the next one from it. */
export const ask = async <T>({ process: child }: Child, message: object): Promise<T> => {
  const over = new AbortController();
  const { signal } = over;
  const answer = once(child, "message", { signal });
  child.send(message);
  try {
    const [value] = (await Promise.race([
      answer,
      once(child, "exit", { signal }).then(() => {
        throw new Error("a child ended instead of answering");
      }),
    ])) as unknown[];
    return value as T;
  } finally {
    over.abort();
  }
};

const file = (name: string): string => new URL(name, import.meta.url).pathname;

export const MAIN = file("../../src/main.ts");
export const supportFile = (name: string): string => file(`./${name}`);
