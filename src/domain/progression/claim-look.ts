import type { Work } from "../kernel/work.ts";
import { CLAIM_STEPS_MAX } from "./claim-budget.ts";
import type { ClaimShare } from "./claim-shares.ts";
import { claimEvents, type Found, lockPartitions, type Looked, type Place } from "./queue.ts";

export type ClaimLimits = {
  /** Events of one project of a partition in one claim. */
  claimLimit: number;
  /** Partitions are claimed together until so many events wait in them; default `claimLimit`. */
  claimTogether?: number;
};

export const partsOf = (events: readonly { part: number }[]): number[] => [
  ...new Set(events.map(({ part }) => part)),
];

type Seeking = { claim: { places: readonly Place[] }; share: ClaimShare };
export type Sought = { looked: readonly Looked[]; claimed: Found; isFirst: boolean };

/** Locks partitions and reads what waits in them, but for `closed` projects. */
const look = async (
  work: Work,
  { places, share, closed }: { places: readonly Place[]; share: ClaimShare; closed: readonly string[] },
  { claimLimit, claimTogether = claimLimit }: ClaimLimits,
): Promise<Pick<Sought, "looked" | "claimed">> => {
  const together = share.batchOf(claimTogether, CLAIM_STEPS_MAX);
  const looked = await lockPartitions(work, places, { together, each: claimLimit, closed });
  const mine = looked.filter(({ state }) => state === "MINE");
  return { looked, claimed: await claimEvents(work, mine, closed) };
};

/** The events that wait, but for those of closed projects. */
export const seek = async (work: Work, { claim, share }: Seeking, options: ClaimLimits): Promise<Sought> => {
  const found = await look(work, { places: claim.places, share, closed: share.closed }, options);
  return { ...found, isFirst: false };
};

/** Events of those who go before tenants who have had more; undefined where there are none. */
export const seekFirst = async (
  work: Work,
  { claim, share }: Seeking,
  options: ClaimLimits,
): Promise<Sought | undefined> => {
  for (const { tier, putOff } of share.tiers) {
    const places = claim.places.map(({ part }) => ({ part, afterProject: share.cursorOf(tier, part) }));
    const closed = [...new Set([...share.closed, ...putOff])];
    const { looked, claimed } = await look(work, { places, share, closed }, options);
    const mine = partsOf(looked.filter(({ state }) => state === "MINE"));
    const events = share.foundTier(tier, mine, claimed.events);
    if (events.length > 0) return { looked, claimed: { ...claimed, events }, isFirst: true };
  }
  return undefined;
};
