import type { ProjectPlan } from "../evaluation/project-plan.ts";
import { type RawBuilder, sql } from "kysely";
import { newId } from "../kernel/ids.ts";
import { outageOf, throwOutage } from "../kernel/outages.ts";
import { unanswered } from "../kernel/statements.ts";
import { atProjectTime, savepoint, type Transact, type Work } from "../kernel/work.ts";
import { type BatchObserver, lockUnheld, runBatch, sharedKeys } from "./batch.ts";
import {
  CLAIM_STEPS_MAX,
  ClaimBudget,
  type ClaimLimits,
  partsOf,
  scanApart,
  scanEvents,
  scanFavoured,
} from "./claim-budget.ts";
import { disclaim, holdClaim, noteClaim, noteEvaluating, removeNote } from "./claim-notes.ts";
import { type ClaimShare, ClaimShares } from "./claim-shares.ts";
import { EventsUnready, lockUnheldCounters } from "./lock-shared-counters.ts";
import { type PlanCache, tryLoadPlans } from "./plan.ts";
import {
  countTry,
  joinOthers,
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
    /** Commits a statement on another connection; absent where there is none. */
    beside?: (statement: RawBuilder<unknown>) => Promise<void>;
    /** Consecutive claims of these partitions that were rolled back because the database was busy. */
    busyInRow?: number;
    /** CPU time of evaluation, in ms; default: that of this thread. */
    cpuMs?: () => number;
    /** Called with the partitions that the claim leaves to others, before it continues. */
    onLeft: (cursors: readonly PartitionCursor[]) => void;
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
  // If none could be saved, the database is to blame; events apart lack others to compare with.
  if (busy[0] && busy[0].event.together !== null) return joinOthers(work, taken);
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
  /** Events that were found and left, to be evaluated apart: the first of their project and partition. */
  apart: readonly QueuedEvent[];
  /**
   * Resolves with the partitions whose events wait for a plan that is being compiled, once they can be
   * claimed again; never rejects.
   */
  preparing?: Promise<readonly number[]>;
};

/**
 * Processes one claim in two transactions: one locks partitions, reads events and notes that they are in hand;
 * the other locks players, loads, evaluates and saves. The number of statements is constant whatever the
 * number of events and partitions, so a claim takes as many of `cursors`, in this order, as make up a batch;
 * `onLeft` is called at once with those that it leaves to others. A claim that fails is rolled back and its
 * events are tried one by one under savepoints, so that a poisoned event delays and fails only itself, and
 * unreadable definitions only their own project. An event that takes too long is interrupted, and the others
 * wait for the next claim. Events of projects whose definitions are being changed, or whose plan takes long
 * to compile, stay in the queue meanwhile.
 * @throws errors that no event caused (`outages.ts`): everything is rolled back, no attempt is counted, and
 * the claim is to be retried. After BUSY_MAX consecutive attempts against a busy database, an event is blamed
 * that cannot be saved alone while others of the claim can
 */
export const processPartitions = async (
  options: ProcessOptions,
  cursors: readonly PartitionCursor[],
): Promise<Processed> => processSought(options, { cursors: onePerPartition(cursors) });

/**
 * Processes a group of events that is evaluated apart, as a claim that takes nothing else. Those stay in the
 * queue whose partition another worker has, or before which others of their project wait.
 * @throws as `processPartitions`
 */
export const processApart = async (
  options: Omit<ProcessOptions, "onLeft">,
  group: readonly QueuedEvent[],
): Promise<Processed> => processSought({ ...options, onLeft: () => undefined }, { cursors: [], group });

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

/** With `group`, nothing but these events is taken. */
type Sought = { cursors: readonly PartitionCursor[]; group?: readonly QueuedEvent[] };
type TryClaim = { id: string; claim: Sought; share: ClaimShare };
/** `found`: the events to be evaluated. */
type Found = Awaited<ReturnType<typeof scanEvents>> & { found: readonly QueuedEvent[] };

const processClaim = async (options: ProcessOptions, claim: Sought, run: RunClaim): Promise<DoneClaim> => {
  const { transact } = options;
  const share = (options.shares ?? new ClaimShares()).open();
  const steps = new ClaimBudget(CLAIM_STEPS_MAX, options.cpuMs);
  const id = newId();
  const { beside } = options;
  const onEvaluating = async (isEvaluating: boolean): Promise<void> =>
    beside?.(noteEvaluating(id, isEvaluating));
  const observed = claim.group && beside ? { ...options, onEvaluating } : options;
  try {
    const sought = await transact((work) => seek(work, { id, claim, share }, options));
    const { found } = sought;
    const ready =
      found.length === 0
        ? { events: [], taken: [], unprepared: [] }
        : await transact((work) => evaluate(work, { id, found, steps }, { run, options: observed }));
    return doneOf({ claim, share, sought, ready }, options);
  } catch (error) {
    await disclaim(transact, id);
    throw error;
  } finally {
    share.close(steps.taken);
  }
};

/** Finds the events of a claim, and notes them. */
const seek = async (work: Work, { id, claim, share }: TryClaim, options: ProcessOptions): Promise<Found> => {
  const sought = claim.group
    ? await scanApart(work, { group: claim.group, share }, options)
    : ((await scanFavoured(work, { claim, share }, options)) ??
      (await scanEvents(work, { claim, share }, options)));
  const left = sought.looked.filter(({ state }) => state === "LEFT");
  // The partitions left are no longer ours, also when this claim is retried.
  const leftParts = new Set(partsOf(left));
  claim.cursors = claim.cursors.filter(({ part }) => !leftParts.has(part));
  if (left.length > 0) options.onLeft(left);
  const found = share.found(sought.claimed.events);
  const isEvaluating = claim.group !== undefined && options.beside === undefined;
  // A server keeps what it has committed when the worker dies; what its own end loses is claimed again.
  if (options.beside) await unanswered(work.db, sql`set local synchronous_commit = off`);
  if (found.length > 0) await noteClaim(work, { id, events: found, isEvaluating });
  return { ...sought, found };
};

/** Evaluates the events of a claim that is noted, and saves what came of them. */
const evaluate = async (
  work: Work,
  { id, found, steps }: { id: string; found: readonly QueuedEvent[]; steps: ClaimBudget },
  { run, options }: { run: RunClaim; options: ProcessOptions },
): Promise<Ready> => {
  if (!(await holdClaim(work, id, partsOf(found)))) return { events: found, taken: [], unprepared: [] };
  const ready = await takeReady(work, { found, run, steps }, options);
  await removeNote(work, id);
  return ready;
};

const doneOf = (
  { claim, share, sought, ready }: { claim: Sought; share: ClaimShare; sought: Found; ready: Ready },
  { claimLimit }: ProcessOptions,
): DoneClaim => {
  const { looked, claimed, found } = sought;
  const { events, taken, unprepared } = ready;
  const isReady = new Set(events);
  const seen = { found: [...found, ...claimed.held], large: claimed.cut, events, taken };
  return {
    events: taken.length,
    parts: partsOf(taken),
    // Events of tenants that were put off may wait in any of them.
    again: sought.isFirst ? claim.cursors : nextCursors(looked, seen, claimLimit),
    unprepared,
    waiting: partsOf(found.filter((event) => !isReady.has(event))),
    busy: partsOf(looked.filter(({ state }) => state === "BUSY")),
    closed: sought.isFirst ? [] : partsOf(looked.filter(({ more, state }) => more && state !== "LEFT")),
    reopened: share.reopened,
    apart: claimed.apart,
  };
};

/** `events`: those that could be evaluated; `taken`: those that were. */
type Ready = {
  events: readonly QueuedEvent[];
  taken: readonly QueuedEvent[];
  unprepared: EventsUnready[];
};

/** Runs the events whose plans are cached or can be compiled at once. */
const takeReady = async (
  work: Work,
  { found, run, steps }: { found: readonly QueuedEvent[]; run: RunClaim; steps: ClaimBudget },
  options: ProcessOptions,
): Promise<Ready> => {
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
