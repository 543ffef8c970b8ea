import type { App } from "../app.ts";
import type { Job } from "./job.ts";

/** The key of interval runs. */
export const EVERY_KEY = "*";

/**
 * Runs one job's keys: a key never runs twice at once, and wakes that come during its run become one more
 * run, so no wake is lost.
 */
class Runner {
  readonly #concurrency: number;
  readonly #run: (key: string) => Promise<void>;
  readonly #active = new Set<string>();
  readonly #again = new Set<string>();
  readonly #waiting = new Set<string>();
  #isClosed = false;
  #idle: (() => void)[] = [];

  constructor(concurrency: number, run: (key: string) => Promise<void>) {
    this.#concurrency = concurrency;
    this.#run = run;
  }

  push(key: string): void {
    if (this.#isClosed) return;
    if (this.#active.has(key)) this.#again.add(key);
    else this.#waiting.add(key);
    this.#pump();
  }

  #pump(): void {
    for (const key of this.#waiting) {
      if (this.#active.size >= this.#concurrency) return;
      this.#waiting.delete(key);
      this.#active.add(key);
      // A macrotask between runs: an engine that answers in microtasks would starve the sockets.
      setImmediate(() => void this.#run(key).finally(() => this.#finish(key)));
    }
  }

  #finish(key: string): void {
    this.#active.delete(key);
    if (this.#again.delete(key) && !this.#isClosed) this.#waiting.add(key);
    this.#pump();
    if (this.#active.size === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#waiting.clear();
    if (this.#active.size > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }
}

/** The runners of a process's jobs, by name, and their intervals. */
export type Runners = { push(job: string, key: string): void; close(): Promise<void> };

/**
 * Starts the jobs in this process. Those with an interval run at once and then on it: in every process, since
 * a sweep is cheap and may happen twice, and a sweep that hung on one process or on Redis would be missed
 * when it is needed.
 */
export const startRunners = (app: App, jobs: readonly Job[]): Runners => {
  const runners = new Map(
    jobs.map((job) => [job.name, new Runner(job.concurrency, (key) => runJob(app, job, key))]),
  );
  const push = (job: string, key: string) => runners.get(job)?.push(key);
  const timers = jobs.flatMap(({ name, everyMs }) => {
    if (everyMs === undefined) return [];
    push(name, EVERY_KEY);
    return [setInterval(() => push(name, EVERY_KEY), everyMs).unref()];
  });
  return {
    push,
    close: async () => {
      for (const timer of timers) clearInterval(timer);
      await Promise.all([...runners.values()].map((runner) => runner.close()));
      await Promise.all(jobs.map((job) => stopJob(app, job)));
    },
  };
};

const stopJob = async (app: App, job: Job): Promise<void> => {
  try {
    await job.atStop?.(app);
  } catch (err) {
    app.log.error({ err, job: job.name }, "job could not be finished");
  }
};

const runJob = async (app: App, job: Job, key: string): Promise<void> => {
  try {
    await job.run(app, key);
  } catch (err) {
    app.log.error({ err, job: job.name, jobKey: key }, "job failed; its rows wait for the next sweep");
  }
};
