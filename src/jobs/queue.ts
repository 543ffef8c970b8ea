import Bull from "bull";
import type { Logger } from "pino";
import type { Queue } from "./job.ts";
import { type Runners, startRunners } from "./runner.ts";

/**
 * A wake for a key that was sent less than this ago is held back until then, in ms: the row it announces is
 * seen anyway.
 */
const WAKE_GAP_MS = 50;

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
  const send = (job: string, key: string): void => {
    if (isClosed) return;
    queueOf(job)
      .add({ key })
      .catch((err: unknown) =>
        log.warn({ err, job, jobKey: key }, "wake lost; the sweep will find the rows"),
      );
  };
  const sendSpaced = spaced(send);
  return {
    wake: (job, key) => (local.has(job) ? runners?.push(job, key) : sendSpaced(job, key)),
    wakeHere: (job, key) => runners?.push(job, key),
    start: async (app, jobs) => {
      runners = startRunners(app, jobs);
      for (const { name, staysHere } of jobs) {
        if (staysHere) local.add(name);
        const push = async (job: Bull.Job<{ key: string }>) => runners?.push(name, job.data.key);
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

/** The first wake of a key goes at once; those that follow within the gap become one at its end. */
const spaced = (send: Wake): Wake => {
  const held = new Map<string, { isWanted: boolean }>();
  return (job, key) => {
    const id = `${job} ${key}`;
    const known = held.get(id);
    if (known) {
      known.isWanted = true;
      return;
    }
    const state = { isWanted: false };
    held.set(id, state);
    send(job, key);
    setTimeout(() => {
      held.delete(id);
      if (state.isWanted) send(job, key);
    }, WAKE_GAP_MS).unref();
  };
};
