import type { Job } from "./job.ts";

/** Maintains a database without autovacuum. */
export const maintain: Job = {
  concurrency: 1,
  everyMs: 600_000,
  run: (app) => app.maintain(),
};
