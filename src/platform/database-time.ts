/** The time of the database as this process knows it. */
export type DatabaseTime = {
  now(): Date;
  /** The database said `ms` in answer to what was sent at `sentMs` of `performance.now()`. */
  heard(ms: number, sentMs: number): void;
};

/**
 * Follows the database's clock, which all processes of an installation share, so that leases and due times of
 * one are those of the others whatever their machines take the time to be. Between two answers it goes by a
 * clock that nobody sets. An answer is right to the time that it took: what is known moves only as far as it
 * must, and so does not waver with the network.
 */
export const databaseTime = (): DatabaseTime => {
  let aheadMs = Date.now() - performance.now();
  return {
    now: () => new Date(performance.now() + aheadMs),
    heard: (ms, sentMs) => {
      const [least, most] = [ms - performance.now(), ms - sentMs];
      aheadMs = Math.min(Math.max(aheadMs, least), most);
    },
  };
};
