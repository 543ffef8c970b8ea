import { FairQueue } from "../kernel/fair-queue.ts";
import { TEXT_PER_STEP } from "../kernel/step-budget.ts";
import type { Transact } from "../kernel/work.ts";
import { getJobResult, type JobRef } from "./project-jobs.ts";

/** Reads the result of a tenant's job. @throws DomainError as getJobResult */
export type ReadResult = (transact: Transact, tenantId: string, ref: JobRef) => Promise<string>;

/**
 * Creates a reader of results, which may be megabytes: a process reads one at a time, next that of the tenant
 * with the least consumption, so that one tenant does not take all its connections or memory.
 */
export const createResultReader = (): ReadResult => {
  const queue = new FairQueue();
  return async (transact, tenantId, ref) => {
    let text = "";
    await queue.run(tenantId, async (steps) => {
      text = await transact((work) => getJobResult(work, ref));
      steps.spend(text.length / TEXT_PER_STEP);
    });
    return text;
  };
};
