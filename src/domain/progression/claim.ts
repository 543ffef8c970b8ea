import { setTimeout as delay } from "node:timers/promises";
import { type RawBuilder, sql } from "kysely";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import { idBefore, newId } from "../kernel/ids.ts";
import { outageOf, throwOutage } from "../kernel/outages.ts";
import { unanswered } from "../kernel/statements.ts";
import { atProjectTime, type Transact, type Work } from "../kernel/work.ts";
import { type BatchObserver, ClaimBudget, runBatch } from "./batch.ts";
import {
  disclaim,
  holdClaim,
  lineOf,
  noteClaim,
  noteEvaluating,
  type NoteObserver,
  removeNote,
  settleNotes,
  sift,
} from "./claim-notes.ts";
import { EventsUnready } from "./lock-shared-counters.ts";
import { type PlanCache, tryLoadPlans } from "./plan.ts";
import {
  claimEvents,
  countTry,
  FIRST_PROJECT,
  joinOthers,
  lockPartitions,
  onePerPartition,
  type PartitionCursor,
  type PartitionScan,
  type QueuedEvent,
} from "./queue.ts";

/** How long a tenant counts as there after events of it were found, in ms. */
const SEEN_MS = 10_000;
/** Maximum projects that rest at once: claims read the queue around each of them. */
const RESTING_MAX = 100;

/**
 * What the claims of a process know of one another, so that no player waits for another tenant's events: which
 * projects they leave in the queue for now, since an event of them has blocked the whole process or their
 * definitions are being compiled, and whether more than one tenant has events.
 */
export class ClaimOrder {
  readonly #nowMs: () => number;
  readonly #resting = new Map<string, Promise<void>>();
  #latest = { tenantId: "", ms: -Infinity };
  #other = { tenantId: "", ms: -Infinity };

  /** @param nowMs a monotonic clock */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Projects whose events stay in the queue. */
  get resting(): readonly string[] {
    return [...this.#resting.keys()];
  }

  /** Resolves when the first of them rests no longer. */
  get rested(): Promise<void> {
    return Promise.race(this.#resting.values());
  }

  /** Leaves the events of a project in the queue until `over`, which never rejects. */
  rest(projectId: string, over: Promise<unknown>): void {
    if (this.#resting.size >= RESTING_MAX || this.#resting.has(projectId)) return;
    this.#resting.set(
      projectId,
      over.then(() => void this.#resting.delete(projectId)),
    );
  }

  /** Notes whose events a claim has found. */
  seen(tenantIds: Iterable<string>): void {
    const ms = this.#nowMs();
    for (const tenantId of tenantIds) {
      if (tenantId !== this.#latest.tenantId) this.#other = this.#latest;
      this.#latest = { tenantId, ms };
    }
  }

  /** Whether several tenants have had events lately. */
  get isShared(): boolean {
    return this.#other.ms > this.#nowMs() - SEEN_MS;
  }
}

export type ProcessOptions = BatchObserver &
  NoteObserver & {
    transact: Transact;
    plans: PlanCache;
    /** Maximum events of one claim. */
    claimLimit: number;
    /**
     * Partitions are claimed until this many events wait in them, and a claim has at most twice as many while
     * several tenants have events; default `claimLimit`.
     */
    claimTogether?: number;
    /** Whether new events wait in all of the partitions, so that those of several are taken at once. */
    isWoken?: boolean;
    /** What the claims of the process know of one another; default: this is the only claim. */
    order?: ClaimOrder;
    /** Commits a statement on another connection; absent where there is none. */
    beside?: (statement: RawBuilder<unknown>) => Promise<void>;
    /** Consecutive claims of these partitions that were rolled back because the database was busy. */
    busyInRow?: number;
    /** Called with the partitions that the claim leaves to others, before it continues. */
    onLeft: (cursors: readonly PartitionCursor[]) => void;
  };

/** Consecutive claims rolled back by a busy database before the events are tried one by one. */
export const BUSY_MAX = 10;
/** Events of a claim that may each be blamed for a busy database; more have another cause. */
const BUSY_ALONE_MAX = 3;
/** Partitions that a claim of new events takes, whatever else waits in them. */
const WOKEN_PARTS = 8;
/** CPU time in ms from which an event keeps its project's other events in the queue for a while. */
const SLOW_EVENT_MS = 200;
/** How long, as a multiple of that time: the process then has most of its time for the others. */
const REST_FACTOR = 4;

export type Processed = {
  events: number;
  /** The claimed partitions. */
  parts: readonly number[];
  /** Where to claim again, since more events wait than were claimed. */
  again: readonly PartitionCursor[];
  /** Partitions locked by another worker. */
  busy: readonly number[];
  /** Partitions with events of projects that rest until `reopened`. */
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

/** With `group`, the events of one project and partition, nothing but these is taken. */
type Sought = { cursors: readonly PartitionCursor[]; group?: readonly QueuedEvent[] };
/** @returns the events that were dealt with, of each player the first ones; the rest stays in the queue */
type Run = (
  work: Work,
  events: readonly QueuedEvent[],
  options: SeekOptions,
) => Promise<readonly QueuedEvent[]>;

/**
 * Processes one claim in two transactions: one locks partitions, reads events and notes that they are in hand;
 * the other locks players, loads, evaluates and saves. The number of statements is constant whatever the
 * number of events and partitions, so a claim takes as many of `cursors`, in this order, as make up a batch;
 * `onLeft` is called at once with those that it leaves to others. A claim that fails is rolled back and its
 * events are claimed one by one, so that a poisoned event delays and fails only itself, and unreadable
 * definitions only their own project. An event that takes too long is interrupted, and the others wait for the
 * next claim. Events of projects whose definitions are being changed or compiled stay in the queue meanwhile.
 * @throws errors that no event caused (`outages.ts`): everything is rolled back, no attempt is counted, and
 * the claim is to be retried. After BUSY_MAX consecutive attempts against a busy database, an event is blamed
 * that cannot be saved alone while others of the claim can
 */
export const processPartitions = (
  options: ProcessOptions,
  cursors: readonly PartitionCursor[],
): Promise<Processed> => processSought(options, { cursors: onePerPartition(cursors) });

/**
 * Processes a group of events that is evaluated apart, as a claim that takes nothing else. Those stay in the
 * queue whose partition another worker has, or before which others of their project wait.
 * @throws as `processPartitions`
 */
export const processApart = (
  options: Omit<ProcessOptions, "onLeft">,
  group: readonly QueuedEvent[],
): Promise<Processed> => processSought({ ...options, onLeft: () => undefined }, soughtOf(group));

const soughtOf = (group: readonly QueuedEvent[]): Sought => {
  const { part, projectId } = group[0]!;
  return { cursors: [{ part, afterProject: idBefore(projectId) }], group };
};

/** Rethrows outages, except a busy database that has been retried often enough. */
const throwUnlessTried = (error: unknown, { busyInRow = 0 }: ProcessOptions): void => {
  if (outageOf(error) !== "busy" || busyInRow < BUSY_MAX) throwOutage(error);
};

const processSought = async (options: ProcessOptions, sought: Sought): Promise<Processed> => {
  const found: QueuedEvent[] = [];
  try {
    return await processClaim(options, sought, (work, events, own) => {
      found.splice(0, found.length, ...events);
      return runTogether(work, events, own);
    });
  } catch (error) {
    throwUnlessTried(error, options);
    // Another worker has noted a claim of a partition since this one looked at it.
    if (found.length === 0) return processClaim(options, sought, runTogether);
    return processEach(options, found);
  }
};

type Busy = { event: QueuedEvent; error: unknown };

/** Claims each event alone: one that fails counts a try. */
const processEach = async (options: ProcessOptions, found: readonly QueuedEvent[]): Promise<Processed> => {
  const { all, busy } = await claimEach(options, found);
  const isSaved = all.some(({ events }) => events > 0);
  if (busy[0]?.event.together != null) await options.transact((work) => joinOthers(work, found));
  // If none could be saved, the database is to blame.
  else if (busy[0] && (busy.length > BUSY_ALONE_MAX || !isSaved)) throw busy[0].error;
  else for (const { event, error } of busy) all.push(await blame(options, event, error));
  const parts = partsOf(found);
  const prepared = await Promise.all(all.flatMap((done) => done.preparing ?? []));
  return {
    events: all.reduce((sum, { events }) => sum + events, 0),
    parts,
    again: parts.map((part) => ({ part, afterProject: FIRST_PROJECT })),
    busy: all.flatMap((done) => done.busy),
    closed: [],
    reopened: Promise.resolve(),
    apart: [],
    ...(prepared.length > 0 ? { preparing: Promise.resolve(prepared.flat()) } : {}),
  };
};

/** @returns the claims, and the events that could not be saved since the database was busy */
const claimEach = async (
  options: ProcessOptions,
  found: readonly QueuedEvent[],
): Promise<{ all: Processed[]; busy: Busy[] }> => {
  const all: Processed[] = [];
  const busy: Busy[] = [];
  for (const event of found) {
    if (busy.some((one) => lineOf(one.event) === lineOf(event))) continue;
    try {
      all.push(await processClaim(options, soughtOf([event]), runTogether));
    } catch (error) {
      throwUnlessTried(error, options);
      if (outageOf(error) === undefined) all.push(await blame(options, event, error));
      else busy.push({ event, error });
      if (busy.length > BUSY_ALONE_MAX) break;
    }
  }
  return { all, busy };
};

/** Counts a failed attempt of an event that still waits. */
const blame = (options: ProcessOptions, event: QueuedEvent, error: unknown): Promise<Processed> =>
  processClaim(options, soughtOf([event]), async (work, events) => {
    for (const one of events) await countTry(work, { event: one, error, onError: options.onError });
    return events;
  });

export const partsOf = (events: readonly { part: number }[]): number[] => [
  ...new Set(events.map(({ part }) => part)),
];

/** `found`: the events to be evaluated; `held`: those that are or wait for others to be evaluated apart. */
type Found = {
  looked: readonly PartitionScan[];
  found: readonly QueuedEvent[];
  held: readonly QueuedEvent[];
  apart: readonly QueuedEvent[];
  places: ReadonlyMap<number, string>;
  /** Resolves when the first of the projects that were left out rests no longer. */
  reopened: Promise<void>;
};

/** `late`: events that could not be evaluated yet; `taken`: those that were; `isLost`: others have the claim. */
type Ready = {
  late: readonly QueuedEvent[];
  taken: readonly QueuedEvent[];
  unprepared: readonly EventsUnready[];
  isLost?: boolean;
};

const NOTHING: Ready = { late: [], taken: [], unprepared: [] };

const processClaim = async (given: ProcessOptions, sought: Sought, run: Run): Promise<Processed> => {
  const { transact, beside, order = new ClaimOrder() } = given;
  const id = newId();
  const onEvaluating = async (isEvaluating: boolean): Promise<void> =>
    beside?.(noteEvaluating(id, isEvaluating));
  const options = { ...given, order, ...(isApart(sought.group) && beside ? { onEvaluating } : {}) };
  try {
    const seen = await transact((work) => seek(work, { id, sought }, options));
    const { found } = seen;
    const ready =
      found.length === 0
        ? NOTHING
        : await transact((work) =>
            evaluate(work, { id, found, run: (evaluated) => run(work, evaluated, options) }),
          );
    return doneOf(seen, ready, options);
  } catch (error) {
    await disclaim(transact, id);
    throw error;
  }
};

type SeekOptions = ProcessOptions & { order: ClaimOrder };

/** Finds the events of a claim, and notes them. */
const seek = async (
  work: Work,
  { id, sought }: { id: string; sought: Sought },
  options: SeekOptions,
): Promise<Found> => {
  const { group } = sought;
  const { order, beside } = options;
  const [closed, reopened] = [order.resting, order.rested];
  const sizes = sizesOf(sought, options);
  const looked = await lookAt(work, { cursors: sought.cursors, closed, ...sizes }, options);
  const left = looked.filter(({ state }) => state === "LEFT");
  if (left.length > 0) options.onLeft(left);
  const mine = looked.filter(({ state }) => state === "MINE");
  const claimed = await claimEvents(work, mine, { closed, ...sizes });
  order.seen(claimed.tenants);
  const { free, held, apart } = sift(claimed.events);
  const { places } = claimed;
  const seen = group
    ? { looked, places, reopened, found: firstOf(claimed.events, group), held: [], apart: [] }
    : { looked, places, reopened, found: free, held, apart };
  // A server keeps what it has committed when the worker dies; what its own end loses is claimed again.
  if (beside) await unanswered(work.db, sql`set local synchronous_commit = off`);
  const isEvaluating = isApart(group) && beside === undefined;
  if (seen.found.length > 0) await noteClaim(work, { id, events: seen.found, isEvaluating });
  return seen;
};

/** Whether these events were in hand when a process died. */
const isApart = (group: Sought["group"]): boolean => group?.[0]?.together != null;

const sizesOf = (
  { group }: Sought,
  { claimLimit, claimTogether = claimLimit, order, isWoken }: SeekOptions,
) => {
  if (group) return { parts: 1, together: 1, each: 1, limit: group.length, projects: 1 };
  const limit = order.isShared ? Math.min(claimLimit, 2 * claimTogether) : claimLimit;
  return { parts: isWoken ? WOKEN_PARTS : 1, together: claimTogether, each: limit + 1, limit };
};

/** Locks partitions, and settles what dead processes had in hand in them. */
const lookAt = async (
  work: Work,
  { cursors, ...sizes }: Parameters<typeof lockPartitions>[2] & { cursors: readonly PartitionCursor[] },
  observer: NoteObserver,
): Promise<PartitionScan[]> => {
  const locked = await lockPartitions(work, cursors, sizes);
  const noted = partsOf(locked.filter(({ state, isNoted }) => state === "MINE" && isNoted));
  const asked = noted.length > 0 ? await settleNotes(work, noted, observer) : [];
  return locked.map((place) => (asked.includes(place.part) ? { ...place, state: "BUSY" as const } : place));
};

/** Returns those of a group before which nothing else waits. */
const firstOf = (events: readonly QueuedEvent[], group: readonly QueuedEvent[]): readonly QueuedEvent[] => {
  const ids = new Set(group.map(({ eventId }) => eventId));
  const end = events.findIndex(({ eventId }) => !ids.has(eventId));
  return end === -1 ? events : events.slice(0, end);
};

type RunFound = (events: readonly QueuedEvent[]) => Promise<readonly QueuedEvent[]>;

/** Evaluates the events of a claim that is noted, without those that are not ready, and saves what came of them. */
const evaluate = async (
  work: Work,
  { id, found, run }: { id: string; found: readonly QueuedEvent[]; run: RunFound },
): Promise<Ready> => {
  if (!(await holdClaim(work, id, partsOf(found)))) {
    await removeNote(work, id);
    return { ...NOTHING, isLost: true };
  }
  const unprepared: EventsUnready[] = [];
  let events = found;
  for (;;) {
    try {
      const taken = events.length > 0 ? await run(events) : [];
      await removeNote(work, id);
      const ready = new Set(events);
      return { late: found.filter((event) => !ready.has(event)), taken, unprepared };
    } catch (error) {
      if (!(error instanceof EventsUnready)) throw error;
      unprepared.push(error);
      events = events.filter((event) => !error.isLate(event));
    }
  }
};

const doneOf = (
  seen: Found,
  { late, taken, unprepared, isLost = false }: Ready,
  { transact }: SeekOptions,
): Processed => {
  const { looked } = seen;
  const done = [...taken, ...late, ...seen.held];
  const isProgress = taken.length > 0 || isLost;
  // Beside events that are not ready others wait, which the claim had no room for.
  const beside = isProgress ? [] : againOf(seen, { done, isProgress: true });
  const waiting = [...new Set([...partsOf(late), ...beside.map(({ part }) => part)])];
  return {
    events: taken.length,
    parts: partsOf(taken),
    again: againOf(seen, { done, isProgress }),
    busy: partsOf(looked.filter(({ state }) => state === "BUSY")),
    closed: partsOf(looked.filter(({ more, state }) => more && state !== "LEFT")),
    reopened: seen.reopened,
    apart: seen.apart,
    ...(unprepared.length > 0 ? { preparing: prepareAll(transact, unprepared, waiting) } : {}),
  };
};

/**
 * Returns where more waits than was dealt with: later events have caused a wake of their own. Where nothing
 * could be evaluated yet, there is nothing to claim until it can.
 */
const againOf = (
  { looked, places }: Found,
  { done, isProgress }: { done: readonly QueuedEvent[]; isProgress: boolean },
): PartitionCursor[] => {
  const counts = new Map<number, number>();
  for (const { part } of done) counts.set(part, (counts.get(part) ?? 0) + 1);
  return looked.flatMap(({ part, afterProject, state, waiting }) => {
    if (state !== "MINE" && state !== "EMPTY") return [];
    const isDone = !isProgress || waiting <= (counts.get(part) ?? 0);
    const place = places.get(part) ?? FIRST_PROJECT;
    return isDone && afterProject === FIRST_PROJECT && place === FIRST_PROJECT
      ? []
      : [{ part, afterProject: place }];
  });
};

const prepareAll = async (
  transact: Transact,
  unprepared: readonly EventsUnready[],
  parts: readonly number[],
): Promise<readonly number[]> => {
  // Plans that could not be read now are requested again by the next claim.
  await Promise.allSettled(unprepared.map((plans) => plans.prepare(transact)));
  return parts;
};

const runTogether: Run = async (work, events, options) => {
  const plans = await tryLoadPlans(work, events, options.plans);
  const aheadOf = ({ projectId }: QueuedEvent): number => plans.get(projectId)!.clockAheadMs;
  const budget = new ClaimBudget();
  const onSlow = (projectId: string, ms: number): void =>
    options.order.rest(projectId, delay(REST_FACTOR * ms, undefined, { ref: false }));
  const taken: QueuedEvent[] = [];
  for (const [clockAheadMs, own] of Map.groupBy(events, aheadOf)) {
    const batch = { events: own, plans: plansAhead(plans, clockAheadMs), budget };
    const observer = { ...options, onSlow, slowMs: SLOW_EVENT_MS };
    const done = await runIfReady(atProjectTime(work, { clockAheadMs }), batch, { observer, taken });
    taken.push(...done);
    if (done.length < own.length || budget.isSpent) break;
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
  { observer, taken }: { observer: BatchObserver; taken: readonly QueuedEvent[] },
): Promise<readonly QueuedEvent[]> => {
  try {
    return await runBatch(work, batch, observer);
  } catch (error) {
    if (taken.length === 0 || !(error instanceof EventsUnready)) throw error;
    return [];
  }
};
