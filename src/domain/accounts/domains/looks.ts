import { KeyedSemaphore, Semaphore } from "../../kernel/semaphore.ts";

/** A check that is not over after this time, in ms, is another worker's to do. */
export const CLAIM_MS = 300_000;
/** Domains looked at together; each takes as long as its DNS servers want, within seconds. */
export const TOGETHER = 25;
/** Of one tenant, whose DNS servers may be slow. */
export const TOGETHER_OF_TENANT = 5;

const refusal = (): Error => new Error("nobody waits for a slot");

/** Bounds how many domains a process looks at because their tenants ask for it: as many as a worker does. */
export class DomainLooks {
  readonly #ofTenants = new KeyedSemaphore({ slots: TOGETHER_OF_TENANT, waitingMax: 0, refusal });
  readonly #all = new Semaphore({ slots: TOGETHER, waitingMax: 0, refusal });

  /** Has `look` run where a slot is free, until it is over. @returns whether there was one */
  async take(tenantId: string, look: () => Promise<void>): Promise<boolean> {
    if (!this.#ofTenants.tryAcquire(tenantId)) return false;
    try {
      return await this.#takeOfAll(look);
    } finally {
      this.#ofTenants.release(tenantId);
    }
  }

  async #takeOfAll(look: () => Promise<void>): Promise<boolean> {
    if (!this.#all.tryAcquire()) return false;
    try {
      await look();
      return true;
    } finally {
      this.#all.release();
    }
  }
}
