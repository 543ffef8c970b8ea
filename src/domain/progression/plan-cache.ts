import { FairLine } from "../kernel/fair-line.ts";
import { createSizedCache } from "../kernel/sized-cache.ts";
import type { Version } from "./plan-parts.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";

/** Plans kept in a cache; a plan that has gone is compiled again. */
const PLANS_MAX = 1_000;
/** Bytes of JSON from which the plans of a cache were compiled: their memory is a multiple. */
const PLANS_MAX_BYTES = 32 * 1024 * 1024;
/** The same, of plans that were prepared and have not been asked for since. */
const UNUSED_MAX_BYTES = PLANS_MAX_BYTES / 2;
/**
 * Steps that compiling a plan may take within a transaction, which holds locks meanwhile: about 50 ms. A
 * larger one is compiled outside.
 */
export const PLAN_STEPS_MAX = 250_000;
/** Projects of which a cache remembers that their plans are larger. */
const LARGE_MAX = 10_000;
/** How long definitions that cannot be compiled are not tried again, in ms. */
export const BROKEN_MS = 10_000;

/** Compiled plans by project, valid for one config version; a tenant's do not displace those of others. */
export type PlanCache = {
  get(projectId: string): ProjectPlan | undefined;
  /** Keeps a plan, in the place of others when there are too many or they are too large. Answers it. */
  keep(plan: ProjectPlan): ProjectPlan;
  /** Keeps a plan until it is first asked for, whatever becomes of others meanwhile, and then as `keep`. */
  hand(plan: ProjectPlan): void;
  /** Whether a project's plan took more than PLAN_STEPS_MAX when it was compiled last. */
  isLarge(projectId: string): boolean;
  noteSteps(version: Version, steps: number): void;
  /** Why a version cannot be compiled, if that was found within the last BROKEN_MS. */
  brokenBy(version: Version): Error | undefined;
  noteBroken(version: Version, error: unknown): void;
  /** Counts the steps of reading and compiling a project's plan. */
  charge(projectId: string, steps: number): void;
  /** Projects whose plan is being prepared, or is to be; `begin` tells of a further one. */
  preparing: Map<string, Promise<void>>;
  begin(projectId: string, preparing: Promise<void>): void;
  /** Where plans are prepared, one after the other. */
  line: FairLine;
};

export type PlanCacheOptions = {
  /** Of the documents of all plans that are kept. */
  maxBytes?: number;
  /** Hears of steps that were taken for a project. */
  onSteps?: (projectId: string, steps: number) => void;
  /** Hears of projects whose plan is to be prepared, and when that is over; never rejects. */
  onPreparing?: (projectId: string, over: Promise<unknown>) => void;
  /** A clock that only goes forward. */
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
  const large = createSizedCache<true>({ items: LARGE_MAX, bytes: LARGE_MAX });
  const broken = createSizedCache<Broken>({ items: PLANS_MAX, bytes: PLANS_MAX });
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
    hand: (plan) => void unused.keep(plan.projectId, plan, sizeOf(plan)),
    isLarge: (projectId) => large.get(projectId) ?? false,
    noteSteps: ({ projectId, tenantId }, steps) => {
      if (steps > PLAN_STEPS_MAX) large.keep(projectId, true, { owner: tenantId, bytes: 1 });
      else large.drop(projectId);
    },
    brokenBy: ({ projectId, configVersion }) => {
      const found = broken.get(projectId);
      return found?.configVersion === configVersion && found.untilMs > nowMs() ? found.error : undefined;
    },
    noteBroken: ({ projectId, tenantId, configVersion }, thrown) => {
      const error = thrown instanceof Error ? thrown : new Error(String(thrown));
      const one = { configVersion, error, untilMs: nowMs() + BROKEN_MS };
      broken.keep(projectId, one, { owner: tenantId, bytes: 1 });
    },
    charge: onSteps,
    preparing,
    begin: (projectId, running) => {
      preparing.set(projectId, running);
      onPreparing(projectId, Promise.allSettled([running]));
    },
    line: new FairLine(),
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
  begin: (projectId, running) => {
    projectPlans.begin(projectId, running);
    onPreparing(projectId, Promise.allSettled([running]));
  },
});
