import type { Transact } from "./work.ts";

/**
 * Thrown in a transaction that needs something that takes too long to prepare while it holds its locks. The
 * transaction is rolled back, `prepare` is awaited, and it is retried.
 */
export abstract class Unprepared extends Error {
  /**
   * Prepares what was missing, outside any transaction; the retry must not need it again.
   * @param transact for short read-only transactions
   */
  abstract prepare(transact: Transact): Promise<void>;
}
