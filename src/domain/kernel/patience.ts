import { AsyncLocalStorage } from "node:async_hooks";

/**
 * How long work on the database may take. PostgreSQL ends what takes longer; the client ends the socket of a
 * statement that PostgreSQL should have ended and that is still not answered.
 */
export type Patience = {
  /** One statement, its waits for locks included, in ms. */
  statementMs: number;
  /** One wait for a lock, in ms. */
  lockMs: number;
  /**
   * A transaction may stand still between two statements for so long, in ms. A process that hangs in one
   * holds its locks no longer, and can commit nothing when it wakes.
   */
  idleMs: number;
};

/** Requests, rooms and whatever names nothing else: somebody waits for it, and is told to come back. */
export const WEB: Patience = { statementMs: 5_000, lockMs: 1_500, idleMs: 3_000 };
/** Requests about all definitions of a project, which compute between statements. */
export const WEB_LONG: Patience = { statementMs: 15_000, lockMs: 5_000, idleMs: 20_000 };
/** Jobs of workers: claims of events, the relay, deliveries, sweeps. Nothing of theirs is held for long. */
export const BATCH: Patience = { statementMs: 15_000, lockMs: 5_000, idleMs: 3_000 };
/**
 * Steps of long work, which compute for seconds between statements: exports, erasures, backfills, closings.
 */
export const STEP: Patience = { statementMs: 60_000, lockMs: 10_000, idleMs: 20_000 };
/** What an operator waits for: reconcile and the other commands. */
export const LONG: Patience = { statementMs: 3_600_000, lockMs: 600_000, idleMs: 3_600_000 };
/**
 * Migrations with their lock and their indexes. They rest for no longer than a step: one whose process is
 * gone without a word gives its lock back.
 */
export const MIGRATION: Patience = { statementMs: 3_600_000, lockMs: 600_000, idleMs: 20_000 };

/** Whether a statement may work for so long that a silence of the server says nothing about it. */
export const isOfOperators = (patience: Patience | undefined): boolean =>
  patience === LONG || patience === MIGRATION;

/** Whether somebody waits for an answer, who is told to come back while the database is silent. */
export const isOfRequests = (patience: Patience | undefined): boolean =>
  patience === WEB || patience === WEB_LONG;

const chosen = new AsyncLocalStorage<Patience>();

/** Runs `run`, whose transactions and statements have `patience`. */
export const withPatience = <T>(patience: Patience, run: () => T): T => chosen.run(patience, run);

/** The patience of what runs now; undefined where none was chosen. */
export const chosenPatience = (): Patience | undefined => chosen.getStore();
