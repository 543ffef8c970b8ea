import { bytesOf } from "../oversize.ts";
import { createSizedCache } from "../sized-cache.ts";
import type { ProjectPlan } from "./project-plan.ts";

/** Plans kept in a cache; a plan that has gone is compiled again. */
const PLANS_MAX = 1_000;
/** Bytes of JSON from which the plans of a cache were compiled: their memory is a multiple. */
const PLANS_MAX_BYTES = 32 * 1024 * 1024;

/** Compiled plans by project, valid for one config version; those used last are kept. */
export type PlanCache = {
  get(projectId: string): ProjectPlan | undefined;
  /** Keeps a plan, in the place of others when there are too many or they are too large. Answers it. */
  keep(plan: ProjectPlan): ProjectPlan;
  /** Config version for which `PlansUnprepared.prepare` has done what it can. */
  triedVersion(projectId: string): number | undefined;
  tried(projectId: string, configVersion: number): void;
  /** Projects whose plan is being prepared. */
  preparing: Map<string, Promise<void>>;
};

const documentsOf = (plan: ProjectPlan): object[] => [
  ...[plan.rules.all, ...[plan.badges, plan.streaks, plan.segments, plan.rewards].map((map) => map.values())]
    .flatMap((those) => [...those])
    .map(({ definition }) => definition),
  ...plan.levels.values(),
  ...plan.boards,
];

const sizeOf = (plan: ProjectPlan): number =>
  documentsOf(plan).reduce((sum, document) => sum + bytesOf(document), 0);

/** `maxBytes`: of the documents of all plans that are kept. */
export const createPlanCache = (maxBytes = PLANS_MAX_BYTES): PlanCache => {
  const cache = createSizedCache<ProjectPlan>({ items: PLANS_MAX, bytes: maxBytes });
  const versions = createSizedCache<number>({ items: PLANS_MAX, bytes: Infinity });
  return {
    get: cache.get,
    keep: (plan) => cache.keep(plan.projectId, plan, sizeOf(plan)),
    triedVersion: versions.get,
    tried: (projectId, configVersion) => void versions.keep(projectId, configVersion, 0),
    preparing: new Map(),
  };
};
