import type { IRoomCache, MatchMakerDriver } from "@colyseus/core";
import type { ListingFilter } from "../domain/kernel/live-rooms.ts";

/**
 * A driver that may offer more listing queries than core needs; a driver without them has all rooms in this
 * process.
 */
export type Listing = MatchMakerDriver & {
  /** Ids of rooms that are listed for this process. */
  ownIds?(): Promise<Set<string>>;
  /** Number of rooms of a project in all processes. */
  countOf?(projectId: string): Promise<number>;
  /** Optional hook: whether to create a room here although one of the listed rooms could be joined. */
  maySpread?: (listed: readonly IRoomCache[]) => Promise<boolean>;
  findByIds(roomIds: string[]): Promise<Map<string, IRoomCache>>;
  /** Returns a superset of the rooms that match the filter, unordered, `max` of them at most. */
  some?(filter: ListingFilter, max: number): Promise<IRoomCache[]>;
};
