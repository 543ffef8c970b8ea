import type { IRoomCache, MatchMakerDriver } from "@colyseus/core";

/** A driver that may know more of listings than core asks for; one that does not has all rooms here. */
export type Listing = MatchMakerDriver & {
  /** The rooms of this process that are listed as such. */
  ownIds?(): Promise<Set<string>>;
  /** How many rooms a project has in all processes. */
  countOf?(projectId: string): Promise<number>;
  findByIds(roomIds: string[]): Promise<Map<string, IRoomCache>>;
};
