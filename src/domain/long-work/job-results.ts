import { FairQueue } from "../kernel/fair-queue.ts";
import { TEXT_PER_STEP } from "../kernel/step-budget.ts";
import type { Transact } from "../kernel/work.ts";
import { getJobResult, type JobRef } from "./project-jobs.ts";

/** Reads what a tenant's job came to. @throws DomainError as getJobResult */
export type ReadResult = (transact: Transact, tenantId: string, ref: JobRef) => Promise<string>;

/**
 * Results are megabytes: a process reads one at a time, next that of the tenant who has had the least: those
 * of one tenant take neither its connections nor its memory.
 */
export const createResultReader = (): ReadResult => {
  const line = new FairQueue();
  return async (transact, tenantId, ref) => {
    let text = "";
    await line.run(tenantId, async (steps) => {
      text = await transact((work) => getJobResult(work, ref));
      steps.spend(text.length / TEXT_PER_STEP);
    });
    return text;
  };
};
