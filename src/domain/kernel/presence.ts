import { AsyncLocalStorage } from "node:async_hooks";

const asked = new AsyncLocalStorage<AbortSignal>();

/**
 * Runs `run`, whose statements nobody wants any more once `signal` is aborted: the database then ends them,
 * and undoes what their transaction has done. For what only reads, and takes long.
 */
export const whileWanted = <T>(signal: AbortSignal, run: () => T): T => asked.run(signal, run);

/** What is aborted when nobody wants what is done here; undefined where it is done in any case. */
export const wantedUntil = (): AbortSignal | undefined => asked.getStore();
