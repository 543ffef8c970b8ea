import Bull from "bull";
import type { Logger } from "pino";
import type { App } from "../app.ts";
import type { Job, Queue } from "./job.ts";

/** The key of interval runs. */
export const EVERY_KEY = "*";

/** A wake for a key that was sent less than this ago is held back until then, in ms: the row it announces is seen anyway. */
const WAKE_GAP_MS = 20;

/**
 * Runs one job's keys: a key never runs twice at once, and wakes that come during its run become one more run, so no wake
 * is lost.
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

const runnersOf = (app: App, jobs: readonly Job[]): Map<string, Runner> =>
  new Map(
    jobs.map((job) => [
      job.name,
      new Runner(job.concurrency, async (key) => {
        try {
          await job.run(app, key);
        } catch (error) {
          app.log.error(
            { err: error, job: job.name, jobKey: key },
            "job failed; its rows wait for the next sweep",
          );
        }
      }),
    ]),
  );

/** The queue of a single process: wakes go straight to the runners. */
export const createLocalQueue = (): Queue => {
  let runners = new Map<string, Runner>();
  const timers: NodeJS.Timeout[] = [];
  return {
    wake: (job, key) => runners.get(job)?.push(key),
    start: async (app, jobs) => {
      runners = runnersOf(app, jobs);
      for (const { name, everyMs } of jobs) {
        if (everyMs === undefined) continue;
        runners.get(name)!.push(EVERY_KEY);
        timers.push(setInterval(() => runners.get(name)?.push(EVERY_KEY), everyMs).unref());
      }
    },
    close: async () => {
      for (const timer of timers) clearInterval(timer);
      await Promise.all([...runners.values()].map((runner) => runner.close()));
    },
  };
};

export type BullOptions = { redisUrl: string; prefix: string; log: Logger };

/**
 * The queue over processes. A Bull job is acknowledged as soon as its key has reached a runner: the rows are the work,
 * and the sweep finds them again when the process dies.
 */
export const createBullQueue = ({ redisUrl, prefix, log }: BullOptions): Queue => {
  const queues = new Map<string, Bull.Queue>();
  let runners = new Map<string, Runner>();
  const held = new Map<string, NodeJS.Timeout | undefined>();
  let isClosed = false;

  const queueOf = (name: string): Bull.Queue => {
    const known = queues.get(name);
    if (known) return known;
    const options = { removeOnComplete: true, removeOnFail: true };
    const queue = new Bull(name, redisUrl, { prefix, defaultJobOptions: options });
    queue.on("error", (error) => log.warn({ err: error, queue: name }, "queue: Redis does not answer"));
    queues.set(name, queue);
    return queue;
  };
  const add = (job: string, key: string): void => {
    if (isClosed) return;
    queueOf(job)
      .add({ key })
      .catch((error: unknown) =>
        log.warn({ err: error, job, jobKey: key }, "wake lost; the sweep will find the rows"),
      );
  };
  /** The first wake goes at once; those that follow within the gap become one at its end. */
  const wake = (job: string, key: string): void => {
    const id = `${job} ${key}`;
    if (held.has(id)) {
      held.set(id, held.get(id) ?? setTimeout(() => (held.delete(id), wake(job, key)), WAKE_GAP_MS));
      return;
    }
    held.set(id, undefined);
    setTimeout(() => held.get(id) === undefined && held.delete(id), WAKE_GAP_MS).unref();
    add(job, key);
  };
  return {
    wake,
    start: async (app, jobs) => {
      runners = runnersOf(app, jobs);
      for (const { name, everyMs } of jobs) {
        const queue = queueOf(name);
        // Never settles while the queue lives; a failure reaches the queue's error event.
        void queue.process(1, async (job) => runners.get(name)!.push((job.data as { key: string }).key));
        if (everyMs !== undefined) await queue.add({ key: EVERY_KEY }, { repeat: { every: everyMs } });
      }
    },
    close: async () => {
      isClosed = true;
      for (const timer of held.values()) clearTimeout(timer);
      await Promise.all([...queues.values()].map((queue) => queue.close(true)));
      await Promise.all([...runners.values()].map((runner) => runner.close()));
    },
  };
};
