import { atProjectTime } from "../kernel/project-time.ts";
import type { Work } from "../kernel/work.ts";
import { runBatch } from "./batch.ts";
import { CLAIM_STEPS_MAX, ClaimBudget } from "./claim-budget.ts";
import { cursorsBefore, partsOf, scanEvents, scanFavoured, scanOnly } from "./claim-look.ts";
import { type ProcessOptions, type RunClaim, throwUnlessTried } from "./claim-run.ts";
import { type ClaimShare, ClaimShares } from "./claim-shares.ts";
import type { ClaimHand } from "./in-hand.ts";
import { runOneByOne } from "./one-by-one.ts";
import { tryLoadPlans } from "./plan.ts";
import { nextCursors, onePerPartition, type PartitionCursor, type QueuedEvent } from "./queue.ts";
import { blameSlowest } from "./starved.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import { EventsUnready } from "./unready.ts";

export type Processed = {
  events: number;
  /** The claimed partitions. */
  parts: readonly number[];
  /** Where to claim again, since more events wait than were claimed. */
  again: readonly PartitionCursor[];
  /** Partitions locked by another worker. */
  busy: readonly number[];
  /** Partitions with events that other claims of the process hold until `reopened`. */
  closed: readonly number[];
  /** Resolves when it is time to claim these again; never rejects. */
  reopened: Promise<void>;
  /** Suspects that were found and left in the queue: for each project and partition the first ones. */
  suspects: readonly QueuedEvent[];
  /**
   * Resolves with the partitions whose events wait for a plan that is being compiled, once they can be
   * claimed again; never rejects.
   */
  preparing?: Promise<readonly number[]>;
};

/**
 * Processes one claim in one transaction: lock, claim, lock players, load, evaluate, save. The number of
 * statements is constant whatever the number of events and partitions, so a claim takes as many of `cursors`,
 * in this order, as make up a batch; `onLeft` is called at once with those that it leaves to others. A claim
 * that fails is rolled back and its events are tried one by one under savepoints, so that a poisoned event
 * delays and fails only itself, and unreadable definitions only their own project. Events of projects whose
 * definitions are being changed, or whose plan takes long to compile, stay in the queue meanwhile.
 * @throws errors that no event caused (`outages.ts`): everything is rolled back, no attempt is counted, and
 * the claim is to be retried. After BUSY_MAX consecutive attempts against a busy database, an event is blamed
 * that cannot be saved alone while others of the claim can; an event that took so long that its transaction
 * was ended is blamed at once
 */
export const processPartitions = async (
  options: ProcessOptions,
  cursors: readonly PartitionCursor[],
): Promise<Processed> => processSought(options, { cursors: onePerPartition(cursors) });

/**
 * Processes suspects in a transaction of their own, as a claim that takes nothing else; their partitions
 * alone are claimed. Those stay in the queue whose partition another worker has, or before which others of
 * their project wait.
 * @throws as `processPartitions`
 */
export const processSuspects = async (
  options: Omit<ProcessOptions, "onLeft">,
  only: readonly QueuedEvent[],
): Promise<Processed> =>
  processSought({ ...options, onLeft: () => undefined }, { cursors: cursorsBefore(only), only });

const processSought = async (options: ProcessOptions, claim: Sought): Promise<Processed> => {
  try {
    return prepared(options, await processClaim(options, claim, runTogether));
  } catch (error) {
    throwUnlessTried(error, options);
    // The cause is logged below, by the event that reproduces it alone.
    return prepared(options, await processClaim(options, claim, runOneByOne));
  }
};

/** A claim with the plans to prepare before its skipped events can be processed. */
type DoneClaim = Processed & { unprepared: readonly EventsUnready[]; waiting: readonly number[] };

const prepared = (options: ProcessOptions, { unprepared, waiting, ...done }: DoneClaim): Processed =>
  unprepared.length === 0 ? done : { ...done, preparing: prepareAll(options, unprepared, waiting) };

const prepareAll = async (
  { transact }: ProcessOptions,
  unprepared: readonly EventsUnready[],
  parts: readonly number[],
): Promise<readonly number[]> => {
  // Plans that could not be read now are requested again by the next claim.
  await Promise.allSettled(unprepared.map((plans) => plans.prepare(transact)));
  return parts;
};

/** With `only`, nothing but these events is taken. */
type Sought = { cursors: readonly PartitionCursor[]; only?: readonly QueuedEvent[] };
type TryClaim = { claim: Sought; share: ClaimShare; hand: ClaimHand | undefined; steps: ClaimBudget };

const processClaim = async (options: ProcessOptions, claim: Sought, run: RunClaim): Promise<DoneClaim> => {
  const share = (options.shares ?? new ClaimShares()).open();
  const hand = options.hand?.open();
  const steps = new ClaimBudget(CLAIM_STEPS_MAX, options.cpuMs);
  try {
    return await options.transact((work) => tryClaim(work, { claim, share, hand, steps }, { run, options }));
  } catch (error) {
    const { transact, onError } = options;
    const blamed = await blameSlowest(transact, { error, steps, onError });
    if (blamed === undefined) throw error;
    const none = { events: 0, busy: [], closed: [], suspects: [], unprepared: [], waiting: [] };
    return { ...none, parts: [blamed.part], again: claim.cursors, reopened: share.reopened };
  } finally {
    share.close(steps.taken);
    hand?.close();
  }
};

const tryClaim = async (
  work: Work,
  { claim, share, hand, steps }: TryClaim,
  { run, options }: { run: RunClaim; options: ProcessOptions },
): Promise<DoneClaim> => {
  const { claimLimit, onLeft } = options;
  const { reopened } = share;
  const sought = claim.only
    ? await scanOnly(work, { only: claim.only, share })
    : ((await scanFavoured(work, { claim, share }, options)) ??
      (await scanEvents(work, { claim, share }, options)));
  const { looked, claimed } = sought;
  const left = looked.filter(({ state }) => state === "LEFT");
  // The partitions left are no longer ours, also when this claim is retried.
  const leftParts = new Set(partsOf(left));
  claim.cursors = claim.cursors.filter(({ part }) => !leftParts.has(part));
  if (left.length > 0) onLeft(left);
  const found = share.found(claimed.events);
  // Before any of it is evaluated: the process may not come back from that.
  hand?.take(found);
  // Of other claims it is not noted: an event that was in hand is a suspect first.
  const observed = claim.only
    ? { ...options, onEvaluating: () => hand?.evaluate(), onEvaluated: () => hand?.evaluated() }
    : options;
  const { events, taken, unprepared } = await takeReady(work, { found, run, steps }, observed);
  const ready = new Set(events);
  const waiting = partsOf(found.filter((event) => !ready.has(event)));
  return {
    events: taken.length,
    parts: partsOf(taken),
    // Events of tenants that were put off may wait in any of them.
    again: sought.isFirst
      ? claim.cursors
      : nextCursors(
          looked,
          { found: [...found, ...claimed.held], large: claimed.cut, events, taken },
          claimLimit,
        ),
    unprepared,
    waiting,
    busy: looked.filter(({ state }) => state === "BUSY").map(({ part }) => part),
    closed: sought.isFirst ? [] : partsOf(looked.filter(({ more, state }) => more && state !== "LEFT")),
    reopened,
    suspects: claimed.suspects,
  };
};

/** Runs the events whose plans are cached or can be compiled at once. */
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
  const aheadOf = ({ projectId }: QueuedEvent): number => plans.get(projectId)!.clockAheadMs;
  const taken: QueuedEvent[] = [];
  for (const [clockAheadMs, own] of Map.groupBy(events, aheadOf)) {
    const batch = { events: own, plans: plansAhead(plans, clockAheadMs), steps };
    const done = await runIfReady(atProjectTime(work, { clockAheadMs }), batch, { options, taken });
    taken.push(...done);
    if (done.length < own.length || steps.isSpent) break;
  }
  return taken;
};

/** Returns the plans of projects whose clocks agree: all of them, unless a sandbox's clock was advanced. */
const plansAhead = (plans: Map<string, ProjectPlan>, aheadMs: number): Map<string, ProjectPlan> => {
  const isOther = ({ clockAheadMs }: ProjectPlan): boolean => clockAheadMs !== aheadMs;
  if (![...plans.values()].some(isOther)) return plans;
  return new Map([...plans].filter(([, plan]) => !isOther(plan)));
};

/** Runs a batch; one that is not ready waits for the next claim, if others of the claim were saved before. */
const runIfReady = async (
  work: Work,
  batch: Parameters<typeof runBatch>[1],
  { options, taken }: { options: ProcessOptions; taken: readonly QueuedEvent[] },
): Promise<readonly QueuedEvent[]> => {
  try {
    return await runBatch(work, batch, options);
  } catch (error) {
    if (taken.length === 0 || !(error instanceof EventsUnready)) throw error;
    return [];
  }
};
