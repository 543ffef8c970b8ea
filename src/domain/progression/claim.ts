import { sql } from "kysely";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import { outageOf, throwOutage } from "../kernel/outages.ts";
import { BATCH, chosenTimeouts } from "../kernel/timeouts.ts";
import { atProjectTime, savepoint, type Transact, type Work } from "../kernel/work.ts";
import { type BatchObserver, lockUnheld, runBatch, sharedKeys } from "./batch.ts";
import {
  CLAIM_STEPS_MAX,
  ClaimBudget,
  type ClaimLimits,
  cursorsBefore,
  partsOf,
  scanEvents,
  scanFavoured,
  scanOnly,
} from "./claim-budget.ts";
import { type ClaimShare, ClaimShares, SLOW_EVENT_MS } from "./claim-shares.ts";
import type { ClaimHand, InHand } from "./in-hand.ts";
import { EventsUnready, lockUnheldCounters } from "./lock-shared-counters.ts";
import { type PlanCache, tryLoadPlans } from "./plan.ts";
import {
  countTry,
  holdPartition,
  nextCursors,
  onePerPartition,
  type PartitionCursor,
  type QueuedEvent,
} from "./queue.ts";

export type ProcessOptions = BatchObserver &
  ClaimLimits & {
    transact: Transact;
    plans: PlanCache;
    /** Shares the claims of the process among projects; default: this is the only claim. */
    shares?: ClaimShares;
    /** What the process has in hand, and the suspects that it leaves; default: neither is known. */
    hand?: InHand;
    /** Consecutive claims of these partitions that were rolled back because the database was busy. */
    busyInRow?: number;
    /** CPU time of evaluation, in ms; default: that of this thread. */
    cpuMs?: () => number;
    /** Called with the partitions that the claim leaves to others, before it continues. */
    onLeft: (cursors: readonly PartitionCursor[]) => void;
    onError: (error: unknown, event: QueuedEvent) => void;
  };

/** Consecutive claims rolled back by a busy database before the events are tried one by one. */
export const BUSY_MAX = 10;

const isTooOftenBusy = ({ busyInRow = 0 }: ProcessOptions): boolean => busyInRow >= BUSY_MAX;

type Claim = { events: readonly QueuedEvent[]; steps: ClaimBudget };
/** @returns the events that were evaluated, of each player the first ones; the rest stays in the queue */
type RunClaim = (work: Work, claim: Claim, options: ProcessOptions) => Promise<readonly QueuedEvent[]>;

/** Rethrows outages, except a busy database that has been retried often enough. */
const throwUnlessTried = (error: unknown, options: ProcessOptions): void => {
  if (outageOf(error) !== "busy" || !isTooOftenBusy(options)) throwOutage(error);
};

/** Events of a claim that may each be blamed for a busy database; more have another cause. */
const BUSY_ALONE_MAX = 3;

/** The plan of one project, or the error of loading it. */
type LoadedPlan = { plans: Map<string, ProjectPlan> } | { error: unknown };

/** Runs the events of a claim under savepoints: one that fails counts a try and undoes only itself. */
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

/** Error of an attempt that blocked the process for so long that its transaction was lost. */
class EvaluationTooLong extends Error {
  constructor(ms: number) {
    super(`evaluation took ${Math.round(ms)} ms without a pause, and its transaction was lost meanwhile`);
  }
}

type FailedClaim = {
  error: unknown;
  steps: ClaimBudget;
  onError: (error: unknown, event: QueuedEvent) => void;
};

/**
 * Counts a failed attempt for the slowest event of a claim that an outage rolled back, if that event blocked
 * this process for half as long as a transaction may be idle: PostgreSQL ends such transactions and drops
 * unresponsive clients, so the event itself caused the outage. Runs in its own transaction.
 * @returns the event that was blamed; undefined when there is none: then `error` is a genuine outage
 */
const blameSlowest = async (
  transact: Transact,
  { error, steps: { slowest }, onError }: FailedClaim,
): Promise<QueuedEvent | undefined> => {
  if (outageOf(error) === undefined || slowest === undefined) return undefined;
  const { idleMs } = chosenTimeouts() ?? BATCH;
  if (slowest.ms < Math.min(SLOW_EVENT_MS, idleMs / 2)) return undefined;
  const { event, ms } = slowest;
  try {
    await transact(async (work) => {
      await holdPartition(work, event.part);
      if (await isWaiting(work, event))
        await countTry(work, { event, error: new EvaluationTooLong(ms), onError });
    });
    return event;
  } catch (again) {
    if (outageOf(again) === undefined) throw again;
    return undefined;
  }
};

/** Returns whether the event is still queued, with no attempt counted since it was claimed. */
const isWaiting = async ({ db }: Work, event: QueuedEvent): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from event_q where project_id = ${event.projectId} and part = ${event.part}
      and seq = ${event.seq} and attempts = ${event.attempts}`.execute(db);
  return rows.length > 0;
};

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
