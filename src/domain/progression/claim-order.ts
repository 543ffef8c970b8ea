/** How long a tenant counts as there after events of it were found, in ms. */
const SEEN_MS = 10_000;
/** Maximum projects that rest at once: claims read the queue around each of them. */
const RESTING_MAX = 100;

/**
 * What the claims of a process know of one another, so that no player waits for another tenant's events: which
 * projects they leave in the queue for now, since an event of them has blocked the whole process or their
 * definitions are being compiled, and whether more than one tenant has events.
 */
export class ClaimOrder {
  readonly #nowMs: () => number;
  readonly #resting = new Map<string, Promise<void>>();
  #latest = { tenantId: "", ms: -Infinity };
  #other = { tenantId: "", ms: -Infinity };

  /** @param nowMs a monotonic clock */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Projects whose events stay in the queue. */
  get resting(): readonly string[] {
    return [...this.#resting.keys()];
  }

  /** Resolves when the first of them rests no longer. */
  get rested(): Promise<void> {
    return Promise.race(this.#resting.values());
  }

  /** Leaves the events of a project in the queue until `over`, which never rejects. */
  rest(projectId: string, over: Promise<unknown>): void {
    if (this.#resting.size >= RESTING_MAX || this.#resting.has(projectId)) return;
    this.#resting.set(
      projectId,
      over.then(() => void this.#resting.delete(projectId)),
    );
  }

  /** Notes whose events a claim has found. */
  seen(tenantIds: Iterable<string>): void {
    const ms = this.#nowMs();
    for (const tenantId of tenantIds) {
      if (tenantId !== this.#latest.tenantId) this.#other = this.#latest;
      this.#latest = { tenantId, ms };
    }
  }

  /** Whether several tenants have had events lately. */
  get isShared(): boolean {
    return this.#other.ms > this.#nowMs() - SEEN_MS;
  }
}
