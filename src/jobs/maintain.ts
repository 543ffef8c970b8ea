import type { Job } from "./job.ts";

/** Looks after a database that has nobody else to do so. */
export const maintain: Job = {
  name: "maintain",
  concurrency: 1,
  everyMs: 600_000,
  run: (app) => app.maintain(),
};
