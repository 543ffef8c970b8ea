import { sql } from "kysely";
import { threadCpuMs } from "../kernel/cpu-clock.ts";
import { idBefore } from "../kernel/ids.ts";
import { StepBudget } from "../kernel/pace.ts";
import type { Work } from "../kernel/work.ts";
import type { ClaimShare, ProjectOwner, Taken } from "./claim-shares.ts";
import { type NoteObserver, settleNotes, sift, type Sifted } from "./claim-notes.ts";
import {
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

/** The project of an event and the tenant that owns it. */
type Owner = { projectId: string; tenantId: string };
type Spent = { steps: number; sinceMs: number };

/** Budget of a claim, and its consumption by project. */
export class ClaimBudget extends StepBudget {
  readonly taken = new Map<string, Taken>();
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
  take({ projectId, tenantId }: Owner, { steps, sinceMs }: Spent): void {
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
  }

  #takenOf(projectId: string): Taken {
    return this.taken.get(projectId) ?? { steps: 0, events: 0, slowestMs: 0 };
  }
}

export type ClaimLimits = NoteObserver & {
  /** Maximum events of one project and partition in one claim. */
  claimLimit: number;
  /** Partitions are claimed until this many events wait in them; default `claimLimit`. */
  claimTogether?: number;
};

export const partsOf = (events: readonly { part: number }[]): number[] => [
  ...new Set(events.map(({ part }) => part)),
];

type ScanInput = { claim: { cursors: readonly PartitionCursor[] }; share: ClaimShare };
type SiftedEvents = Omit<Sifted, "free"> & { events: Sifted["free"]; cut: ReadonlySet<number> };
type ScannedEvents = { looked: readonly PartitionScan[]; claimed: SiftedEvents; isFirst: boolean };

type Sizes = { together: number; each: number; closed: readonly string[] };

/** Locks partitions and reads their waiting events, except those of `closed` projects. */
const look = async (
  work: Work,
  { cursors, sizes }: { cursors: readonly PartitionCursor[]; sizes: Sizes },
  observer: NoteObserver,
): Promise<Pick<ScannedEvents, "looked" | "claimed">> => {
  const locked = await lockPartitions(work, cursors, sizes);
  const noted = partsOf(locked.filter(({ state, isNoted }) => state === "MINE" && isNoted));
  const asked = noted.length > 0 ? await settleNotes(work, noted, observer) : [];
  const looked = locked.map((place) =>
    asked.includes(place.part) ? { ...place, state: "BUSY" as const } : place,
  );
  const mine = looked.filter(({ state }) => state === "MINE");
  const { events, cut } = await claimEvents(work, mine, sizes.closed);
  const { free, held, apart } = sift(events);
  return { looked, claimed: { events: free, cut, held, apart } };
};

const sizesOf = (
  share: ClaimShare,
  closed: readonly string[],
  { claimLimit, claimTogether = claimLimit }: ClaimLimits,
): Sizes => ({ together: share.batchOf(claimTogether, CLAIM_STEPS_MAX), each: claimLimit, closed });

/** Finds the waiting events, except those of closed projects. */
export const scanEvents = async (
  work: Work,
  { claim, share }: ScanInput,
  options: ClaimLimits,
): Promise<ScannedEvents> => {
  const sizes = sizesOf(share, share.closed, options);
  const found = await look(work, { cursors: claim.cursors, sizes }, options);
  return { ...found, isFirst: false };
};

/** Finds those of a group that is evaluated apart before which nothing else waits. */
export const scanApart = async (
  work: Work,
  { group, share }: { group: readonly QueuedEvent[]; share: ClaimShare },
  observer: NoteObserver,
): Promise<ScannedEvents> => {
  const cursors = onePerPartition(
    group.map(({ part, projectId }) => ({ part, afterProject: idBefore(projectId) })),
  );
  const sizes = { together: group.length, each: group.length, closed: share.closed };
  const { looked, claimed } = await look(work, { cursors, sizes }, observer);
  const ids = new Set(group.map(({ eventId }) => eventId));
  const events = claimed.apart.filter(({ eventId }) => ids.has(eventId));
  return { looked, claimed: { events, cut: new Set(), held: [], apart: [] }, isFirst: false };
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
  const { looked, claimed } = await look(work, { cursors, sizes: sizesOf(share, closed, options) }, options);
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
