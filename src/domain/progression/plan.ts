import { mayChangeConfig, shareConfig, tryShareConfig } from "../kernel/config-lock.ts";
import { notFound } from "../kernel/errors.ts";
import { PacedBudget } from "../kernel/pace.ts";
import type { RuleSet } from "../evaluation/running/compile.ts";
import { StepBudget, StepsExceeded } from "../kernel/step-budget.ts";
import type { Transact, Work } from "../kernel/work.ts";
import { PLAN_STEPS_MAX, type PlanCache } from "./plan-cache.ts";
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

/**
 * Thrown where plans take too long to be compiled in a transaction. Only the shared locks on the definitions
 * of all requested projects have been taken.
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
 * plus the definitions of projects whose version changed.
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
  const unprepared: Version[] = [];
  const steps = new StepBudget(PLANS_STEPS_MAX);
  for (const row of rows) {
    const read = (): Promise<PlanParts> => readPartsOf(work, row);
    const plan = currentPlan(row, cache) ?? (await compileHere(work, row, { cache, steps, read }));
    if (plan) plans.set(row.id, plan);
    else unprepared.push(versionOf(row));
  }
  if (unprepared.length > 0) throw new PlansUnprepared(unprepared, cache);
  return plans;
};

const currentPlan = (row: ProjectRow, cache: PlanCache): ProjectPlan | undefined => {
  const known = cache.get(row.id);
  return known?.configVersion === Number(row.config_version) ? known : undefined;
};

/** `steps`: the shared budget of all plans of the transaction. */
type Here = { cache: PlanCache; steps: StepBudget; read: () => Promise<PlanParts> };

/**
 * Compiles a plan in the transaction.
 * @returns undefined when it takes too many steps; a plan that did so before is not even read
 * @throws errors of its definitions
 */
const compileHere = async (
  work: Work,
  row: ProjectRow,
  { cache, steps, read }: Here,
): Promise<ProjectPlan | undefined> => {
  const version = versionOf(row);
  const reason = cache.brokenBy(version);
  if (reason) throw reason;
  if (steps.left === 0 || cache.isLarge(row.id)) return undefined;
  const own = new PacedBudget(Math.min(PLAN_STEPS_MAX, steps.left));
  try {
    const plan = await compileParts(await read(), own);
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
  const read = async (): Promise<PlanParts> => {
    const parts = await readParts(work, projectId);
    if (!parts) throw notFound("project");
    return parts;
  };
  const here = { cache, steps: new StepBudget(PLANS_STEPS_MAX), read };
  const plan = currentPlan(row, cache) ?? (await compileHere(work, row, here));
  if (!plan) throw new PlansUnprepared([versionOf(row)], cache);
  return plan;
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
