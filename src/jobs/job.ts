import type { RawBuilder } from "kysely";
import type { App } from "../app.ts";
import type { Timeouts } from "../domain/kernel/timeouts.ts";

/**
 * How often jobs that `isDue` finds also run without it, in ms: a condition that misses something delays it.
 */
export const UNASKED_MS = 30_000;

/**
 * A job is a hint to check `key`; the work itself is rows. Losing every hint costs only latency, because
 * `everyMs` checks again, and every run may happen twice.
 */
export type Job = JobParts & { run(app: App, key: string): Promise<void> };

type JobParts = {
  /** Time limits of its statements and transactions; absent: those of BATCH. */
  timeouts?: Timeouts;
  /** Concurrent runs in one process; runs for one key never overlap in one process. */
  concurrency: number;
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
 * A job whose keys are cheaper together. A run receives all waiting keys, and returns those that must run
 * again.
 */
export type JobTogether = JobParts & {
  runTogether(app: App, keys: readonly string[], held: HeldKeys): Promise<readonly string[]>;
};

export type AnyJob = Job | JobTogether;
