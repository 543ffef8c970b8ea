import type { App } from "../app.ts";

/**
 * A job is a hint to look at `key`; the work itself is rows. Losing every hint costs only latency, because
 * `everyMs` looks again, and every run may happen twice.
 */
export type Job = {
  name: string;
  /** Runs at the same time in one process; runs for one key never overlap in one process. */
  concurrency: number;
  /**
   * When set, the job also runs at the start and on this interval, with the key `*`, in every worker process.
   */
  everyMs?: number;
  /**
   * When set, a process that runs the job wakes itself and asks no other: what it has committed is at hand.
   */
  staysHere?: true;
  run(app: App, key: string): Promise<void>;
  /** When the process stops, after the last run of every job. */
  atStop?(app: App): Promise<void>;
};

/** The doorbell. `wake` coalesces: many wakes of one key while it runs become one more run. */
export type Queue = {
  wake(job: string, key: string): void;
  /** As `wake`, but always in this process. */
  wakeHere(job: string, key: string): void;
  start(app: App, jobs: readonly Job[]): Promise<void>;
  /** Takes no new work and waits for the work in hand. */
  close(): Promise<void>;
};
