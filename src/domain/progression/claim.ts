import { failedTrace } from "../rules/insight/traces.ts";
import { outboxRow, savepoint, type Transact, type Work } from "../work.ts";
import { type BatchEars, runBatch, sharedKeys } from "./batch.ts";
import { noEffects } from "./evaluate.ts";
import { lockPlayers } from "./load.ts";
import { loadPlans, type PlanCache, type ProjectPlan } from "./plan.ts";
import {
  CLAIM_PROJECTS,
  claimEvents,
  FIRST_PROJECT,
  lockPartitions,
  type Looked,
  type Place,
  postponeEvent,
  type QueuedEvent,
  RETRY_DELAYS_MS,
} from "./queue.ts";
import { saveBatch } from "./save.ts";
import { lockSharedCounters, noSharedCounters } from "./shared-counters.ts";

export type ProcessOptions = BatchEars & {
  transact: Transact;
  plans: PlanCache;
  /** Events of one project of a partition in one claim. */
  claimLimit: number;
  /** Partitions are claimed together until so many events wait in them; default `claimLimit`. */
  claimTogether?: number;
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
};

/**
 * Processes one claim in one transaction: lock, claim, lock players, load, evaluate, save. A constant number
 * of statements whatever the number of events and of partitions, so a claim takes as many of `places`, in
 * this order, as make up a batch; `onLeft` hears at once of those that it leaves to others. When a claim
 * fails, it is undone and its events are tried one by one under savepoints, so that a poisoned event delays
 * and fails only itself, and definitions that cannot be read only their own project.
 */
export const processPartitions = async (
  options: ProcessOptions,
  places: readonly Place[],
): Promise<Processed> => {
  const claim = { places };
  try {
    return await processClaim(options, claim, runTogether);
  } catch {
    // What it was is logged below, by the event that does it again alone.
    return processClaim(options, claim, runOneByOne);
  }
};

type Claim = { events: readonly QueuedEvent[]; projectIds: readonly string[] };
type RunClaim = (work: Work, claim: Claim, options: ProcessOptions) => Promise<void>;

const processClaim = (
  options: ProcessOptions,
  claim: { places: readonly Place[] },
  run: RunClaim,
): Promise<Processed> =>
  options.transact(async (work) => {
    const { claimLimit, claimTogether = claimLimit, onLeft } = options;
    const looked = await lockPartitions(work, claim.places, { together: claimTogether, each: claimLimit });
    const left = looked.filter(({ state }) => state === "LEFT");
    // What was left is another's from now on, also when this is tried again.
    claim.places = looked.filter(({ state }) => state !== "LEFT");
    if (left.length > 0) onLeft(left);
    const mine = looked.filter(({ state }) => state === "MINE");
    const events = mine.length === 0 ? [] : await claimEvents(work, mine);
    const projectIds = [...new Set(events.map((event) => event.projectId))];
    if (events.length > 0) await run(work, { events, projectIds }, options);
    return {
      events: events.length,
      parts: [...new Set(events.map(({ part }) => part))],
      again: placesAgain(looked, events, claimLimit),
      busy: looked.filter(({ state }) => state === "BUSY").map(({ part }) => part),
    };
  });

/**
 * Where a claim has not taken everything that was waiting when it looked; what has come since has rung. The
 * next claim of a partition goes on after the last project of this one, or begins anew.
 */
const placesAgain = (
  looked: readonly Looked[],
  events: readonly QueuedEvent[],
  claimLimit: number,
): Place[] => {
  const byPart = Map.groupBy(events, ({ part }) => part);
  return looked.flatMap(({ part, afterProject, waiting, state }) => {
    if (state !== "MINE" && state !== "EMPTY") return [];
    const projects = new Set((byPart.get(part) ?? []).map(({ projectId }) => projectId));
    const isLast = projects.size < CLAIM_PROJECTS;
    if (isLast && waiting < claimLimit && afterProject === FIRST_PROJECT) return [];
    return [{ part, afterProject: isLast ? FIRST_PROJECT : [...projects].toSorted().at(-1)! }];
  });
};

const runTogether: RunClaim = async (work, { events, projectIds }, options) => {
  const plans = await loadPlans(work, projectIds, options.plans);
  await runBatch(work, { events, plans }, options);
};

/** The plan of one project, or what was thrown when it was loaded. */
type LoadedPlan = { plans: Map<string, ProjectPlan> } | { error: unknown };

const runOneByOne: RunClaim = async (work, { events, projectIds }, options) => {
  const loaded = new Map<string, LoadedPlan>();
  for (const projectId of projectIds) loaded.set(projectId, await tryPlan(work, projectId, options.plans));
  await lockAhead(work, events, [...loaded.values()]);
  for (const event of events) {
    await runAlone(work, { event, plan: loaded.get(event.projectId)!, options });
  }
};

const tryPlan = async (work: Work, projectId: string, cache: PlanCache): Promise<LoadedPlan> => {
  try {
    return { plans: await savepoint(work, () => loadPlans(work, [projectId], cache)) };
  } catch (error) {
    return { error };
  }
};

/**
 * Takes the locks of a whole claim at once, in the one order that everybody keeps: events that are tried one
 * by one would take them in theirs, and wait for others in a ring.
 */
const lockAhead = async (
  work: Work,
  events: readonly QueuedEvent[],
  loaded: readonly LoadedPlan[],
): Promise<void> => {
  try {
    const plans = new Map(loaded.flatMap((plan) => ("plans" in plan ? [...plan.plans] : [])));
    await savepoint(work, async () => {
      await lockPlayers(work, events);
      await lockSharedCounters(work, sharedKeys(plans, events, work.now.getTime()));
    });
  } catch {
    // Each event then takes its own, and shows what is wrong.
  }
};

type Alone = { event: QueuedEvent; plan: LoadedPlan; options: ProcessOptions };

const runAlone = async (work: Work, { event, plan, options }: Alone): Promise<void> => {
  try {
    if ("error" in plan) throw plan.error;
    const { plans } = plan;
    await savepoint(work, () => runBatch(work, { events: [event], plans }, options));
  } catch (error) {
    options.onError(error, event);
    if (event.attempts < RETRY_DELAYS_MS.length) await postponeEvent(work, event);
    else await failEvent(work, event, error);
  }
};

/** Gives an event up: FAILED for good, and `event.failed` says so. */
const failEvent = async (work: Work, event: QueuedEvent, error: unknown): Promise<void> => {
  const { projectId, eventId, eventType, externalUserId, part, seq } = event;
  const message = (error instanceof Error ? error.message : String(error)).slice(0, 500);
  const attempts = event.attempts + 1;
  const failed = outboxRow(projectId, "event.failed", {
    eventId,
    eventType,
    externalUserId,
    error: message,
    attempts,
  });
  const batch = {
    players: [],
    effects: {
      ...noEffects(),
      outbox: [failed],
      traces: [failedTrace(event, { error: message, now: work.now })],
    },
    shared: noSharedCounters(),
    verdicts: [{ projectId, eventId, status: "FAILED" as const, error: message, attempts }],
    done: [{ projectId, part, seq }],
  };
  await saveBatch(work, batch);
};
