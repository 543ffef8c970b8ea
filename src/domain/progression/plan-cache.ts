import { FairQueue } from "../kernel/fair-queue.ts";
import { createSizedCache } from "../kernel/sized-cache.ts";
import type { Version } from "./plan-parts.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";

/** Maximum plans in a cache; an evicted plan is compiled again. */
const PLANS_MAX = 1_000;
/** Maximum bytes of JSON that the cached plans were compiled from: their memory is a multiple. */
const PLANS_MAX_BYTES = 32 * 1024 * 1024;
/** Maximum bytes of plans that were prepared and not requested since. */
const UNUSED_MAX_BYTES = PLANS_MAX_BYTES / 2;
/**
 * Steps that compiling a plan may take within a transaction, which holds locks meanwhile: about 50 ms. A
 * larger plan is compiled outside.
 */
export const PLAN_STEPS_MAX = 250_000;
/**
 * Maximum bytes of definitions that are read within such a transaction. A plan of more is prepared outside,
 * without having been read.
 */
export const PLAN_BYTES_MAX = 64 * 1024;
/** Maximum projects remembered as having larger plans. */
const LARGE_MAX = 10_000;
/** How long definitions that fail to compile are not retried, in ms. */
export const BROKEN_MS = 10_000;

/**
 * Cache of compiled plans by project, valid for one config version; tenants do not evict each other's plans.
 */
export type PlanCache = {
  get(projectId: string): ProjectPlan | undefined;
  /** Caches a plan, evicting others when there are too many or they are too large. Returns the plan. */
  keep(plan: ProjectPlan): ProjectPlan;
  /** Pins a plan until it is first requested, and then caches it as `keep` does. */
  pin(plan: ProjectPlan): void;
  /**
   * Returns whether a project's plan took more than PLAN_STEPS_MAX when it was last compiled, or this version
   * of its definitions has more than PLAN_BYTES_MAX.
   */
  isLarge(version: Version): boolean;
  noteSteps(version: Version, steps: number): void;
  noteBytes(version: Version, bytes: number): void;
  /** Returns the error of a version that failed to compile within the last BROKEN_MS. */
  brokenBy(version: Version): Error | undefined;
  noteBroken(version: Version, error: unknown): void;
  /** Charges the steps of reading and compiling a project's plan. */
  charge(projectId: string, steps: number): void;
  /** Preparations of plans that are running or queued, by project. */
  preparing: Map<string, Promise<void>>;
  noteBegun(projectId: string, preparing: Promise<void>): void;
  /** Queue in which plans are prepared one after the other. */
  queue: FairQueue;
};

export type PlanCacheOptions = {
  /** Maximum bytes of the documents of all cached plans. */
  maxBytes?: number;
  /** Called with the steps taken for a project. */
  onSteps?: (projectId: string, steps: number) => void;
  /** Called with a project whose plan is to be prepared, and a promise of the end that never rejects. */
  onPreparing?: (projectId: string, over: Promise<unknown>) => void;
  /** A monotonic clock. */
  nowMs?: () => number;
};

type Broken = { configVersion: number; error: Error; untilMs: number };

const sizeOf = ({ tenantId, bytes }: ProjectPlan) => ({ owner: tenantId, bytes });

export const createPlanCache = ({
  maxBytes = PLANS_MAX_BYTES,
  onSteps = () => undefined,
  onPreparing = () => undefined,
  nowMs = () => performance.now(),
}: PlanCacheOptions = {}): PlanCache => {
  const cache = createSizedCache<ProjectPlan>({ items: PLANS_MAX, bytes: maxBytes });
  const unused = createSizedCache<ProjectPlan>({ items: PLANS_MAX, bytes: UNUSED_MAX_BYTES });
  const large = createSizedCache<true>({ items: LARGE_MAX });
  const largeVersions = createSizedCache<number>({ items: LARGE_MAX });
  const broken = createSizedCache<Broken>({ items: PLANS_MAX });
  const keep = (plan: ProjectPlan): ProjectPlan => {
    unused.drop(plan.projectId);
    return cache.keep(plan.projectId, plan, sizeOf(plan));
  };
  const preparing = new Map<string, Promise<void>>();
  return {
    get: (projectId) => {
      const handed = unused.drop(projectId);
      return handed ? keep(handed) : cache.get(projectId);
    },
    keep,
    pin: (plan) => void unused.keep(plan.projectId, plan, sizeOf(plan)),
    isLarge: ({ projectId, configVersion }) =>
      large.get(projectId) === true || largeVersions.get(projectId) === configVersion,
    noteSteps: ({ projectId, tenantId }, steps) => {
      if (steps > PLAN_STEPS_MAX) large.keep(projectId, true, { owner: tenantId });
      else large.drop(projectId);
    },
    noteBytes: ({ projectId, tenantId, configVersion }, bytes) => {
      if (bytes > PLAN_BYTES_MAX) largeVersions.keep(projectId, configVersion, { owner: tenantId });
      else largeVersions.drop(projectId);
    },
    brokenBy: ({ projectId, configVersion }) => {
      const found = broken.get(projectId);
      return found?.configVersion === configVersion && found.untilMs > nowMs() ? found.error : undefined;
    },
    noteBroken: ({ projectId, tenantId, configVersion }, thrown) => {
      const error = thrown instanceof Error ? thrown : new Error(String(thrown));
      const one = { configVersion, error, untilMs: nowMs() + BROKEN_MS };
      broken.keep(projectId, one, { owner: tenantId });
    },
    charge: onSteps,
    preparing,
    noteBegun: (projectId, running) => onPreparing(projectId, Promise.allSettled([running])),
    queue: new FairQueue(),
  };
};

/**
 * The plans of this process. Each is valid for one config version, whoever compiled it, so requests, rooms
 * and workers share them.
 */
export const projectPlans = createPlanCache();

/** The same plans for one who is to know what compiling them takes. */
export const observedPlans = ({
  onSteps,
  onPreparing,
}: Required<Pick<PlanCacheOptions, "onSteps" | "onPreparing">>): PlanCache => ({
  ...projectPlans,
  charge: onSteps,
  noteBegun: (projectId, running) => {
    projectPlans.noteBegun(projectId, running);
    onPreparing(projectId, Promise.allSettled([running]));
  },
});
