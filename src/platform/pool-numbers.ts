import type { PoolNumbers } from "../metrics/queues.ts";

/** What a pool of `pg` says about itself. */
export type CountedPool = {
  readonly totalCount: number;
  readonly idleCount: number;
  readonly waitingCount: number;
};

/** @param max the most connections that the pool may have */
export const numbersOf = (pool: CountedPool | undefined, max: number): PoolNumbers => {
  const { totalCount = 0, idleCount = 0, waitingCount = 0 } = pool ?? {};
  return { inUse: totalCount - idleCount, idle: idleCount, waiting: waitingCount, max };
};
