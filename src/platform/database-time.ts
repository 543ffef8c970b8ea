/** This process's estimate of the database's time. */
export type DatabaseTime = {
  now(): Date;
  /** Records that the database answered `ms` to a query sent at `sentMs` of `performance.now()`. */
  observe(ms: number, sentMs: number): void;
};

/**
 * Follows the database's clock, which all processes of an installation share, so that leases and due times
 * agree whatever the machines' clocks say. Between two answers it uses a monotonic clock. An answer is
 * accurate to its round-trip time: the estimate moves only as far as it must, and so does not jitter with the
 * network.
 */
export const databaseTime = (): DatabaseTime => {
  let aheadMs = Date.now() - performance.now();
  return {
    now: () => new Date(performance.now() + aheadMs),
    observe: (ms, sentMs) => {
      const [least, most] = [ms - performance.now(), ms - sentMs];
      aheadMs = Math.min(Math.max(aheadMs, least), most);
    },
  };
};
