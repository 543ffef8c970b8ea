import Bull from "bull";
import type { Logger } from "pino";
import type { Queue } from "./job.ts";
import { type Runners, startRunners } from "./runner.ts";

/**
 * Wakes go out together, at once, and again after this long at the earliest, in ms: what a message costs does
 * not depend on the keys in it, and events that come meanwhile become one batch.
 */
const WAKE_GAP_MS = 15;

/** The queue of a single process: wakes go straight to the runners. */
export const createLocalQueue = (): Queue => {
  let runners: Runners | undefined;
  const wake = (job: string, key: string): void => runners?.push(job, key);
  return {
    wake,
    wakeHere: wake,
    start: async (app, jobs) => {
      runners = startRunners(app, jobs);
    },
    close: async () => runners?.close(),
  };
};

export type BullOptions = { redisUrl: string; prefix: string; log: Logger };

/**
 * The queue over processes. A Bull job is acknowledged as soon as its key has reached a runner: the rows are
 * the work, and the sweep finds them again when the process dies.
 */
export const createBullQueue = ({ redisUrl, prefix, log }: BullOptions): Queue => {
  const queues = new Map<string, Bull.Queue>();
  let runners: Runners | undefined;
  const local = new Set<string>();
  let isClosed = false;

  const queueOf = (name: string): Bull.Queue => {
    const known = queues.get(name);
    if (known) return known;
    const defaultJobOptions = { removeOnComplete: true, removeOnFail: true };
    const queue = new Bull(name, redisUrl, { prefix, defaultJobOptions });
    queue.on("error", (err) => log.warn({ err, queue: name }, "queue: Redis does not answer"));
    queues.set(name, queue);
    return queue;
  };
  const send = (job: string, keys: readonly string[]): void => {
    if (isClosed) return;
    queueOf(job)
      .add({ keys })
      .catch((err: unknown) =>
        log.warn({ err, job, jobKeys: keys }, "wake lost; the sweep will find the rows"),
      );
  };
  const sendGathered = gathered(send);
  return {
    wake: (job, key) => (local.has(job) ? runners?.push(job, key) : sendGathered(job, key)),
    wakeHere: (job, key) => runners?.push(job, key),
    start: async (app, jobs) => {
      runners = startRunners(app, jobs);
      for (const { name, staysHere } of jobs) {
        if (staysHere) local.add(name);
        const push = async (job: Bull.Job<{ keys?: readonly string[] }>) => {
          // Without keys it is from a process of an older version, whose rows the sweep finds.
          for (const key of job.data.keys ?? []) runners?.push(name, key);
        };
        // Settles only when the queue is closed; a failure on the way reaches the queue's error event.
        queueOf(name)
          .process(1, push)
          .catch((err: unknown) => log.error({ err, queue: name }, "queue stopped"));
      }
    },
    close: async () => {
      isClosed = true;
      await Promise.all([...queues.values()].map((queue) => queue.close(true)));
      await runners?.close();
    },
  };
};

type Wake = (job: string, key: string) => void;
type Send = (job: string, keys: readonly string[]) => void;

/** Gathers the keys of each job: those of one turn go together, then those of the gap after it, and so on. */
const gathered = (send: Send): Wake => {
  const jobs = new Map<string, Set<string>>();
  const sendAll = (job: string): void => {
    const wanted = jobs.get(job)!;
    if (wanted.size === 0) {
      jobs.delete(job);
      return;
    }
    send(job, [...wanted]);
    wanted.clear();
    setTimeout(sendAll, WAKE_GAP_MS, job).unref();
  };
  return (job, key) => {
    const known = jobs.get(job);
    if (known) {
      known.add(key);
      return;
    }
    jobs.set(job, new Set([key]));
    setImmediate(sendAll, job);
  };
};
