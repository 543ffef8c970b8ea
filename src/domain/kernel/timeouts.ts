import { AsyncLocalStorage } from "node:async_hooks";

const asked = new AsyncLocalStorage<AbortSignal>();

/**
 * Runs `run`, whose statements nobody wants any more once `signal` is aborted: the database then ends them,
 * and undoes what their transaction has done. For what only reads, and takes long.
 */
export const whileWanted = <T>(signal: AbortSignal, run: () => T): T => asked.run(signal, run);

/** What is aborted when nobody wants what is done here; undefined where it is done in any case. */
export const wantedUntil = (): AbortSignal | undefined => asked.getStore();

const usage = (): NodeJS.CpuUsage =>
  // Node below 23.9 only reports the CPU time of all threads, an upper bound.
  "threadCpuUsage" in process ? process.threadCpuUsage() : (process as NodeJS.Process).cpuUsage();

/**
 * Returns the CPU time of this thread, in ms. Unlike elapsed time it excludes other processes and times when
 * the process was stopped.
 */
export const threadCpuMs = (): number => {
  const { user, system } = usage();
  return (user + system) / 1_000;
};

/** Fraction of the idle timeout of transactions above which computation may have caused a timeout. */
const STARVED_SHARE = 0.5;

/**
 * Returns the CPU time of this thread since `threadCpuMs` was `sinceMs`, in ms, if it is so long that
 * PostgreSQL may have ended an idle transaction meanwhile: losing it is then no outage. Includes other work
 * on the thread.
 * @returns undefined where it is shorter
 */
export const starvedMs = (sinceMs: number): number | undefined => {
  const ms = threadCpuMs() - sinceMs;
  return ms < (chosenTimeouts() ?? BATCH).idleMs * STARVED_SHARE ? undefined : ms;
};

/**
 * Timeouts of database work. PostgreSQL ends work that takes longer; the client closes the socket of a
 * statement that PostgreSQL should have ended and that still has no response.
 */
export type Timeouts = {
  /** Of a statement, including its waits for locks, in ms. */
  statementMs: number;
  /** Of a wait for a lock, in ms. */
  lockMs: number;
  /**
   * Of a transaction that is idle between two statements, in ms. A process that hangs in one then holds its
   * locks no longer, and can commit nothing when it resumes.
   */
  idleMs: number;
};

/** Requests, rooms and everything else by default: somebody is waiting and can retry. */
export const WEB: Timeouts = { statementMs: 5_000, lockMs: 1_500, idleMs: 3_000 };
/** Requests about all definitions of a project, which compute between statements. */
export const WEB_LONG: Timeouts = { statementMs: 15_000, lockMs: 5_000, idleMs: 20_000 };
/** Questions of analytics, which read much and change nothing. */
export const ANALYTICS: Timeouts = { statementMs: 30_000, lockMs: 1_500, idleMs: 3_000 };
/** Answers that are read from the database as fast as their client takes them. */
export const STREAM: Timeouts = { statementMs: 60_000, lockMs: 1_500, idleMs: 60_000 };
/** Jobs of workers: claims of events, the relay, deliveries, sweeps. They hold nothing for long. */
export const BATCH: Timeouts = { statementMs: 15_000, lockMs: 5_000, idleMs: 3_000 };
/**
 * Steps of long-running work, which compute for seconds between statements: exports, erasures, backfills,
 * closings.
 */
export const STEP: Timeouts = { statementMs: 60_000, lockMs: 10_000, idleMs: 20_000 };
/** Commands of operators: reconcile and others. */
export const LONG: Timeouts = { statementMs: 3_600_000, lockMs: 600_000, idleMs: 3_600_000 };
/**
 * Migrations with their lock and their indexes. Their idle time is that of a step: if the process dies
 * silently, its lock is released.
 */
export const MIGRATION: Timeouts = { statementMs: 3_600_000, lockMs: 600_000, idleMs: 20_000 };

/** Returns whether statements may run for so long that silence of the server means nothing. */
export const isOfOperators = (timeouts: Timeouts | undefined): boolean =>
  timeouts === LONG || timeouts === MIGRATION;

const chosen = new AsyncLocalStorage<Timeouts>();

/** Runs `run` with these timeouts for its transactions and statements. */
export const withTimeouts = <T>(timeouts: Timeouts, run: () => T): T => chosen.run(timeouts, run);

/** Returns the timeouts of the current context; undefined where none were chosen. */
export const chosenTimeouts = (): Timeouts | undefined => chosen.getStore();
