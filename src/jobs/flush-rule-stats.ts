import { writeStats } from "../domain/progression/write-stats.ts";
import type { App } from "../app.ts";
import type { Job } from "./job.ts";

const FLUSH_MS = 10_000;
/** Rows per transaction: rules that were evaluated since the last one. */
const ROWS_AT_ONCE = 500;

/** Writes what has been counted; rows that could not be written are kept for the next run. */
const flush = async ({ transact, ruleStats: recorder }: App): Promise<void> => {
  const counts = recorder.take();
  while (counts.length > 0) {
    const some = counts.splice(0, ROWS_AT_ONCE);
    try {
      await transact((work) => writeStats(work, some));
    } catch (error) {
      recorder.restore([...some, ...counts]);
      throw error;
    }
  }
};

/**
 * Adds the rule statistics counted by workers to the table. A process that is killed loses up to 10 s of it.
 */
export const flushRuleStats: Job = {
  concurrency: 1,
  everyMs: FLUSH_MS,
  staysHere: true,
  run: flush,
  atStop: flush,
};
