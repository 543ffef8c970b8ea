import { sql } from "kysely";
import { threadCpuMs } from "../kernel/cpu-clock.ts";
import { idBefore } from "../kernel/ids.ts";
import { PacedBudget } from "../kernel/pace.ts";
import type { Work } from "../kernel/work.ts";
import type { ClaimShare, ProjectOwner, Taken } from "./claim-shares.ts";
import { type InHand, lineOf, type Sifted } from "./in-hand.ts";
import {
  type ClaimedEvents,
  claimEvents,
  lockPartitions,
  onePerPartition,
  type PartitionCursor,
  type PartitionScan,
  type QueuedEvent,
} from "./queue.ts";

/**
 * Steps after which a claim takes no further event: about 200 ms, during which it holds its partitions and
 * players, and at most 500 ms of CPU whatever its steps. They include writes: at most 8 MB in one statement.
 * The last event may take RULE_STEPS_MAX, UPKEEP_STEPS_MAX, EXPLAIN_STEPS_MAX and WRITTEN_STEPS_MAX more.
 */
export const CLAIM_STEPS_MAX = 2_000_000;
/**
 * Minimum number of steps charged per ms of CPU, which bounds an evaluation that costs more time than its
 * steps account for. A step takes up to 0.2 us.
 */
const STEPS_PER_MS = 4_000;

/** An event and the CPU time of its evaluation, in ms. */
type TimedEvent = { event: QueuedEvent; ms: number };

/** The project of an event and the tenant that owns it. */
type Owner = { projectId: string; tenantId: string };
type Spent = { steps: number; sinceMs: number };

/** Budget of a claim, and its consumption by project. */
export class ClaimBudget extends PacedBudget {
  readonly taken = new Map<string, Taken>();
  /** The event that took longest, also when its claim was rolled back. */
  slowest: TimedEvent | undefined;
  /** CPU time of this thread, in ms; only differences are meaningful. */
  readonly cpuMs: () => number;
  /** Steps to be charged with the next event of a project, by project id. */
  readonly #ahead = new Map<string, number>();

  constructor(max: number, cpuMs = threadCpuMs) {
    super(max);
    this.cpuMs = cpuMs;
  }

  /**
   * Records the cost that the events of a project share before the first of them is evaluated. It is charged
   * with that event, so that earlier events of other projects are not held up.
   */
  chargeAhead({ projectId, tenantId }: Owner, steps: number): void {
    const before = this.#takenOf(projectId);
    this.taken.set(projectId, { ...before, tenantId, steps: before.steps + steps });
    this.#ahead.set(projectId, (this.#ahead.get(projectId) ?? 0) + steps);
  }

  /**
   * Charges an event whose evaluation began at CPU time `sinceMs`: its `steps`, or more for the time it took.
   */
  take(event: QueuedEvent, { projectId, tenantId }: Owner, { steps, sinceMs }: Spent): void {
    const ms = this.cpuMs() - sinceMs;
    const counted = Math.max(steps, ms * STEPS_PER_MS);
    this.spend(counted + (this.#ahead.get(projectId) ?? 0));
    this.#ahead.delete(projectId);
    const before = this.#takenOf(projectId);
    this.taken.set(projectId, {
      tenantId,
      steps: before.steps + counted,
      events: before.events + 1,
      slowestMs: Math.max(before.slowestMs, ms),
    });
    if (this.slowest === undefined || ms > this.slowest.ms) this.slowest = { event, ms };
  }

  #takenOf(projectId: string): Taken {
    return this.taken.get(projectId) ?? { steps: 0, events: 0, slowestMs: 0 };
  }
}

export type ClaimLimits = {
  /** Maximum events of one project and partition in one claim. */
  claimLimit: number;
  /** Partitions are claimed until this many events wait in them; default `claimLimit`. */
  claimTogether?: number;
  /** Knows the suspects, which are left in the queue; default: there are none. */
  hand?: InHand;
};

export const partsOf = (events: readonly { part: number }[]): number[] => [
  ...new Set(events.map(({ part }) => part)),
];

type ScanInput = { claim: { cursors: readonly PartitionCursor[] }; share: ClaimShare };
/** `held`: events that are left for the `suspects` among them. */
type SiftedEvents = Omit<Sifted, "free"> & { events: Sifted["free"] } & Pick<ClaimedEvents, "cut">;
type ScannedEvents = { looked: readonly PartitionScan[]; claimed: SiftedEvents; isFirst: boolean };

/** Locks partitions and reads their waiting events, except those of `closed` projects. */
const look = async (
  work: Work,
  {
    cursors,
    share,
    closed,
  }: { cursors: readonly PartitionCursor[]; share: ClaimShare; closed: readonly string[] },
  { claimLimit, claimTogether = claimLimit, hand }: ClaimLimits,
): Promise<Pick<ScannedEvents, "looked" | "claimed">> => {
  const together = share.batchOf(claimTogether, CLAIM_STEPS_MAX);
  const looked = await lockPartitions(work, cursors, { together, each: claimLimit, closed });
  const mine = looked.filter(({ state }) => state === "MINE");
  const { events, cut } = await claimEvents(work, mine, closed);
  const { free, held, suspects } = hand?.sift(events) ?? { free: events, held: [], suspects: [] };
  return { looked, claimed: { events: free, cut, held, suspects } };
};

/** Finds the waiting events, except those of closed projects. */
export const scanEvents = async (
  work: Work,
  { claim, share }: ScanInput,
  options: ClaimLimits,
): Promise<ScannedEvents> => {
  const found = await look(work, { cursors: claim.cursors, share, closed: share.closed }, options);
  return { ...found, isFirst: false };
};

/** Returns cursors of the partitions of events, each directly before the first of their projects. */
export const cursorsBefore = (events: readonly QueuedEvent[]): PartitionCursor[] =>
  onePerPartition(events.map(({ part, projectId }) => ({ part, afterProject: idBefore(projectId) })));

/** Finds those of the events before which nothing else of their project waits in their partition. */
export const scanOnly = async (
  work: Work,
  { only, share }: { only: readonly QueuedEvent[]; share: ClaimShare },
): Promise<ScannedEvents> => {
  const { closed } = share;
  const cursors = cursorsBefore(only);
  const each = only.length;
  const looked = await lockPartitions(work, cursors, { together: each * cursors.length, each, closed });
  const mine = looked.filter(({ state }) => state === "MINE");
  const { events } = await claimEvents(work, mine, closed);
  const sought = new Set(only.map(({ eventId }) => eventId));
  const first = [...Map.groupBy(events, lineOf).values()].flatMap((line) => {
    const end = line.findIndex(({ eventId }) => !sought.has(eventId));
    return end === -1 ? line : line.slice(0, end);
  });
  return { looked, claimed: { events: first, cut: new Set(), held: [], suspects: [] }, isFirst: false };
};

/** Maximum projects of one tenant whose owner is looked up at once. */
const OWNERS_MAX = 500;

/** Returns the owners of projects, and those of the same tenants' other projects. */
const readOwners = async ({ db }: Work, projectIds: readonly string[]): Promise<ProjectOwner[]> => {
  const { rows } = await sql<{ id: string; tenant_id: string }>`
    select p.id, p.tenant_id from unnest(${`{${projectIds.join(",")}}`}::uuid[]) as x(id)
    join projects own on own.id = x.id
    cross join lateral (
      select id, tenant_id from projects where tenant_id = own.tenant_id limit ${OWNERS_MAX}) p
    union
    select id, tenant_id from projects where id = any(${`{${projectIds.join(",")}}`}::uuid[])`.execute(db);
  return rows.map(({ id, tenant_id: tenantId }) => ({ projectId: id, tenantId }));
};

type TierSearch = Pick<ScannedEvents, "looked" | "claimed"> & { hasLearned: boolean };

/** Looks for events of a tier; `hasLearned`: it has found projects whose tenants were not known before. */
const searchTier = async (
  work: Work,
  { claim, share, tier }: ScanInput & { tier: number },
  options: ClaimLimits,
): Promise<TierSearch> => {
  const { favoured } = share;
  const cursors = claim.cursors.map(({ part }) => ({ part, afterProject: favoured.cursorOf(tier, part) }));
  const closed = [...new Set([...share.closed, ...favoured.putOffOf(tier)])];
  const { looked, claimed } = await look(work, { cursors, share, closed }, options);
  const mine = partsOf(looked.filter(({ state }) => state === "MINE"));
  const unknown = favoured.unknownOf(claimed.events);
  if (unknown.length > 0) favoured.learn(await readOwners(work, unknown));
  const events = favoured.found(tier, mine, claimed.events);
  return { looked, claimed: { ...claimed, events }, hasLearned: unknown.length > 0 };
};

/** Finds events that go before those of tenants over their share; undefined where there are none. */
export const scanFavoured = async (
  work: Work,
  input: ScanInput,
  options: ClaimLimits,
): Promise<ScannedEvents | undefined> => {
  for (const tier of input.share.favoured.tiers()) {
    let found = await searchTier(work, { ...input, tier }, options);
    // It may have met nothing but projects that are put off now that their tenants are known.
    if (found.claimed.events.length === 0 && found.hasLearned)
      found = await searchTier(work, { ...input, tier }, options);
    const { looked, claimed } = found;
    if (claimed.events.length > 0) return { looked, claimed, isFirst: true };
  }
  return undefined;
};
