import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as delay } from "node:timers/promises";
import type { RawBuilder } from "kysely";
import type { App } from "../app.ts";
import { outageOf, throwOutage } from "../domain/kernel/outages.ts";
import { BATCH, type Timeouts, withTimeouts } from "../domain/kernel/timeouts.ts";
import type { Runners } from "./queue.ts";
import type { Logger } from "pino";

/** The pause after the first outage and the longest one, in ms: work resumes within it after the outage. */
const FIRST_MS = 100;
const LONGEST_MS = 1_000;
/** How often a lasting outage is logged, in ms. */
const LOG_EVERY_MS = 30_000;

/**
 * Backs off a job during an outage: each pause is twice as long as the one before, up to a second. Logs the
 * first outage, one line for each half minute after it, and its end.
 */
export class OutageBackoff {
  readonly #log: Pick<Logger, "info" | "warn">;
  readonly #job: string;
  #inRow = 0;
  #nextMs = FIRST_MS;
  #loggedAtMs = -Infinity;

  constructor(log: Pick<Logger, "info" | "warn">, job: string) {
    this.#log = log;
    this.#job = job;
  }

  /** Records another outage. @returns how long to wait, in ms */
  next(err: unknown): number {
    this.#inRow++;
    if (performance.now() - this.#loggedAtMs >= LOG_EVERY_MS) {
      this.#loggedAtMs = performance.now();
      const what = { err, job: this.#job, inRow: this.#inRow };
      this.#log.warn(what, "a job waits: what it needs does not work; its rows stay as they are");
    }
    const pauseMs = this.#nextMs;
    this.#nextMs = Math.min(LONGEST_MS, pauseMs * 2);
    return pauseMs;
  }

  /** Records the end of the outage. */
  over(): void {
    if (this.#inRow === 0) return;
    this.#log.info({ job: this.#job, inRow: this.#inRow }, "a job goes on");
    this.#inRow = 0;
    this.#nextMs = FIRST_MS;
  }
}

/**
 * How often jobs that `isDue` finds also run without it, in ms, unless they say: a condition that misses
 * something delays it.
 */
const UNASKED_MS = 30_000;

/**
 * A job is a hint to check `key`; the work itself is rows. Losing every hint costs only latency, because
 * `everyMs` checks again, and every run may happen twice.
 */
export type Job = JobParts & { run(app: App, key: string): Promise<void> };

type JobParts = {
  /** Time limits of its statements and transactions; absent: those of BATCH. */
  timeouts?: Timeouts;
  /** Concurrent runs in one process, 1 by default; runs for one key never overlap in one process. */
  concurrency?: number;
  /**
   * When set, the job also runs at the start and on this interval, with the key `*`, in every worker process.
   */
  everyMs?: number;
  /**
   * When set, the job also runs, with the key `*`, within a second of this SQL condition becoming true. The
   * conditions of all jobs are one statement, so that a server without work costs next to nothing.
   */
  isDue?(at: Date): RawBuilder<unknown>;
  /** When set, a process that runs the job wakes itself and no other: what it has committed is local. */
  staysHere?: true;
  /** Called when the process begins to stop, where a run may take long: it ends early. */
  stop?(): void;
  /** Runs when the process stops, after the last run of the job, and of others that end soon. */
  atStop?(app: App): Promise<void>;
};

/** Operations on the keys that a run holds before it ends, so that they need not wait for the others. */
export type HeldKeys = {
  /** Passes keys to another run at once. */
  leave(keys: readonly string[]): void;
  /** Releases keys whose work is done. */
  done(keys: readonly string[]): void;
};

/**
 * A job whose keys are cheaper together. A run receives all waiting keys, or all that were woken, and returns
 * those that must run again.
 */
export type JobTogether = JobParts & {
  runTogether(
    app: App,
    keys: readonly string[],
    held: HeldKeys,
    isWoken: boolean,
  ): Promise<readonly string[]>;
};

export type AnyJob = Job | JobTogether;

type NamedJob = AnyJob & { name: string };

/** How long what jobs do at the stop waits for the runs of other jobs, in ms: one of them may hang. */
const OTHERS_MS = 10_000;

/** Does something for one of many: what fails is logged, and keeps no other waiting. @throws an outage */
export const isolated = async <T>(
  { log }: Pick<App, "log">,
  of: object,
  message: string,
  run: () => Promise<T>,
): Promise<T | undefined> => {
  try {
    return await run();
  } catch (err) {
    throwOutage(err);
    log.error({ err, ...of }, message);
    return undefined;
  }
};

/** The key of interval runs. */
export const EVERY_KEY = "*";

/** `again`: the keys to run again, after `pauseMs`. */
type RunResult = { again: readonly string[]; pauseMs: number };
type Run = (keys: readonly string[], held: HeldKeys, isWoken: boolean) => Promise<RunResult>;

/**
 * Runs one job's keys: a key is in one run at a time, and wakes during its run become one more run, so no
 * wake is lost.
 */
class Runner {
  readonly #concurrency: number;
  /** Maximum number of waiting keys per run. */
  readonly #atOnce: number;
  readonly #run: Run;
  /** Runs begin outside the async context that woke them: it may be that of a transaction. */
  readonly #outside = AsyncLocalStorage.snapshot();
  readonly #active = new Set<string>();
  readonly #again = new Set<string>();
  /** Keys that were woken since they last ran; where keys run together, these have a run of their own. */
  readonly #woken = new Set<string>();
  /** Keys that a run has given back. */
  readonly #waiting = new Set<string>();
  #runs = 0;
  #pause: NodeJS.Timeout | undefined;
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
    else this.#woken.add(key);
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
    for (let from = this.#next(); from && from.size > 0; from = this.#next()) {
      const keys = [...from].slice(0, this.#atOnce);
      const woken = new Set(keys.filter((key) => this.#woken.delete(key)));
      for (const key of keys) {
        this.#waiting.delete(key);
        this.#active.add(key);
      }
      this.#runs++;
      void this.#take(new Set(keys), woken);
    }
    this.#notifyIdle();
  }

  /** The keys of which the next run takes some; undefined where there is none now. */
  #next(): Set<string> | undefined {
    if (this.#pause !== undefined) return undefined;
    if (this.#runs < this.#concurrency) return this.#waiting.size > 0 ? this.#waiting : this.#woken;
    return this.#runs === this.#concurrency && this.#atOnce === Infinity ? this.#woken : undefined;
  }

  /** @param woken those of the keys that were woken, which they still are if the run leaves them */
  async #take(held: Set<string>, woken: ReadonlySet<string>): Promise<void> {
    const giveBack = (keys: Iterable<string>, to: (key: string) => Set<string> | undefined): void => {
      for (const key of keys) {
        if (!held.delete(key)) continue;
        this.#active.delete(key);
        const isWoken = this.#again.delete(key);
        if (!this.#isClosed) (isWoken ? this.#woken : to(key))?.add(key);
      }
      this.#pumpSoon();
    };
    const nowhere = (): undefined => undefined;
    const { again, pauseMs } = await this.#run(
      [...held],
      {
        leave: (keys) => giveBack(keys, (key) => (woken.has(key) ? this.#woken : this.#waiting)),
        done: (keys) => giveBack(keys, nowhere),
      },
      woken.size === held.size,
    );
    this.#runs--;
    if (pauseMs > 0) this.#pauseFor(pauseMs);
    giveBack(again, () => this.#waiting);
    giveBack([...held], nowhere);
  }

  #pauseFor(ms: number): void {
    clearTimeout(this.#pause);
    this.#pause = setTimeout(() => {
      this.#pause = undefined;
      this.#pumpSoon();
    }, ms).unref();
  }

  #notifyIdle(): void {
    if (this.#runs === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const keys of [this.#woken, this.#waiting]) keys.clear();
    clearTimeout(this.#pause);
    if (this.#runs > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }
}

/**
 * Starts the jobs in this process. Those with an interval run at once and then periodically: in every
 * process, since a sweep is cheap and may happen twice, and a sweep that depended on one process or on Redis
 * would be missed when it is needed.
 */
export const startRunners = (
  app: App,
  byName: Readonly<Record<string, AnyJob>>,
  othersMs = OTHERS_MS,
): Runners => {
  const jobs = Object.entries(byName).map(([name, job]) => ({ ...job, name }));
  const runners = new Map(
    jobs.map((job) => {
      const atOnce = "runTogether" in job ? Infinity : 1;
      const backoff = new OutageBackoff(app.log, job.name);
      return [
        job.name,
        new Runner(job.concurrency ?? 1, atOnce, (...of) => runJob(app, job, backoff, ...of)),
      ];
    }),
  );
  const push = (job: string, key: string) => runners.get(job)?.push(key);
  const timers = jobs.flatMap(({ name, isDue, everyMs = isDue && UNASKED_MS }) => {
    if (everyMs === undefined) return [];
    push(name, EVERY_KEY);
    return [setInterval(() => push(name, EVERY_KEY), everyMs).unref()];
  });
  return {
    jobs,
    push,
    close: async () => {
      for (const timer of timers) clearInterval(timer);
      for (const job of jobs) job.stop?.();
      const closed = new Map([...runners].map(([name, runner]) => [name, runner.close()]));
      const others = Promise.race([Promise.all(closed.values()), delay(othersMs, undefined, { ref: false })]);
      const stop = async (job: NamedJob): Promise<void> => {
        await Promise.all([closed.get(job.name), others]);
        await stopJob(app, job);
      };
      await Promise.all(jobs.map(stop));
    },
  };
};

const stopJob = async (app: App, job: NamedJob): Promise<void> => {
  try {
    await job.atStop?.(app);
  } catch (err) {
    app.log.error({ err, job: job.name }, "job could not be finished");
  }
};

const runJob = (
  app: App,
  job: NamedJob,
  backoff: OutageBackoff,
  ...of: Parameters<Run>
): Promise<RunResult> =>
  withTimeouts(job.timeouts ?? BATCH, async () => {
    try {
      const again = await runKeys(app, job, ...of);
      backoff.over();
      return { again, pauseMs: 0 };
    } catch (err) {
      if (outageOf(err) !== undefined) return { again: of[0], pauseMs: backoff.next(err) };
      app.log.error({ err, job: job.name, jobKeys: of[0] }, "job failed; its rows wait for the next sweep");
      return { again: [], pauseMs: 0 };
    }
  });

const runKeys = async (
  app: App,
  job: AnyJob,
  ...[keys, held, isWoken]: Parameters<Run>
): Promise<readonly string[]> => {
  if ("runTogether" in job) return job.runTogether(app, keys, held, isWoken);
  for (const key of keys) await job.run(app, key);
  return [];
};
