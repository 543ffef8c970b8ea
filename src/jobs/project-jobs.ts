import type { App } from "../app.ts";
import { DomainError } from "../domain/kernel/errors.ts";
import { areJobsDue } from "../domain/long-work/job-schedule.ts";
import { JobSteps } from "../domain/long-work/step-job.ts";
import { JOB_KINDS } from "../domain/registries/jobs/kinds.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import { type Job, UNASKED_MS } from "./job.ts";

const stepsOf = ({ transact, log }: App): JobSteps =>
  new JobSteps({
    transact,
    kinds: JOB_KINDS,
    onError: (error, jobId) => logStep(log, error, jobId),
  });

/** A refusal is the result of its job, which shows it to the customer; anything else is for operators. */
const logStep = (log: App["log"], err: unknown, jobId: string): void => {
  if (!(err instanceof DomainError) || err.status >= 500) log.error({ err, jobId }, "a job's step failed");
  else log.info({ jobId, code: err.code, reason: err.reason }, "a job was refused");
};

/** Performs steps of projects' long-running work until none is due. */
export const createProjectJobs = (): Job => {
  let steps: JobSteps | undefined;
  return {
    timeouts: STEP,
    concurrency: 1,
    everyMs: UNASKED_MS,
    isDue: areJobsDue,
    run: async (app) => {
      steps ??= stepsOf(app);
      while (await steps.step()) await app.limits.pause?.();
    },
  };
};
