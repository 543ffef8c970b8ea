import {
  areSegmentsDue,
  CHANGES_AT_ONCE,
  queueSegmentRefreshes,
  sweepSegments,
} from "../domain/economy/segments/sweeps.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import { type Job, UNASKED_MS } from "./job.ts";

/** Updates dynamic segments where no event of a player does: new definitions, and passing time. */
export const sweepDynamicSegments: Job = {
  timeouts: STEP,
  concurrency: 1,
  everyMs: UNASKED_MS,
  isDue: areSegmentsDue,
  run: async (app) => {
    while ((await app.transact(queueSegmentRefreshes)) === CHANGES_AT_ONCE) await app.limits.pause?.();
    while (await app.transact(sweepSegments)) await app.limits.pause?.();
  },
};
