import { sql } from "kysely";
import { idBefore } from "../kernel/ids.ts";
import type { Work } from "../kernel/work.ts";
import { CLAIM_STEPS_MAX } from "./claim-budget.ts";
import type { ClaimShare } from "./claim-shares.ts";
import { type InHand, lineOf, type Sifted } from "./in-hand.ts";
import type { ProjectOwner } from "./tenant-loads.ts";
import {
  claimEvents,
  type ClaimedEvents,
  lockPartitions,
  onePerPartition,
  type PartitionCursor,
  type PartitionScan,
  type QueuedEvent,
} from "./queue.ts";

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
export type ScannedEvents = { looked: readonly PartitionScan[]; claimed: SiftedEvents; isFirst: boolean };

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
