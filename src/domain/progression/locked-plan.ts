import { localKey, mayChangeConfig, type Work } from "../kernel/work.ts";
import { notFound } from "../kernel/errors.ts";
import { together } from "../kernel/together.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import { loadPlans, projectPlans } from "./plan.ts";

const LOCKED = localKey("locked plans", () => new Map<string, ProjectPlan>());

/**
 * Returns the plan of a project, whose definitions stay as they are until this transaction is over: loaded
 * once in it. @throws DomainError NOT_FOUND
 * @throws PlansUnprepared
 */
export const planOf = async (work: Work, projectId: string): Promise<ProjectPlan> => {
  const known = knownPlan(work, projectId);
  if (known) return known;
  const plan = (await loadPlans(work, [projectId], projectPlans)).get(projectId);
  if (!plan) throw notFound("project");
  if (!mayChangeConfig(work, projectId)) work.local.get(LOCKED).set(projectId, plan);
  return plan;
};

/** Returns the plan that this transaction has locked already. */
export const knownPlan = (work: Work, projectId: string): ProjectPlan | undefined =>
  mayChangeConfig(work, projectId) ? undefined : work.local.get(LOCKED).get(projectId);

/** As `planOf`, together with the others who share the transaction. */
export const lockPlan = together({
  phase: "PLAN",
  isWrite: false,
  run: async (work, projectIds: readonly string[]) => {
    const plans = new Map<string, ProjectPlan>();
    for (const id of new Set(projectIds)) plans.set(id, await planOf(work, id));
    return projectIds.map((id) => ({ value: plans.get(id)! }));
  },
});
