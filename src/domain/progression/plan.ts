import { sql } from "kysely";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import type { RuleSet } from "../evaluation/running/compile.ts";
import { createSizedCache } from "../kernel/caches.ts";
import { notFound } from "../kernel/errors.ts";
import { joinFlight } from "../kernel/flights.ts";
import { throwOutage } from "../kernel/outages.ts";
import { FairQueue, PacedBudget, StepBudget, StepsExceeded } from "../kernel/pace.ts";
import { mayChangeConfig, shareConfig, type Transact, tryShareConfig, type Work } from "../kernel/work.ts";
import {
  compileParts,
  type PlanParts,
  type ProjectRow,
  readParts,
  readPartsOf,
  readProject,
  readRows,
  type Version,
  versionOf,
} from "./load-plan.ts";
import { EventsHeld, EventsUnready } from "./lock-shared-counters.ts";
import type { QueuedEvent } from "./queue.ts";

/**
 * Returns the bytes of the definitions that plans of these projects are compiled from, without reading them:
 * one statement for all. A project without definitions is missing.
 */
export const readPlanBytes = async (
  { db }: Work,
  projectIds: readonly string[],
): Promise<Map<string, number>> => {
  if (projectIds.length === 0) return new Map();
  const ids = sql`any(${`{${projectIds.join(",")}}`}::uuid[])`;
  const found = await sql<{ project_id: string; bytes: string | number }>`
    select project_id, sum(bytes) as bytes from (
      select r.project_id, v.bytes
      from rules r join rule_versions v on v.rule_id = r.id and v.version = r.published_version
      where r.project_id = ${ids} and r.status in ('ACTIVE', 'SHADOW')
      union all select project_id, bytes from definitions
      where project_id = ${ids} and status = 'ACTIVE'
      union all select project_id, bytes from leaderboards
      where project_id = ${ids} and status <> 'ARCHIVED') those
    group by project_id`.execute(db);
  return new Map(found.rows.map(({ project_id, bytes }) => [project_id, Number(bytes)]));
};

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
  /** Preparations of plans that are running or queued, by project. */
  preparing: Map<string, Promise<void>>;
  noteBegun(projectId: string, preparing: Promise<void>): void;
  /** Queue in which plans are prepared one after the other. */
  queue: FairQueue;
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

const sizeOf = ({ tenantId, bytes }: ProjectPlan) => ({ owner: tenantId, bytes });

export const createPlanCache = ({
  maxBytes = PLANS_MAX_BYTES,
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

/** The same plans for one who is to know when they are prepared. */
export const observedPlans = (onPreparing: Required<PlanCacheOptions>["onPreparing"]): PlanCache => ({
  ...projectPlans,
  noteBegun: (projectId, running) => {
    projectPlans.noteBegun(projectId, running);
    onPreparing(projectId, Promise.allSettled([running]));
  },
});

/**
 * Compiles the plan of one project outside any transaction, once for all who wait for it, and hands it to the
 * next to request it. Plans of a process are prepared one by one, fairly between tenants.
 * @throws errors of the definitions, but not outages: that version is not retried for a while
 */
const preparePlan = (transact: Transact, version: Version, cache: PlanCache): Promise<void> => {
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
  }
};

/** Steps of all plans compiled in one transaction: about 100 ms. */
const PLANS_STEPS_MAX = 2 * PLAN_STEPS_MAX;

/** Maximum bytes of all definitions read for plans in one transaction. */
const PLANS_BYTES_MAX = 4 * PLAN_BYTES_MAX;

/**
 * Thrown where plans take too long to be read and compiled in a transaction. Only the shared locks on the
 * definitions of all requested projects have been taken.
 */
export class PlansUnprepared extends EventsUnready {
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
 * batches that evaluate the old version, and later batches see the new one (config-lock.ts). Two statements,
 * plus the size of the definitions of all projects whose version changed, and those that are small.
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
  const missing: ProjectRow[] = [];
  for (const row of rows) {
    const plan = currentPlan(row, cache);
    if (plan) plans.set(row.id, atClockOf(row, plan));
    else missing.push(row);
  }
  if (missing.length === 0) return plans;
  const here = {
    cache,
    readable: await findReadable(work, missing, cache),
    steps: new StepBudget(PLANS_STEPS_MAX),
    read: (row: ProjectRow): Promise<PlanParts> => readPartsOf(work, row),
  };
  const unprepared: Version[] = [];
  for (const row of missing) {
    const plan = await compileHere(work, row, here);
    if (plan) plans.set(row.id, atClockOf(row, plan));
    else unprepared.push(versionOf(row));
  }
  if (unprepared.length > 0) throw new PlansUnprepared(unprepared, cache);
  return plans;
};

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

const atClockOf = ({ clock_ahead_ms }: ProjectRow, plan: ProjectPlan): ProjectPlan =>
  atClock(plan, Number(clock_ahead_ms));

const currentPlan = (row: ProjectRow, cache: PlanCache): ProjectPlan | undefined => {
  const known = cache.get(row.id);
  return known?.configVersion === Number(row.config_version) ? known : undefined;
};

/**
 * Returns the projects whose definitions are small enough to be read in the transaction. One statement finds
 * the sizes of all; those of a version that is known to be large are not looked up again.
 */
const findReadable = async (
  work: Work,
  rows: readonly ProjectRow[],
  cache: PlanCache,
): Promise<ReadonlySet<string>> => {
  // A version that is not committed cannot be prepared outside.
  const isOwn = ({ id }: ProjectRow): boolean => mayChangeConfig(work, id);
  const readable = new Set(rows.filter(isOwn).map(({ id }) => id));
  const unknown = rows.filter((row) => {
    const version = versionOf(row);
    return !isOwn(row) && !cache.isLarge(version) && !cache.brokenBy(version);
  });
  const found = await readPlanBytes(
    work,
    unknown.map(({ id }) => id),
  );
  let left = PLANS_BYTES_MAX;
  for (const row of unknown) {
    const bytes = found.get(row.id) ?? 0;
    cache.noteBytes(versionOf(row), bytes);
    if (bytes > PLAN_BYTES_MAX || bytes > left) continue;
    left -= bytes;
    readable.add(row.id);
  }
  return readable;
};

/**
 * `readable`: projects whose definitions may be read in the transaction. `steps`: the shared budget of all
 * its plans.
 */
type Here = {
  cache: PlanCache;
  readable: ReadonlySet<string>;
  steps: StepBudget;
  read: (row: ProjectRow) => Promise<PlanParts>;
};

/**
 * Compiles a plan in the transaction.
 * @returns undefined when it takes too many steps; one that did so before or is too large is not even read
 * @throws errors of its definitions
 */
const compileHere = async (
  work: Work,
  row: ProjectRow,
  { cache, readable, steps, read }: Here,
): Promise<ProjectPlan | undefined> => {
  const version = versionOf(row);
  const reason = cache.brokenBy(version);
  if (reason) throw reason;
  if (steps.left === 0 || cache.isLarge(version) || !readable.has(row.id)) return undefined;
  const own = new PacedBudget(Math.min(PLAN_STEPS_MAX, steps.left));
  try {
    const plan = await compileParts(await read(row), own);
    // A version that is undone is that of another change next.
    return mayChangeConfig(work, row.id) ? plan : cache.keep(plan);
  } catch (error) {
    if (!(error instanceof StepsExceeded && error.budget === own)) throw error;
    cache.noteSteps(version, own.spent);
    return undefined;
  } finally {
    steps.spend(own.spent);
  }
};

/**
 * Returns the plan of one project without a lock, for reads that may use definitions of a moment ago.
 * @throws DomainError NOT_FOUND
 * @throws PlansUnprepared
 */
export const readPlan = async (work: Work, projectId: string, cache: PlanCache): Promise<ProjectPlan> => {
  const row = await readProject(work, projectId);
  if (!row) throw notFound("project");
  const known = currentPlan(row, cache);
  if (known) return atClockOf(row, known);
  const read = async (): Promise<PlanParts> => {
    const parts = await readParts(work, projectId);
    if (!parts) throw notFound("project");
    return parts;
  };
  const readable = await findReadable(work, [row], cache);
  const plan = await compileHere(work, row, {
    cache,
    readable,
    steps: new StepBudget(PLANS_STEPS_MAX),
    read,
  });
  if (!plan) throw new PlansUnprepared([versionOf(row)], cache);
  return atClockOf(row, plan);
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
  return row && compileParts(await readPartsOf(work, row, rules), new PacedBudget(Infinity));
};
