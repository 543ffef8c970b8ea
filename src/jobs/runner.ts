import { AsyncLocalStorage } from "node:async_hooks";
import type { App } from "../app.ts";
import type { AnyJob, HeldKeys } from "./job.ts";

/** The key of interval runs. */
export const EVERY_KEY = "*";

/** @returns the keys to run again */
type Run = (keys: readonly string[], held: HeldKeys) => Promise<readonly string[]>;

/**
 * Runs one job's keys: a key is in one run at once, and wakes that come during its run become one more run,
 * so no wake is lost.
 */
class Runner {
  readonly #concurrency: number;
  /** Waiting keys that one run takes. */
  readonly #atOnce: number;
  readonly #run: Run;
  /** Runs begin outside of the context that woke them: it may be that of a transaction. */
  readonly #outside = AsyncLocalStorage.snapshot();
  readonly #active = new Set<string>();
  readonly #again = new Set<string>();
  readonly #waiting = new Set<string>();
  #runs = 0;
  #isPumping = false;
  #isClosed = false;
  #idle: (() => void)[] = [];

  constructor(concurrency: number, atOnce: number, run: Run) {
    this.#concurrency = concurrency;
    this.#atOnce = atOnce;
    this.#run = run;
  }

  push(key: string): void {
    if (this.#isClosed) return;
    if (this.#active.has(key)) this.#again.add(key);
    else this.#waiting.add(key);
    this.#pumpSoon();
  }

  /**
   * A macrotask between runs: keys that are pushed together are run together, and an engine that answers in
   * microtasks would starve the sockets.
   */
  #pumpSoon(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    this.#outside(() => {
      setImmediate(() => {
        this.#isPumping = false;
        this.#pump();
      });
    });
  }

  #pump(): void {
    while (this.#runs < this.#concurrency && this.#waiting.size > 0) {
      const keys = [...this.#waiting].slice(0, this.#atOnce);
      for (const key of keys) {
        this.#waiting.delete(key);
        this.#active.add(key);
      }
      this.#runs++;
      void this.#take(new Set(keys));
    }
    this.#tellIdle();
  }

  async #take(held: Set<string>): Promise<void> {
    const giveBack = (keys: Iterable<string>, isWanted: boolean): void => {
      for (const key of keys) {
        if (!held.delete(key)) continue;
        this.#active.delete(key);
        const isWoken = this.#again.delete(key);
        if ((isWanted || isWoken) && !this.#isClosed) this.#waiting.add(key);
      }
      this.#pumpSoon();
    };
    const again = await this.#run([...held], {
      leave: (keys) => giveBack(keys, true),
      done: (keys) => giveBack(keys, false),
    });
    this.#runs--;
    giveBack(again, true);
    giveBack([...held], false);
  }

  #tellIdle(): void {
    if (this.#runs === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#waiting.clear();
    if (this.#runs > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }
}

/** The runners of a process's jobs, by name, and their intervals. */
export type Runners = { push(job: string, key: string): void; close(): Promise<void> };

/**
 * Starts the jobs in this process. Those with an interval run at once and then on it: in every process, since
 * a sweep is cheap and may happen twice, and a sweep that hung on one process or on Redis would be missed
 * when it is needed.
 */
export const startRunners = (app: App, jobs: readonly AnyJob[]): Runners => {
  const runners = new Map(
    jobs.map((job) => {
      const atOnce = "runTogether" in job ? Infinity : 1;
      return [job.name, new Runner(job.concurrency, atOnce, (...of) => runJob(app, job, ...of))];
    }),
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

const stopJob = async (app: App, job: AnyJob): Promise<void> => {
  try {
    await job.atStop?.(app);
  } catch (err) {
    app.log.error({ err, job: job.name }, "job could not be finished");
  }
};

const runJob = async (
  app: App,
  job: AnyJob,
  keys: readonly string[],
  held: HeldKeys,
): Promise<readonly string[]> => {
  try {
    if ("runTogether" in job) return await job.runTogether(app, keys, held);
    for (const key of keys) await job.run(app, key);
  } catch (err) {
    app.log.error({ err, job: job.name, jobKeys: keys }, "job failed; its rows wait for the next sweep");
  }
  return [];
};
