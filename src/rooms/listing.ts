import type { IRoomCache, MatchMakerDriver } from "@colyseus/core";
import type { ListingFilter } from "../domain/kernel/live-rooms.ts";

/** A driver that may know more of listings than core asks for; one that does not has all rooms here. */
export type Listing = MatchMakerDriver & {
  /** The rooms of this process that are listed as such. */
  ownIds?(): Promise<Set<string>>;
  /** How many rooms a project has in all processes. */
  countOf?(projectId: string): Promise<number>;
  /** May be set: whether a room is to be made here, though one of those that are listed could be joined. */
  maySpread?: (listed: readonly IRoomCache[]) => Promise<boolean>;
  findByIds(roomIds: string[]): Promise<Map<string, IRoomCache>>;
  /** Rooms among which are all that the filter lets through, in no order, `max` of them at most. */
  some?(filter: ListingFilter, max: number): Promise<IRoomCache[]>;
};
