import { CLAIM_PROJECTS, FIRST_PROJECT } from "./queue.ts";
import { type Order, type ProjectOwner, TenantLoads } from "./tenant-loads.ts";

/** How soon events of a tier are looked for again where there were none, in ms. */
const LOOK_AGAIN_MS = 20;

/** Finds events of tenants below their share before those of all others. */
export class FavouredSearch {
  readonly #nowMs: () => number;
  readonly #loads: TenantLoads;
  /** Project after which the next search for events of a tier begins, by tier and partition. */
  readonly #cursors = new Map<string, string>();
  /** When a search last found no events, by tier. */
  readonly #noneMs: number[] = [];
  #order: Order;

  /** @param nowMs a monotonic clock */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#loads = new TenantLoads(nowMs);
    this.#order = this.#loads.order();
  }

  charge(owner: ProjectOwner, steps: number): void {
    this.#loads.charge(owner, steps);
  }

  /** Returns the tiers to search before all other events now. */
  tiers(): number[] {
    const nowMs = this.#nowMs();
    this.#order = this.#loads.order();
    const isDue = (tier: number): boolean => nowMs - (this.#noneMs[tier] ?? -Infinity) >= LOOK_AGAIN_MS;
    return this.#order.putOff.flatMap((putOff, tier) => (putOff.length > 0 && isDue(tier) ? [tier] : []));
  }

  /** Returns the projects that a tier leaves out. */
  putOffOf(tier: number): readonly string[] {
    return this.#order.putOff[tier] ?? [];
  }

  /** Returns the project after which the search for events of a tier begins in a partition. */
  cursorOf(tier: number, part: number): string {
    return this.#cursors.get(`${tier}:${part}`) ?? FIRST_PROJECT;
  }

  /** Returns the projects of events whose tenants are not known yet. */
  unknownOf(events: readonly { projectId: string }[]): string[] {
    const ids = new Set(events.map(({ projectId }) => projectId));
    return [...ids].filter((id) => !this.#loads.knows(id));
  }

  /** Records whose projects are, before anything was charged to them. */
  learn(owners: readonly ProjectOwner[]): void {
    for (const owner of owners) this.#loads.charge(owner, 0);
    this.#order = this.#loads.order();
  }

  /**
   * Records the result of a search for events of a tier in the partitions that were locked.
   * @returns the events that belong to the tier, those of the tenants that have taken least first
   */
  found<T extends { part: number; projectId: string }>(
    tier: number,
    parts: readonly number[],
    events: readonly T[],
  ): T[] {
    for (const part of parts) {
      const own = events.filter((event) => event.part === part).map(({ projectId }) => projectId);
      const ids = [...new Set(own)].toSorted();
      if (ids.length >= CLAIM_PROJECTS) this.#cursors.set(`${tier}:${part}`, ids.at(-1)!);
      else this.#cursors.delete(`${tier}:${part}`);
    }
    const { loads, maxOf } = this.#order;
    const loadOf = ({ projectId }: T): number => loads.get(projectId) ?? 0;
    const favoured = events.filter((event) => loadOf(event) <= (maxOf[tier] ?? Infinity));
    // Where only projects of others were found, the search goes on behind them.
    if (events.length === 0) this.#noneMs[tier] = this.#nowMs();
    return favoured.toSorted((one, other) => loadOf(one) - loadOf(other));
  }
}
