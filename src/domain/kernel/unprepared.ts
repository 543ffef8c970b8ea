import type { Transact } from "./work.ts";

/**
 * Thrown in a transaction that needs what takes too long to be made while it holds its locks. The transaction
 * is undone, `prepare` is awaited, and it is run again.
 */
export abstract class Unprepared extends Error {
  /**
   * Makes what was missing, outside of any transaction: what was asked for this time is not asked for again.
   * @param transact for short transactions that read
   */
  abstract prepare(transact: Transact): Promise<void>;
}
