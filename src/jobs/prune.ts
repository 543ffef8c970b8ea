import { prune, PRUNES } from "../domain/registries/pruning.ts";
import { forgetStopped } from "../domain/analytics/warehouse/stopped.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import type { Job } from "./job.ts";

const HOUR_MS = 3_600_000;
/** Rows per transaction. */
const ROWS_AT_ONCE = 1_000;

/** Deletes expired rows that are no longer needed. */
export const pruneEnded: Job = {
  timeouts: STEP,
  concurrency: 1,
  everyMs: HOUR_MS,
  run: async (app) => {
    for (const one of PRUNES) {
      let deleted: number;
      do {
        deleted = await app.transact((work) => prune(work, one, ROWS_AT_ONCE));
        await app.limits.pause?.();
      } while (deleted === ROWS_AT_ONCE);
    }
    const stopped = { limit: ROWS_AT_ONCE, isOff: !app.warehouse };
    while (await app.transact((work) => forgetStopped(work, stopped))) await app.limits.pause?.();
  },
};
