/** Interval of a process's heartbeats, and the lease that each one renews. */
export const BEAT_EVERY_MS = 1_000;
export const LEASE_MS = 4_000;

/** A process as a member of the cluster, and its callbacks. */
export type Self = {
  processId: string;
  /** `host:port` at which other processes reach the rooms of this one. */
  door: string;
  /** The others may have considered this process dead: its listings must be checked. */
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
  /**
   * Returns the address of a live process, at most a second old; undefined for one that is dead or unknown.
   */
  doorOf(processId: string): Promise<string | undefined>;
  /** Returns the processes with a valid lease. */
  living(): Promise<string[]>;
  /** Records a player's sockets in this process, and returns their number in all live processes. */
  countSockets(player: string, own: number): Promise<number>;
  /** Counts a join, and returns the number for this key in all processes since the first one. */
  countJoin(key: string, windowSeconds: number): Promise<number>;
  /** Renews the subscriptions of this process, in case they were lost. */
  resubscribe(): void;
  leave(): Promise<void>;
};
