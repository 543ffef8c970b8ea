import type { App } from "../app.ts";
import { JobSteps } from "../domain/registries/jobs/step-job.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import type { Job } from "./job.ts";

const stepsOf = ({ transact, log }: App): JobSteps =>
  new JobSteps({ transact, onError: (err, jobId) => log.error({ err, jobId }, "a job's step failed") });

/** Performs steps of projects' long-running work until none is due. */
export const createProjectJobs = (): Job => {
  let steps: JobSteps | undefined;
  return {
    name: "project-jobs",
    timeouts: STEP,
    concurrency: 1,
    everyMs: 1_000,
    run: async (app) => {
      steps ??= stepsOf(app);
      while (await steps.step()) await app.limits.pause?.();
    },
  };
};
