import { setTimeout as delay } from "node:timers/promises";
import type Bull from "bull";
import type { Logger } from "pino";
import { grouped } from "../domain/kernel/flights.ts";

/**
 * Jobs that one process may wake in another, each through a queue of this name in Redis, which processes of
 * other versions read. The connection of a queue costs a little also when nothing happens.
 */
const QUEUED_JOBS = [
  "process-events",
  "relay-outbox",
  "send-mail",
  "project-jobs",
  "deliver-webhooks",
] as const;
export type QueuedJobName = (typeof QUEUED_JOBS)[number];

/** Jobs that are woken by their names: `createJobs` has one for each, and others that run by themselves. */
export type JobName = QueuedJobName | "relay-backlogs";

/** The runners of a process's jobs, by name, and their intervals. */
export type Runners = {
  jobs: readonly { name: string; staysHere?: true }[];
  push(job: string, key: string): void;
  close(): Promise<void>;
};

/**
 * Wakes jobs by key. `wake` coalesces: many wakes of one key while it runs become one more run.
 */
export type Queue = {
  wake(job: QueuedJobName, key: string): void;
  /** As `wake`, but always in this process, and for any job. */
  wakeHere(job: JobName, key: string): void;
  /** Makes the runners of this process take the keys of their jobs. */
  start(runners: Runners): Promise<void>;
  /** Takes no new work and waits for the work in progress. */
  close(): Promise<void>;
};

/**
 * Minimum interval between two batches of wakes, in ms; the first goes out at once. A message's cost does not
 * depend on its number of keys, and events that arrive meanwhile become one batch.
 */
const WAKE_GAP_MS = 15;

/** Creates the queue of a single process: wakes go straight to the runners. */
export const createLocalQueue = (): Queue => {
  let runners: Runners | undefined;
  const wake = (job: JobName, key: string): void => runners?.push(job, key);
  return {
    wake,
    wakeHere: wake,
    start: async (started) => {
      runners = started;
    },
    close: async () => runners?.close(),
  };
};

type BullClient = ReturnType<NonNullable<Bull.QueueOptions["createClient"]>>;

type BullOptions = {
  /** Opens connections to Redis; those whose commands block do so for `blockSeconds` at most. */
  connections: {
    open(): BullClient;
    openBlocking(): BullClient;
    blockSeconds: number;
    warn(err: unknown, message: string): void;
  };
  prefix: string;
  log: Logger;
};

/** Delay before a queue polls Redis again after an error, in ms. */
const ASK_AGAIN_MS = 1_000;
/** Time limit for closing a queue, whether or not Redis answers, in ms. */
const CLOSE_MAX_MS = 2_000;

/**
 * Creates the queue for several processes. A Bull job is acknowledged as soon as its key has reached a
 * runner: the rows are the work, and the sweep finds them again when the process dies.
 */
export const createBullQueue = async (options: BullOptions): Promise<Queue> => {
  const { connections, log } = options;
  const { queueOf, closeQueues } = bullQueues((await import("bull")).default, options);
  let runners: Runners | undefined;
  const local = new Set<QueuedJobName>();
  let isClosed = false;

  const send = (job: QueuedJobName, keys: readonly string[]): void => {
    if (isClosed) return;
    queueOf(job)
      .add({ keys })
      .catch((err: unknown) => connections.warn(err, "wake lost; the sweep will find the rows"));
  };
  /** Keys of one event-loop iteration go together, then those of the gap after it, and so on. */
  const sendTogether = grouped<{ job: QueuedJobName; key: string }, void>({
    keyOf: ({ job }) => job,
    runMax: Infinity,
    everyMs: WAKE_GAP_MS,
    run: async (woken) => {
      send(woken[0]!.job, [...new Set(woken.map(({ key }) => key))]);
      return [];
    },
  });
  return {
    wake: (job, key) => void (local.has(job) ? runners?.push(job, key) : sendTogether({ job, key })),
    wakeHere: (job, key) => runners?.push(job, key),
    start: async (started) => {
      runners = started;
      for (const name of QUEUED_JOBS) {
        const run = started.jobs.find((job) => job.name === name);
        if (!run) continue;
        if (run.staysHere) local.add(name);
        const push = async (job: Bull.Job<{ keys?: readonly string[] }>) => {
          // Without keys the job is from a process of an older version, whose rows the sweep finds.
          for (const key of job.data.keys ?? []) runners?.push(name, key);
        };
        // Settles only when the queue is closed; failures before that reach the queue's error event.
        queueOf(name)
          .process(1, push)
          .catch((err: unknown) => log.error({ err, queue: name }, "queue stopped"));
      }
    },
    close: async () => {
      isClosed = true;
      await closeQueues();
      await runners?.close();
    },
  };
};

/** Bull's queues by name, each created on demand. */
const bullQueues = (Library: typeof Bull, { connections, prefix }: BullOptions) => {
  const queues = new Map<QueuedJobName, Bull.Queue>();
  const clients: BullClient[] = [];
  const shared = new Map<string, BullClient>();

  /** All queues send over one connection, and listen on another; each blocks on one of its own. */
  const createClient = (type: string): BullClient => {
    const known = shared.get(type);
    if (known) return known;
    const client = type === "client" ? connections.open() : connections.openBlocking();
    client.setMaxListeners(0);
    clients.push(client);
    if (type !== "bclient") shared.set(type, client);
    return client;
  };
  const queueOf = (name: QueuedJobName): Bull.Queue => {
    const known = queues.get(name);
    if (known) return known;
    const queue = new Library(name, {
      prefix,
      createClient,
      defaultJobOptions: { removeOnComplete: true, removeOnFail: true },
      settings: { drainDelay: connections.blockSeconds, retryProcessDelay: ASK_AGAIN_MS },
    });
    queue.on("error", (err) => connections.warn(err, "queue: Redis does not answer"));
    queues.set(name, queue);
    return queue;
  };
  const closeQueues = async (): Promise<void> => {
    const closed = Promise.allSettled([...queues.values()].map((queue) => queue.close(true)));
    await Promise.race([closed, delay(CLOSE_MAX_MS, undefined, { ref: false })]);
    for (const client of clients) client.disconnect();
  };
  return { queueOf, closeQueues };
};
