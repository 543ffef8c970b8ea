import { threadCpuMs } from "../kernel/cpu-clock.ts";
import { PacedBudget } from "../kernel/pace.ts";
import type { Taken } from "./claim-shares.ts";
import type { QueuedEvent } from "./queue.ts";

/**
 * Steps after which a claim takes up no further event: about 200 ms, for which it holds its partitions and
 * players, and 500 ms of CPU at most, whatever its steps. They include what is written: 8 MB at most, in one
 * statement. The last event may take RULE_STEPS_MAX, UPKEEP_STEPS_MAX, EXPLAIN_STEPS_MAX and
 * WRITTEN_STEPS_MAX more.
 */
export const CLAIM_STEPS_MAX = 2_000_000;
/**
 * Steps that a millisecond of CPU counts for at least, should what was evaluated have counted fewer: what
 * takes longer than its steps say is bounded all the same. A step is up to 0.2 us.
 */
export const STEPS_PER_MS = 4_000;

/** An event, and the CPU that its evaluation has taken, in ms. */
export type TimedEvent = { event: QueuedEvent; ms: number };

/** The project of an event, and whose it is. */
type Owner = { projectId: string; tenantId: string };
type Spent = { steps: number; sinceMs: number };

/** What a claim may take, and what it has taken up of each project. */
export class ClaimBudget extends PacedBudget {
  readonly taken = new Map<string, Taken>();
  /** What took the longest; also when its claim was undone. */
  slowest: TimedEvent | undefined;
  /** CPU that this thread has taken, in ms; only differences count. */
  readonly cpuMs: () => number;
  /** By the project: steps that are spent with its next event. */
  readonly #ahead = new Map<string, number>();

  constructor(max: number, cpuMs = threadCpuMs) {
    super(max);
    this.cpuMs = cpuMs;
  }

  /**
   * Counts what the events of a project take together before the first of them. The claim spends it with that
   * one, so that events of others that come before are taken up all the same.
   */
  takeAhead({ projectId, tenantId }: Owner, steps: number): void {
    const before = this.#takenOf(projectId);
    this.taken.set(projectId, { ...before, tenantId, steps: before.steps + steps });
    this.#ahead.set(projectId, (this.#ahead.get(projectId) ?? 0) + steps);
  }

  /** Counts an event whose evaluation began when `cpuMs` was `sinceMs`: its `steps`, or more for its time. */
  take(event: QueuedEvent, { projectId, tenantId }: Owner, { steps, sinceMs }: Spent): void {
    const ms = this.cpuMs() - sinceMs;
    const counted = Math.max(steps, ms * STEPS_PER_MS);
    this.spend(counted + (this.#ahead.get(projectId) ?? 0));
    this.#ahead.delete(projectId);
    const before = this.#takenOf(projectId);
    this.taken.set(projectId, {
      tenantId,
      steps: before.steps + counted,
      events: before.events + 1,
      slowestMs: Math.max(before.slowestMs, ms),
    });
    if (this.slowest === undefined || ms > this.slowest.ms) this.slowest = { event, ms };
  }

  #takenOf(projectId: string): Taken {
    return this.taken.get(projectId) ?? { steps: 0, events: 0, slowestMs: 0 };
  }
}
