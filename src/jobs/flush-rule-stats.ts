import { writeStats } from "../domain/progression/write-stats.ts";
import type { App } from "../app.ts";
import type { Job } from "./job.ts";

const FLUSH_MS = 10_000;
/** Rows of one transaction: rules that have been evaluated since the last one. */
const ROWS_AT_ONCE = 500;

/** Writes what has been counted; what could not be written is kept for the next time. */
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

/** Adds what workers have counted of rules to the table. A process that is killed loses up to 10 s of it. */
export const flushRuleStats: Job = {
  name: "flush-rule-stats",
  concurrency: 1,
  everyMs: FLUSH_MS,
  staysHere: true,
  run: flush,
  atStop: flush,
};
