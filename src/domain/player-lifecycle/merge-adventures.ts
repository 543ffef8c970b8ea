import type {
  AdventureRow,
  ItemDone,
  StoredAdventureState,
  TierReached,
} from "../evaluation/adventures/row.ts";
import type { Merging } from "./merge-holdings.ts";

const RANKS: Readonly<Record<StoredAdventureState, number>> = {
  CLAIMED: 4,
  COMPLETED: 3,
  IN_PROGRESS: 2,
  EXPIRED: 1,
  WAITING: 0,
};

const earlier = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? (a ?? b) : Math.min(a, b);

const earliest = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);

/** Joins two records; `both` joins the values of names that are in both. */
const joinedBy = <V>(
  mine: Readonly<Record<string, V>>,
  theirs: Readonly<Record<string, V>>,
  both: (a: V, b: V) => V,
): Record<string, V> => {
  const all: Record<string, V> = { ...mine };
  for (const [name, value] of Object.entries(theirs))
    all[name] = mine[name] === undefined ? value : both(mine[name], value);
  return all;
};

const furtherItem = (a: ItemDone, b: ItemDone): ItemDone => {
  const more = b.times > a.times ? b : a;
  return { ...more, doneMs: Math.min(a.doneMs, b.doneMs) };
};

/** Who got the rewards of a tier as either of them does not get them again. */
const joinedTier = (a: TierReached, b: TierReached): TierReached => {
  const freeMs = earliest(a.freeMs, b.freeMs);
  const premiumMs = earliest(a.premiumMs, b.premiumMs);
  return {
    reachedMs: Math.min(a.reachedMs, b.reachedMs),
    ...(freeMs === undefined ? {} : { freeMs }),
    ...(premiumMs === undefined ? {} : { premiumMs }),
  };
};

const joined = (mine: AdventureRow, theirs: AdventureRow): AdventureRow => {
  const row = joinedFields(mine, theirs);
  // One of both has completed it, and it is too late to claim that.
  return row.state === "IN_PROGRESS" && row.completedMs !== null ? { ...row, state: "EXPIRED" } : row;
};

const joinedFields = (mine: AdventureRow, theirs: AdventureRow): AdventureRow => ({
  ...(RANKS[theirs.state] > RANKS[mine.state] ? theirs : mine),
  points: Math.max(mine.points, theirs.points),
  startedMs: earlier(mine.startedMs, theirs.startedMs),
  completedMs: earlier(mine.completedMs, theirs.completedMs),
  claimedMs: earlier(mine.claimedMs, theirs.claimedMs),
  premiumMs: earlier(mine.premiumMs, theirs.premiumMs),
  dueMs: earlier(mine.dueMs, theirs.dueMs),
  items: joinedBy(mine.items, theirs.items, furtherItem),
  unlocked: [...new Set([...mine.unlocked, ...theirs.unlocked])],
  tiers: joinedBy(mine.tiers, theirs.tiers, joinedTier),
});

/**
 * Merges the adventures of both: the state that is further, the greater number of points, and what either has
 * done, reached or claimed. Nothing is granted.
 */
export const mergeAdventures = ({ target, source }: Merging): void => {
  for (const [key, theirs] of source.player.adventures) {
    const mine = target.player.adventures.get(key);
    const row = mine ? joined(mine, theirs) : theirs;
    target.player.adventures.set(key, { ...row, isChanged: true });
    target.player.dirty.adventures.add(key);
  }
};
