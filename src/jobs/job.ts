import type { App } from "../app.ts";
import type { Timeouts } from "../domain/kernel/timeouts.ts";

/**
 * A job is a hint to look at `key`; the work itself is rows. Losing every hint costs only latency, because
 * `everyMs` looks again, and every run may happen twice.
 */
export type Job = JobParts & { run(app: App, key: string): Promise<void> };

type JobParts = {
  name: string;
  /** How long its statements and transactions may take; absent: as BATCH says. */
  timeouts?: Timeouts;
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
  /** When the process stops, after the last run of every job. */
  atStop?(app: App): Promise<void>;
};

/** What a run may do with keys that it holds before it ends, so that they need not wait for the others. */
export type HeldKeys = {
  /** Gives keys to another run at once. */
  leave(keys: readonly string[]): void;
  /** Lets keys go with which all is done. */
  done(keys: readonly string[]): void;
};

/**
 * A job whose keys cost less together. A run is given all keys that wait, and answers those that are to run
 * again.
 */
export type JobTogether = JobParts & {
  runTogether(app: App, keys: readonly string[], held: HeldKeys): Promise<readonly string[]>;
};

export type AnyJob = Job | JobTogether;
