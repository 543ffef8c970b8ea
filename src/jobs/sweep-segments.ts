import { queueSegmentRefreshes, sweepSegments } from "../domain/economy/segments/sweeps.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import type { Job } from "./job.ts";

/** Updates dynamic segments where no event of a player does: new definitions, and passing time. */
export const sweepDynamicSegments: Job = {
  timeouts: STEP,
  concurrency: 1,
  everyMs: 2_000,
  run: async (app) => {
    await app.transact(queueSegmentRefreshes);
    while (await app.transact(sweepSegments)) await app.limits.pause?.();
  },
};
