import { ensurePartitions } from "../domain/registries/partitions.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import type { Job } from "./job.ts";

/** Creates the partitions of large tables ahead of time. */
export const partitions: Job = {
  timeouts: STEP,
  concurrency: 1,
  everyMs: 3_600_000,
  run: (app) => app.transact(ensurePartitions),
};
