import { stepJob } from "../domain/registries/jobs/step-job.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import type { Job } from "./job.ts";

/** Does the steps of projects' long work until none is due. */
export const projectJobs: Job = {
  name: "project-jobs",
  timeouts: STEP,
  concurrency: 1,
  everyMs: 1_000,
  run: async (app) => {
    const onError = (err: unknown, jobId: string): void =>
      app.log.error({ err, jobId }, "a job's step failed");
    while (await stepJob(app.transact, onError)) await app.limits.pause?.();
  },
};
