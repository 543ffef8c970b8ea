import { ensurePartitions } from "../domain/tracking/partitions.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import type { Job } from "./job.ts";

/** Creates the partitions of tracked events ahead of time. */
export const partitions: Job = {
  name: "partitions",
  timeouts: STEP,
  concurrency: 1,
  everyMs: 3_600_000,
  run: (app) => app.transact(ensurePartitions),
};
