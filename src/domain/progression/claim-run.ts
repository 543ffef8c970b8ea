import { outageOf, throwOutage } from "../kernel/outages.ts";
import type { Transact, Work } from "../kernel/work.ts";
import type { BatchObserver } from "./batch.ts";
import type { ClaimBudget } from "./claim-budget.ts";
import type { ClaimLimits } from "./claim-look.ts";
import type { ClaimShares } from "./claim-shares.ts";
import type { InHand } from "./in-hand.ts";
import type { PlanCache } from "./plan.ts";
import type { PartitionCursor, QueuedEvent } from "./queue.ts";

export type ProcessOptions = BatchObserver &
  ClaimLimits & {
    transact: Transact;
    plans: PlanCache;
    /** Shares the claims of the process among projects; default: this is the only claim. */
    shares?: ClaimShares;
    /** What the process has in hand, and the suspects that it leaves; default: neither is known. */
    hand?: InHand;
    /** Consecutive claims of these partitions that were rolled back because the database was busy. */
    busyInRow?: number;
    /** CPU time of evaluation, in ms; default: that of this thread. */
    cpuMs?: () => number;
    /** Called with the partitions that the claim leaves to others, before it continues. */
    onLeft: (cursors: readonly PartitionCursor[]) => void;
    onError: (error: unknown, event: QueuedEvent) => void;
  };

/** Consecutive claims rolled back by a busy database before the events are tried one by one. */
export const BUSY_MAX = 10;

const isTooOftenBusy = ({ busyInRow = 0 }: ProcessOptions): boolean => busyInRow >= BUSY_MAX;

type Claim = { events: readonly QueuedEvent[]; steps: ClaimBudget };
/** @returns the events that were evaluated, of each player the first ones; the rest stays in the queue */
export type RunClaim = (work: Work, claim: Claim, options: ProcessOptions) => Promise<readonly QueuedEvent[]>;

/** Rethrows outages, except a busy database that has been retried often enough. */
export const throwUnlessTried = (error: unknown, options: ProcessOptions): void => {
  if (outageOf(error) !== "busy" || !isTooOftenBusy(options)) throwOutage(error);
};
