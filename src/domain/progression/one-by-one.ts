import { outageOf, throwOutage } from "../kernel/outages.ts";
import { atProjectTime } from "../kernel/project-time.ts";
import { savepoint } from "../kernel/savepoint.ts";
import type { Work } from "../kernel/work.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import { runBatch, sharedKeys } from "./batch.ts";
import { lockUnheld } from "./batch-players.ts";
import type { ClaimBudget } from "./claim-budget.ts";
import { type ProcessOptions, type RunClaim, throwUnlessTried } from "./claim-run.ts";
import { countTry } from "./fail-event.ts";
import { lockUnheldCounters } from "./lock-shared-counters.ts";
import { type PlanCache, tryLoadPlans } from "./plan.ts";
import type { QueuedEvent } from "./queue.ts";
import { EventsUnready } from "./unready.ts";

/** Events of a claim that may each be blamed for a busy database; more have another cause. */
const BUSY_ALONE_MAX = 3;

/** The plan of one project, or the error of loading it. */
type LoadedPlan = { plans: Map<string, ProjectPlan> } | { error: unknown };

/** Runs the events of a claim under savepoints: one that fails counts a try and undoes only itself. */
export const runOneByOne: RunClaim = async (work, { events, steps }, options) => {
  const loaded = new Map<string, LoadedPlan>();
  for (const [projectId, own] of Map.groupBy(events, (event) => event.projectId))
    loaded.set(projectId, await tryPlan(work, own, options.plans));
  const ahead = await lockAhead(work, events, { loaded: [...loaded.values()], options, steps });
  const taken: QueuedEvent[] = [];
  const busy: { event: QueuedEvent; error: unknown }[] = [];
  for (const event of ahead) {
    if (taken.length > 0 && steps.isSpent) break;
    const error = await runAlone(work, { event, plan: loaded.get(event.projectId)!, options, steps });
    // Completed events must not be repeated: the rest stays in the queue.
    if (error instanceof EventsUnready && taken.length > 0) break;
    if (error instanceof EventsUnready) throw error;
    if (error !== undefined) busy.push({ event, error });
    taken.push(event);
    if (busy.length > BUSY_ALONE_MAX) throw busy[0]!.error;
  }
  await blameBusy(work, { busy, taken }, options);
  return taken;
};

/** Counts a failed attempt for events that could not be saved where others of the claim could. */
const blameBusy = async (
  work: Work,
  { busy, taken }: { busy: readonly { event: QueuedEvent; error: unknown }[]; taken: readonly QueuedEvent[] },
  { onError }: ProcessOptions,
): Promise<void> => {
  // If none could be saved, the database is to blame.
  if (busy.length > 0 && busy.length === taken.length) throw busy[0]!.error;
  for (const { event, error } of busy) await countTry(work, { event, error, onError });
};

/** @param events events of one project */
const tryPlan = async (work: Work, events: readonly QueuedEvent[], cache: PlanCache): Promise<LoadedPlan> => {
  try {
    return { plans: await savepoint(work, () => tryLoadPlans(work, events, cache)) };
  } catch (error) {
    if (error instanceof EventsUnready) throw error;
    throwOutage(error);
    return { error };
  }
};

/**
 * Takes the locks of a whole claim at once, in the global lock order: events tried one by one would take them
 * in their own order, and could deadlock.
 * @returns the leading events whose locks were taken, at least one
 */
const lockAhead = async (
  work: Work,
  events: readonly QueuedEvent[],
  { loaded, options, steps }: { loaded: readonly LoadedPlan[]; options: ProcessOptions; steps: ClaimBudget },
): Promise<readonly QueuedEvent[]> => {
  try {
    const plans = new Map(loaded.flatMap((plan) => ("plans" in plan ? [...plan.plans] : [])));
    return await savepoint(work, async () => {
      await lockUnheld(work, events);
      const { keys, covered } = await sharedKeys(work, { plans, events }, steps);
      await lockUnheldCounters(work, keys);
      return events.slice(0, covered);
    });
  } catch (error) {
    if (error instanceof EventsUnready) throw error;
    throwUnlessTried(error, options);
    // Each event then takes its own locks, and shows its own error.
    return events;
  }
};

type Alone = { event: QueuedEvent; plan: LoadedPlan; options: ProcessOptions; steps: ClaimBudget };

/**
 * Runs one event alone.
 * @returns the error of an event that could not be saved because the database was busy or others hold its
 * player
 */
const runAlone = async (work: Work, { event, plan, options, steps }: Alone): Promise<unknown> => {
  try {
    if ("error" in plan) throw plan.error;
    const { plans } = plan;
    const own = atProjectTime(work, plans.get(event.projectId)!);
    await savepoint(work, () => runBatch(own, { events: [event], plans, steps }, options));
  } catch (error) {
    if (error instanceof EventsUnready) return error;
    throwUnlessTried(error, options);
    if (outageOf(error) !== undefined) return error;
    await countTry(work, { event, error, onError: options.onError });
  }
  return undefined;
};
