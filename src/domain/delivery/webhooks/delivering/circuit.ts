/**
 * Round-robin over tenants, and over each tenant's webhooks, so that no tenant benefits from having many, and
 * none waits for another's.
 */
export class RoundRobin {
  /** Webhooks by tenant. Maps and sets keep the order of insertion: a served one is moved to the end. */
  readonly #tenants = new Map<string, Set<string>>();

  add(tenant: string, webhook: string): void {
    const webhooks = this.#tenants.get(tenant);
    if (webhooks) webhooks.add(webhook);
    else this.#tenants.set(tenant, new Set([webhook]));
  }

  get isEmpty(): boolean {
    return this.#tenants.size === 0;
  }

  /**
   * Allocates up to `slots`, one at a time. A served webhook must be added again to be served further.
   * @param room how many a webhook can take
   * @returns how many each gets
   */
  take(slots: number, room: (webhook: string) => number): Map<string, number> {
    const given = new Map<string, number>();
    const tenants = new Map<string, string>();
    for (let left = slots; left > 0;) {
      const next = this.#next();
      if (next === undefined) break;
      const { tenant, webhook } = next;
      const count = given.get(webhook) ?? 0;
      const max = room(webhook);
      if (count >= max) continue;
      given.set(webhook, count + 1);
      tenants.set(webhook, tenant);
      left--;
      if (count + 1 < max) this.add(tenant, webhook);
    }
    for (const [webhook, tenant] of tenants) this.#remove(tenant, webhook);
    return given;
  }

  /** Removes the next one, and moves its tenant behind the others. */
  #next(): { tenant: string; webhook: string } | undefined {
    const [first] = this.#tenants;
    if (!first) return undefined;
    const [tenant, webhooks] = first;
    const [webhook = ""] = webhooks;
    this.#tenants.delete(tenant);
    this.#tenants.set(tenant, webhooks);
    this.#remove(tenant, webhook);
    return { tenant, webhook };
  }

  #remove(tenant: string, webhook: string): void {
    const webhooks = this.#tenants.get(tenant);
    webhooks?.delete(webhook);
    if (webhooks?.size === 0) this.#tenants.delete(tenant);
  }
}

/** Maximum number of concurrent attempts per endpoint and process. */
const ENDPOINT_MAX = 4;
/** Consecutive slow failures after which an endpoint only gets one attempt at a time. */
const SLOW_FAILURES_MAX = 5;
/** An attempt that takes longer is slow, in ms. */
export const SLOW_MS = 500;

/**
 * A process's circuit breaker for an endpoint. One that is not trusted gets one attempt at a time: a new one
 * until it has answered once, and one whose attempts hang until it answers again. Fast failures delay nobody,
 * so they cost no trust.
 */
export type Circuit = { isTrusted: boolean; slowFailures: number };

export const NEW_CIRCUIT: Circuit = { isTrusted: false, slowFailures: 0 };

/** Returns the circuit after an attempt. */
export const afterAttempt = (
  { isTrusted, slowFailures }: Circuit,
  { isSuccess, durationMs }: { isSuccess: boolean; durationMs: number },
): Circuit => {
  if (isSuccess || durationMs <= SLOW_MS) return { isTrusted: true, slowFailures: 0 };
  const failures = slowFailures + 1;
  return { isTrusted: isTrusted && failures < SLOW_FAILURES_MAX, slowFailures: failures };
};

export const inFlightMax = ({ isTrusted }: Circuit): number => (isTrusted ? ENDPOINT_MAX : 1);

/** Whether its attempts count as slow from the start. */
export const isSuspect = ({ isTrusted, slowFailures }: Circuit): boolean => !isTrusted && slowFailures > 0;
