import { outageOf, throwOutage } from "../kernel/outages.ts";
import type { Transact, Work } from "../kernel/work.ts";
import { savepoint } from "../kernel/savepoint.ts";
import { type BatchEars, runBatch, sharedKeys } from "./batch.ts";
import { lockUnheld } from "./batch-players.ts";
import { CLAIM_STEPS_MAX, ClaimBudget } from "./claim-budget.ts";
import { type ClaimLimits, partsOf, seek, seekFirst } from "./claim-look.ts";
import { type ClaimShare, ClaimShares } from "./claim-shares.ts";
import { countTry } from "./fail-event.ts";
import { type PlanCache, tryLoadPlans } from "./plan.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import { type Place, placesAgain, type QueuedEvent } from "./queue.ts";
import { lockUnheldCounters } from "./lock-shared-counters.ts";
import { blameSlowest } from "./starved.ts";
import { EventsUnready } from "./unready.ts";

export type ProcessOptions = BatchEars &
  ClaimLimits & {
    transact: Transact;
    plans: PlanCache;
    /** Shares the claims of the process among projects; default: there are no other claims. */
    shares?: ClaimShares;
    /** How often in a row claims of these partitions have been undone because the database was busy. */
    busyInRow?: number;
    /** The CPU that evaluation has taken, in ms; default: that of this thread. */
    cpuMs?: () => number;
    /** Hears of the places that a claim leaves, before it goes on. */
    onLeft: (places: readonly Place[]) => void;
    onError: (error: unknown, event: QueuedEvent) => void;
  };

export type Processed = {
  events: number;
  /** The partitions whose events they were. */
  parts: readonly number[];
  /** Where to look again, since more waits there than was claimed. */
  again: readonly Place[];
  /** Partitions that another worker has. */
  busy: readonly number[];
  /** Partitions where events wait that other claims of the process keep from this one, until `reopened`. */
  closed: readonly number[];
  /** When it is time to look there again; never rejects. */
  reopened: Promise<void>;
  /**
   * Where events wait for the plan of their project, which is compiled now: resolves with these partitions
   * when it is time to look there again, and never rejects.
   */
  preparing?: Promise<readonly number[]>;
};

/**
 * Processes one claim in one transaction: lock, claim, lock players, load, evaluate, save. A constant number
 * of statements whatever the number of events and of partitions, so a claim takes as many of `places`, in
 * this order, as make up a batch; `onLeft` hears at once of those that it leaves to others. When a claim
 * fails, it is undone and its events are tried one by one under savepoints, so that a poisoned event delays
 * and fails only itself, and definitions that cannot be read only their own project. Events of projects whose
 * definitions are being changed, or whose plan takes long to compile, stay in the queue meanwhile.
 * @throws what is no event's fault (`outages.ts`): all is undone, no try is counted, and it is to be run
 * again. Where the database was too busy BUSY_MAX times in a row, an event is to blame that alone cannot be
 * saved while others of the claim can; at once, an event that took so long that its transaction was ended
 */
export const processPartitions = async (
  options: ProcessOptions,
  places: readonly Place[],
): Promise<Processed> => {
  const claim = { places };
  try {
    return prepared(options, await processClaim(options, claim, runTogether));
  } catch (error) {
    throwUnlessTried(error, options);
    // What it was is logged below, by the event that does it again alone.
    return prepared(options, await processClaim(options, claim, runOneByOne));
  }
};

/** Claims in a row that may be undone because the database was busy, before events are tried one by one. */
export const BUSY_MAX = 10;
/** Events of a claim that may be found to keep the database busy by themselves; more are somebody else's. */
const BUSY_ALONE_MAX = 3;

const isTooOftenBusy = ({ busyInRow = 0 }: ProcessOptions): boolean => busyInRow >= BUSY_MAX;

/** A claim, with what is to be compiled before those of its events are taken up that it had to leave. */
type DoneClaim = Processed & { unprepared: readonly EventsUnready[]; waiting: readonly number[] };

const prepared = (options: ProcessOptions, { unprepared, waiting, ...done }: DoneClaim): Processed =>
  unprepared.length === 0 ? done : { ...done, preparing: prepareAll(options, unprepared, waiting) };

const prepareAll = async (
  { transact }: ProcessOptions,
  unprepared: readonly EventsUnready[],
  parts: readonly number[],
): Promise<readonly number[]> => {
  // What could not be read now is asked for again by the next claim.
  await Promise.allSettled(unprepared.map((plans) => plans.prepare(transact)));
  return parts;
};

type Claim = { events: readonly QueuedEvent[]; steps: ClaimBudget };
/** @returns the events that were taken up; those after them stay in the queue */
type RunClaim = (work: Work, claim: Claim, options: ProcessOptions) => Promise<readonly QueuedEvent[]>;

type TryClaim = { claim: { places: readonly Place[] }; share: ClaimShare; steps: ClaimBudget };

const processClaim = async (
  options: ProcessOptions,
  claim: { places: readonly Place[] },
  run: RunClaim,
): Promise<DoneClaim> => {
  const share = (options.shares ?? new ClaimShares()).open();
  const steps = new ClaimBudget(CLAIM_STEPS_MAX, options.cpuMs);
  try {
    return await options.transact((work) => tryClaim(work, { claim, share, steps }, { run, options }));
  } catch (error) {
    const { transact, onError } = options;
    const blamed = await blameSlowest(transact, { error, steps, onError });
    if (blamed === undefined) throw error;
    const none = { events: 0, busy: [], closed: [], unprepared: [], waiting: [] };
    return { ...none, parts: [blamed.part], again: claim.places, reopened: share.reopened };
  } finally {
    share.close(steps.taken);
  }
};

const tryClaim = async (
  work: Work,
  { claim, share, steps }: TryClaim,
  { run, options }: { run: RunClaim; options: ProcessOptions },
): Promise<DoneClaim> => {
  const { claimLimit, onLeft } = options;
  const { reopened } = share;
  const sought =
    (await seekFirst(work, { claim, share }, options)) ?? (await seek(work, { claim, share }, options));
  const { looked, claimed } = sought;
  const left = looked.filter(({ state }) => state === "LEFT");
  // What was left is another's from now on, also when this is tried again.
  const leftParts = new Set(partsOf(left));
  claim.places = claim.places.filter(({ part }) => !leftParts.has(part));
  if (left.length > 0) onLeft(left);
  const found = share.found(claimed.events);
  const { events, taken, unprepared } = await takeReady(work, { found, run, steps }, options);
  const ready = new Set(events);
  const waiting = partsOf(found.filter((event) => !ready.has(event)));
  return {
    events: taken.length,
    parts: partsOf(taken),
    // Those who were put off wait in any of them.
    again: sought.isFirst
      ? claim.places
      : placesAgain(looked, { found, large: claimed.cut, events, taken }, claimLimit),
    unprepared,
    waiting,
    busy: looked.filter(({ state }) => state === "BUSY").map(({ part }) => part),
    closed: sought.isFirst ? [] : partsOf(looked.filter(({ more, state }) => more && state !== "LEFT")),
    reopened,
  };
};

/** Runs those of the events that were found whose projects have their plans, or can have them at once. */
const takeReady = async (
  work: Work,
  { found, run, steps }: { found: readonly QueuedEvent[]; run: RunClaim; steps: ClaimBudget },
  options: ProcessOptions,
): Promise<{
  events: readonly QueuedEvent[];
  taken: readonly QueuedEvent[];
  unprepared: EventsUnready[];
}> => {
  const unprepared: EventsUnready[] = [];
  let events = found;
  for (;;) {
    try {
      const taken = events.length > 0 ? await run(work, { events, steps }, options) : [];
      return { events, taken, unprepared };
    } catch (error) {
      if (!(error instanceof EventsUnready)) throw error;
      unprepared.push(error);
      events = events.filter((event) => !error.isLate(event));
    }
  }
};

const runTogether: RunClaim = async (work, { events, steps }, options) => {
  const plans = await tryLoadPlans(work, events, options.plans);
  return runBatch(work, { events, plans, steps }, options);
};

/** The plan of one project, or what was thrown when it was loaded. */
type LoadedPlan = { plans: Map<string, ProjectPlan> } | { error: unknown };

const runOneByOne: RunClaim = async (work, { events, steps }, options) => {
  const loaded = new Map<string, LoadedPlan>();
  for (const [projectId, own] of Map.groupBy(events, (event) => event.projectId))
    loaded.set(projectId, await tryPlan(work, own, options.plans));
  const ahead = await lockAhead(work, events, { loaded: [...loaded.values()], options, steps });
  const taken: QueuedEvent[] = [];
  const busy: { event: QueuedEvent; error: unknown }[] = [];
  for (const event of ahead) {
    if (taken.length > 0 && steps.isSpent) break;
    const error = await runAlone(work, { event, plan: loaded.get(event.projectId)!, options, steps });
    // What was done already is not to be done again: the rest stays in the queue.
    if (error instanceof EventsUnready && taken.length > 0) break;
    if (error instanceof EventsUnready) throw error;
    if (error !== undefined) busy.push({ event, error });
    taken.push(event);
    if (busy.length > BUSY_ALONE_MAX) throw busy[0]!.error;
  }
  await blameBusy(work, { busy, taken }, options);
  return taken;
};

/** Counts a try of the events that could not be saved where others of the claim could. */
const blameBusy = async (
  work: Work,
  { busy, taken }: { busy: readonly { event: QueuedEvent; error: unknown }[]; taken: readonly QueuedEvent[] },
  { onError }: ProcessOptions,
): Promise<void> => {
  // Where none could be saved, the database is to blame.
  if (busy.length > 0 && busy.length === taken.length) throw busy[0]!.error;
  for (const { event, error } of busy) await countTry(work, { event, error, onError });
};

/** @param events those of one project */
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
 * Takes the locks of a whole claim at once, in the one order that everybody keeps: events that are tried one
 * by one would take them in theirs, and wait for others in a ring.
 * @returns the events whose locks it has taken: the first ones, and at least one
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
      const { keys, covered } = await sharedKeys(plans, events, work.now.getTime(), steps);
      await lockUnheldCounters(work, keys);
      return events.slice(0, covered);
    });
  } catch (error) {
    if (error instanceof EventsUnready) throw error;
    throwUnlessTried(error, options);
    // Each event then takes its own, and shows what is wrong.
    return events;
  }
};

type Alone = { event: QueuedEvent; plan: LoadedPlan; options: ProcessOptions; steps: ClaimBudget };

/**
 * @returns the error of an event that could not be saved because the database was busy, or that of one that
 * others hold
 */
const runAlone = async (work: Work, { event, plan, options, steps }: Alone): Promise<unknown> => {
  try {
    if ("error" in plan) throw plan.error;
    const { plans } = plan;
    await savepoint(work, () => runBatch(work, { events: [event], plans, steps }, options));
  } catch (error) {
    if (error instanceof EventsUnready) return error;
    throwUnlessTried(error, options);
    if (outageOf(error) !== undefined) return error;
    await countTry(work, { event, error, onError: options.onError });
  }
  return undefined;
};

/** Throws an outage on, but not that of a busy database that has been waited for long enough. */
const throwUnlessTried = (error: unknown, options: ProcessOptions): void => {
  if (outageOf(error) !== "busy" || !isTooOftenBusy(options)) throwOutage(error);
};
