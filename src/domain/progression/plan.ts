import type { ProjectPlan } from "../evaluation/project-plan.ts";
import type { RuleSet } from "../evaluation/running/compile.ts";
import { createSizedCache } from "../kernel/caches.ts";
import { joinFlight } from "../kernel/flights.ts";
import { notFound } from "../kernel/errors.ts";
import { Bulkhead, busy } from "../kernel/bulkhead.ts";
import {
  localKey,
  mayChangeConfig,
  shareConfig,
  type Transact,
  tryShareConfig,
  type Work,
} from "../kernel/work.ts";
import {
  compileParts,
  type ProjectRow,
  readParts,
  readPartsOf,
  readProject,
  readRows,
  type Version,
} from "./load-plan.ts";
import { EventsHeld, EventsUnready } from "./lock-shared-counters.ts";
import type { QueuedEvent } from "./queue.ts";
import { together } from "../kernel/together.ts";

/** Maximum plans in a cache; an evicted plan is compiled again. */
const PLANS_MAX = 1_000;
/** Maximum bytes of JSON that the cached plans were compiled from: their memory is a multiple. */
const PLANS_MAX_BYTES = 32 * 1024 * 1024;
/** How long definitions that fail to compile are not retried, in ms. */
export const BROKEN_MS = 10_000;

/**
 * Cache of compiled plans by project, valid for one config version; tenants do not evict each other's plans.
 */
export type PlanCache = {
  get(projectId: string): ProjectPlan | undefined;
  /** Caches a plan, evicting others when there are too many or they are too large. Returns the plan. */
  keep(plan: ProjectPlan): ProjectPlan;
  /** Returns the error of a version that failed to compile within the last BROKEN_MS. */
  brokenBy(version: Version): Error | undefined;
  noteBroken(version: Version, error: unknown): void;
  /** Preparations of plans that are running or queued, by project. */
  preparing: Map<string, Promise<void>>;
  noteBegun(projectId: string, preparing: Promise<void>): void;
};

type PlanCacheOptions = {
  /** Maximum bytes of the documents of all cached plans. */
  maxBytes?: number;
  /** Called with a project whose plan is to be prepared, and a promise of the end that never rejects. */
  onPreparing?: (projectId: string, over: Promise<unknown>) => void;
  /** A monotonic clock. */
  nowMs?: () => number;
};

type Broken = { configVersion: number; error: Error; untilMs: number };

export const createPlanCache = ({
  maxBytes = PLANS_MAX_BYTES,
  onPreparing = () => undefined,
  nowMs = () => performance.now(),
}: PlanCacheOptions = {}): PlanCache => {
  const cache = createSizedCache<ProjectPlan>({ items: PLANS_MAX, bytes: maxBytes });
  const broken = createSizedCache<Broken>({ items: PLANS_MAX });
  return {
    get: (projectId) => cache.get(projectId),
    keep: (plan) => cache.keep(plan.projectId, plan, { owner: plan.tenantId, bytes: plan.bytes }),
    brokenBy: ({ projectId, configVersion }) => {
      const found = broken.get(projectId);
      return found?.configVersion === configVersion && found.untilMs > nowMs() ? found.error : undefined;
    },
    noteBroken: ({ projectId, tenantId, configVersion }, thrown) => {
      const error = thrown instanceof Error ? thrown : new Error(String(thrown));
      const one = { configVersion, error, untilMs: nowMs() + BROKEN_MS };
      broken.keep(projectId, one, { owner: tenantId });
    },
    preparing: new Map(),
    noteBegun: (projectId, running) => onPreparing(projectId, Promise.allSettled([running])),
  };
};

/**
 * The plans of this process. Each is valid for one config version, whoever compiled it, so requests, rooms
 * and workers share them.
 */
export const projectPlans = createPlanCache();

/** The same plans for one who is to know when they are prepared. */
export const observedPlans = (onPreparing: Required<PlanCacheOptions>["onPreparing"]): PlanCache => ({
  ...projectPlans,
  noteBegun: (projectId, running) => {
    projectPlans.noteBegun(projectId, running);
    onPreparing(projectId, Promise.allSettled([running]));
  },
});

/** Plans that are compiled at once: all their definitions are in memory meanwhile. */
const compiling = new Bulkhead({ ofAll: { slots: 2 }, refusal: busy });

/**
 * Compiles the plan of one project outside any transaction, which would hold locks meanwhile, once for all who
 * wait for it.
 * @throws errors of the definitions, but not outages: that version is not retried for a while
 */
const preparePlan = (transact: Transact, version: Version, cache: PlanCache): Promise<void> =>
  joinFlight(cache.preparing, version.projectId, () => {
    const preparing = compiling.run("", () => prepareNow(transact, version, cache));
    cache.noteBegun(version.projectId, preparing);
    return preparing;
  });

const prepareNow = async (transact: Transact, version: Version, cache: PlanCache): Promise<void> => {
  const parts = await transact((work) => readParts(work, version.projectId));
  if (!parts) return;
  try {
    cache.keep(await compileParts(parts));
  } catch (error) {
    cache.noteBroken(version, error);
    throw error;
  }
};

/**
 * Thrown where plans have to be compiled first. Only the shared locks on the definitions of all requested
 * projects have been taken.
 */
class PlansUnprepared extends EventsUnready {
  readonly versions: readonly Version[];
  readonly #cache: PlanCache;

  constructor(versions: readonly Version[], cache: PlanCache) {
    super(`not compiled: the plans of ${versions.map(({ projectId }) => projectId).join(", ")}`);
    this.versions = versions;
    this.#cache = cache;
  }

  override isLate(event: QueuedEvent): boolean {
    return this.versions.some(({ projectId }) => projectId === event.projectId);
  }

  /** Resolves when the first of them is ready: the others are requested again. */
  override prepare(transact: Transact): Promise<void> {
    return Promise.race(this.versions.map((version) => preparePlan(transact, version, this.#cache)));
  }
}

/**
 * Loads the plans of `projectIds` for evaluation in this transaction: a change of definitions waits for
 * batches that evaluate the old version, and later batches see the new one (`shareConfig`). Two statements.
 * @throws PlansUnprepared
 */
export const loadPlans = async (
  work: Work,
  projectIds: readonly string[],
  cache: PlanCache,
): Promise<Map<string, ProjectPlan>> => {
  await shareConfig(work, projectIds);
  return plansFrom(work, await readRows(work, projectIds), cache);
};

/** As `loadPlans`, of one project; undefined where it is deleted. */
export const findPlan = async (work: Work, projectId: string): Promise<ProjectPlan | undefined> =>
  (await loadPlans(work, [projectId], projectPlans)).get(projectId);

/**
 * As `loadPlans`, for the projects of a claim, without waiting for others that are processing the definitions
 * or events of a project.
 * @throws EventsUnready
 */
export const tryLoadPlans = async (
  work: Work,
  events: readonly QueuedEvent[],
  cache: PlanCache,
): Promise<Map<string, ProjectPlan>> => {
  const projectIds = [...new Set(events.map(({ projectId }) => projectId))];
  // Sent together: rows are read after the locks are requested, and rows of projects that are held are not
  // used.
  const [kept, rows] = await Promise.all([
    tryShareConfig(work, projectIds, events),
    readRows(work, projectIds),
  ]);
  const isHeld = (event: QueuedEvent): boolean => !kept.hasConfig(event.projectId) || !kept.hasEvents(event);
  const held = new Set(events.filter(isHeld).map(({ projectId }) => projectId));
  if (held.size > 0) throw new EventsHeld(`definitions or events of ${[...held].join(", ")}`, isHeld);
  return plansFrom(work, rows, cache);
};

const plansFrom = async (
  work: Work,
  rows: readonly ProjectRow[],
  cache: PlanCache,
): Promise<Map<string, ProjectPlan>> => {
  const plans = new Map<string, ProjectPlan>();
  const unprepared: Version[] = [];
  for (const row of rows) {
    const plan = currentPlan(row, cache) ?? (await ownPlan(work, row));
    if (plan) plans.set(row.projectId, atClock(plan, row.clockAheadMs));
    else unprepared.push(row);
  }
  const broken = unprepared.find((version) => cache.brokenBy(version));
  if (broken) throw cache.brokenBy(broken)!;
  if (unprepared.length > 0) throw new PlansUnprepared(unprepared, cache);
  return plans;
};

/** Compiles the plan of a version that this transaction has not committed, which nobody else can. */
const ownPlan = async (work: Work, row: ProjectRow): Promise<ProjectPlan | undefined> =>
  mayChangeConfig(work, row.projectId) ? compileParts(await readPartsOf(work, row)) : undefined;

/** By plan: the same at another time of the project's clock. */
const moved = new WeakMap<ProjectPlan, ProjectPlan>();

/**
 * Returns a plan at the time of its project's clock. The clock is none of the definitions: a plan stays
 * compiled when it is advanced.
 */
export const atClock = (plan: ProjectPlan, clockAheadMs: number): ProjectPlan => {
  if (plan.clockAheadMs === clockAheadMs) return plan;
  const known = moved.get(plan);
  if (known?.clockAheadMs === clockAheadMs) return known;
  const made = { ...plan, clockAheadMs };
  moved.set(plan, made);
  return made;
};

const currentPlan = (row: ProjectRow, cache: PlanCache): ProjectPlan | undefined => {
  const known = cache.get(row.projectId);
  return known?.configVersion === row.configVersion ? known : undefined;
};

/**
 * Returns the plan of one project without a lock, for reads that may use definitions of a moment ago.
 * @throws DomainError NOT_FOUND
 * @throws PlansUnprepared
 */
export const readPlan = async (work: Work, projectId: string, cache: PlanCache): Promise<ProjectPlan> => {
  const row = await readProject(work, projectId);
  if (!row) throw notFound("project");
  return (await plansFrom(work, [row], cache)).get(projectId)!;
};

/**
 * Loads the plan of one project for a read, with `rules` in place of the running ones: no lock, not cached.
 */
export const loadPlan = async (
  work: Work,
  projectId: string,
  rules: RuleSet,
): Promise<ProjectPlan | undefined> => {
  const row = await readProject(work, projectId);
  return row && compileParts(await readPartsOf(work, row, rules));
};

const LOCKED = localKey("locked plans", () => new Map<string, ProjectPlan>());

/**
 * Returns the plan of a project, whose definitions stay as they are until this transaction is over: loaded
 * once in it. @throws DomainError NOT_FOUND
 * @throws PlansUnprepared
 */
export const planOf = async (work: Work, projectId: string): Promise<ProjectPlan> => {
  const known = knownPlan(work, projectId);
  if (known) return known;
  const plan = await findPlan(work, projectId);
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
