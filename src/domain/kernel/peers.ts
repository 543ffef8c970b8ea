/** How often a process says that it lives, and for how long that is believed. */
export const BEAT_EVERY_MS = 1_000;
export const LEASE_MS = 4_000;

/** What a process says of itself, and what it is told of the others. */
export type Self = {
  processId: string;
  /** `host:port` by which the other processes reach the rooms of this one. */
  internalAddress: string;
  /** The others may have taken this process for dead: its listings have to be looked at. */
  onLost: () => void;
  /** A process has died; its listings are to go. Several processes may be told of one. */
  onDead: (processId: string) => Promise<void>;
};

/** The processes of a cluster that hold rooms. */
export type Peers = {
  /** Announces this process, and watches over the others from then on. */
  join(self: Self): Promise<void>;
  /** The internal address of a living process, at most a second old; undefined for a dead or unknown one. */
  internalAddressOf(processId: string): Promise<string | undefined>;
  /** Those whose lease holds. */
  living(): Promise<string[]>;
  /** Notes how many sockets of a player this process has, and tells how many all that live have. */
  countSockets(player: string, own: number): Promise<number>;
  /** Counts a join, and tells how many of this key there have been in all processes since the first one. */
  countJoin(key: string, windowSeconds: number): Promise<number>;
  /** Says again what this process wants to hear, in case it was lost. */
  resubscribe(): void;
  leave(): Promise<void>;
};
