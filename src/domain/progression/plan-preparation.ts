import { joinFlight } from "../kernel/flights.ts";
import { throwOutage } from "../kernel/outages.ts";
import type { PacedBudget } from "../kernel/pace.ts";
import type { Transact } from "../kernel/work.ts";
import type { PlanCache } from "./plan-cache.ts";
import { compileParts, readParts, type Version } from "./plan-parts.ts";

/**
 * Compiles the plan of one project outside any transaction, once for all who wait for it, and hands it to the
 * next to request it. Plans of a process are prepared one by one, fairly between tenants.
 * @throws errors of the definitions, but not outages: that version is not retried for a while
 */
export const preparePlan = (transact: Transact, version: Version, cache: PlanCache): Promise<void> => {
  const { projectId, tenantId } = version;
  return joinFlight(cache.preparing, projectId, () => {
    const preparing = cache.queue.run(tenantId, (steps) => prepareNow(transact, version, { cache, steps }));
    cache.noteBegun(projectId, preparing);
    return preparing;
  });
};

const prepareNow = async (
  transact: Transact,
  version: Version,
  { cache, steps }: { cache: PlanCache; steps: PacedBudget },
): Promise<void> => {
  try {
    const parts = await transact((work) => readParts(work, version.projectId));
    if (parts) cache.pin(await compileParts(parts, steps));
    cache.noteSteps(version, steps.spent);
  } catch (error) {
    throwOutage(error);
    cache.noteBroken(version, error);
    throw error;
  } finally {
    cache.charge(version.projectId, steps.spent);
  }
};
