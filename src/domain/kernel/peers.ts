/** Interval of a process's heartbeats, and the lease that each one renews. */
export const BEAT_EVERY_MS = 1_000;
export const LEASE_MS = 4_000;

/** A process as a member of the cluster, and its callbacks. */
export type Self = {
  processId: string;
  /** `host:port` by which the other processes reach the rooms of this one. */
  internalAddress: string;
  /** The others may have taken this process for dead: its listings have to be looked at. */
  onLost: () => void;
  /**
   * A process has died and its listings must be removed. Several processes may be notified of the same one.
   */
  onDead: (processId: string) => Promise<void>;
};

/** The processes of a cluster that hold rooms. */
export type Peers = {
  /** Registers this process, and watches the others from then on. */
  join(self: Self): Promise<void>;
  /** The internal address of a living process, at most a second old; undefined for a dead or unknown one. */
  internalAddressOf(processId: string): Promise<string | undefined>;
  /** Those whose lease holds. */
  living(): Promise<string[]>;
  /** Records a player's sockets in this process, and returns their number in all live processes. */
  countSockets(player: string, own: number): Promise<number>;
  /** Counts a join, and returns the number for this key in all processes since the first one. */
  countJoin(key: string, windowSeconds: number): Promise<number>;
  /** Says again what this process wants to hear, in case it was lost. */
  resubscribe(): void;
  leave(): Promise<void>;
};
