import { shareConfig, tryShareConfig } from "../config-lock.ts";
import { notFound } from "../errors.ts";
import { throwOutage } from "../outages.ts";
import { PacedBudget } from "../pace.ts";
import type { RuleSet } from "../rules/running/compile.ts";
import { StepsExceeded } from "../step-budget.ts";
import type { Transact, Work } from "../work.ts";
import type { PlanCache } from "./plan-cache.ts";
import {
  compileParts,
  type ProjectRow,
  readParts,
  readPartsOf,
  readProject,
  readRows,
  type Version,
  versionOf,
} from "./plan-parts.ts";
import type { ProjectPlan } from "./project-plan.ts";
import type { QueuedEvent } from "./queue.ts";
import { EventsHeld, EventsUnready } from "./unready.ts";

export { createPlanCache, type PlanCache } from "./plan-cache.ts";

/**
 * Steps that compiling a plan may take within a transaction, which holds locks meanwhile: about 50 ms. A
 * larger one is compiled outside.
 */
const PLAN_STEPS_MAX = 250_000;

/**
 * Thrown where the plans of projects take too long to be compiled in a transaction. Nothing has been done
 * but that the definitions of all projects asked for are held.
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

  override async prepare(transact: Transact): Promise<void> {
    for (const version of this.versions) await prepareOnce(transact, version, this.#cache);
  }
}

/** Prepares the plan of one project, together with all who want it. */
const prepareOnce = (transact: Transact, version: Version, cache: PlanCache): Promise<void> => {
  const { projectId, configVersion } = version;
  const running = cache.preparing.get(projectId);
  if (running) return running;
  const run = async (): Promise<void> => {
    try {
      const parts = await transact((work) => readParts(work, projectId));
      if (parts) cache.keep(await compileParts(parts, new PacedBudget(Infinity)));
    } catch (error) {
      throwOutage(error);
      // Whoever needs the plan compiles it in the transaction, and meets what is wrong there.
    } finally {
      cache.preparing.delete(projectId);
    }
    cache.tried(projectId, configVersion);
  };
  const preparing = run();
  cache.preparing.set(projectId, preparing);
  return preparing;
};

/**
 * The plans of `projectIds`, for evaluation in this transaction: a change of definitions waits for batches
 * that evaluate the old version, and batches that come later see the new one (config-lock.ts). Two
 * statements, plus the definitions of projects whose version moved.
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
 * As `loadPlans`, of the projects of a claim's events: none of them waits for others who are at work on the
 * definitions or the events of one.
 * @throws EventsUnready
 */
export const tryLoadPlans = async (
  work: Work,
  events: readonly QueuedEvent[],
  cache: PlanCache,
): Promise<Map<string, ProjectPlan>> => {
  const projectIds = [...new Set(events.map(({ projectId }) => projectId))];
  // Sent together: rows are read after locks are asked for, and those of projects that are held are not used.
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
    const plan = currentPlan(row, cache) ?? (await compileHere(work, row, cache));
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

/** Compiles a plan in the transaction; undefined when it takes too many steps, and was not tried outside. */
const compileHere = async (
  work: Work,
  row: ProjectRow,
  cache: PlanCache,
): Promise<ProjectPlan | undefined> => {
  const isTried = cache.triedVersion(row.id) === Number(row.config_version);
  const steps = new PacedBudget(isTried ? Infinity : PLAN_STEPS_MAX);
  try {
    return cache.keep(await compileParts(await readPartsOf(work, row), steps));
  } catch (error) {
    if (error instanceof StepsExceeded && error.budget === steps) return undefined;
    throw error;
  }
};

/**
 * The plan of one project for reads that are as good with the definitions of a moment ago: no lock. One that
 * was compiled while the definitions changed is not kept.
 * @throws DomainError NOT_FOUND
 */
export const readPlan = async (work: Work, projectId: string, cache: PlanCache): Promise<ProjectPlan> => {
  const row = await readProject(work, projectId);
  if (!row) throw notFound("project");
  const known = currentPlan(row, cache);
  if (known) return known;
  const parts = await readParts(work, projectId);
  if (!parts) throw notFound("project");
  const isTried = cache.triedVersion(projectId) === versionOf(parts.row).configVersion;
  const steps = new PacedBudget(isTried ? Infinity : PLAN_STEPS_MAX);
  try {
    return cache.keep(await compileParts(parts, steps));
  } catch (error) {
    if (!(error instanceof StepsExceeded && error.budget === steps)) throw error;
    throw new PlansUnprepared([versionOf(parts.row)], cache);
  }
};

/** The plan of one project for a read: no lock, not cached. `rules` stand in for those that run. */
export const loadPlan = async (
  work: Work,
  projectId: string,
  rules?: RuleSet,
): Promise<ProjectPlan | undefined> => {
  const row = await readProject(work, projectId);
  return row && compileParts(await readPartsOf(work, row, rules), new PacedBudget(Infinity));
};
