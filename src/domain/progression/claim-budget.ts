import { threadCpuMs } from "../kernel/cpu-clock.ts";
import { PacedBudget } from "../kernel/pace.ts";
import type { Taken } from "./claim-shares.ts";
import type { QueuedEvent } from "./queue.ts";

/**
 * Steps after which a claim takes no further event: about 200 ms, during which it holds its partitions and
 * players, and at most 500 ms of CPU whatever its steps. They include writes: at most 8 MB in one statement.
 * The last event may take RULE_STEPS_MAX, UPKEEP_STEPS_MAX, EXPLAIN_STEPS_MAX and WRITTEN_STEPS_MAX more.
 */
export const CLAIM_STEPS_MAX = 2_000_000;
/**
 * Minimum number of steps charged per ms of CPU, which bounds an evaluation that costs more time than its
 * steps account for. A step takes up to 0.2 us.
 */
export const STEPS_PER_MS = 4_000;

/** An event and the CPU time of its evaluation, in ms. */
export type TimedEvent = { event: QueuedEvent; ms: number };

/** The project of an event and the tenant that owns it. */
type Owner = { projectId: string; tenantId: string };
type Spent = { steps: number; sinceMs: number };

/** Budget of a claim, and its consumption by project. */
export class ClaimBudget extends PacedBudget {
  readonly taken = new Map<string, Taken>();
  /** The event that took longest, also when its claim was rolled back. */
  slowest: TimedEvent | undefined;
  /** CPU time of this thread, in ms; only differences are meaningful. */
  readonly cpuMs: () => number;
  /** Steps to be charged with the next event of a project, by project id. */
  readonly #ahead = new Map<string, number>();

  constructor(max: number, cpuMs = threadCpuMs) {
    super(max);
    this.cpuMs = cpuMs;
  }

  /**
   * Records the cost that the events of a project share before the first of them is evaluated. It is charged
   * with that event, so that earlier events of other projects are not held up.
   */
  chargeAhead({ projectId, tenantId }: Owner, steps: number): void {
    const before = this.#takenOf(projectId);
    this.taken.set(projectId, { ...before, tenantId, steps: before.steps + steps });
    this.#ahead.set(projectId, (this.#ahead.get(projectId) ?? 0) + steps);
  }

  /**
   * Charges an event whose evaluation began at CPU time `sinceMs`: its `steps`, or more for the time it took.
   */
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
