import { mayChangeConfig, shareConfig, tryShareConfig } from "../kernel/config-lock.ts";
import { notFound } from "../kernel/errors.ts";
import { PacedBudget } from "../kernel/pace.ts";
import type { RuleSet } from "../evaluation/running/compile.ts";
import { StepBudget, StepsExceeded } from "../kernel/step-budget.ts";
import type { Transact, Work } from "../kernel/work.ts";
import { readPlanBytes } from "./plan-bytes.ts";
import { PLAN_BYTES_MAX, PLAN_STEPS_MAX, type PlanCache } from "./plan-cache.ts";
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
} from "./plan-parts.ts";
import { preparePlan } from "./plan-preparation.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import type { QueuedEvent } from "./queue.ts";
import { EventsHeld, EventsUnready } from "./unready.ts";

export { createPlanCache, observedPlans, type PlanCache, projectPlans } from "./plan-cache.ts";

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
    cache.charge(row.id, own.spent);
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
