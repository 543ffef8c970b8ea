import {
  afterAttempt,
  type Circuit,
  inFlightMax,
  isSuspect,
  NEW_CIRCUIT,
} from "../domain/delivery/webhooks/delivering/circuit.ts";
import { RoundRobin } from "../domain/delivery/webhooks/delivering/round-robin.ts";

/** Maximum number of endpoints remembered although they have nothing to send. */
const REMEMBERED_MAX = 10_000;

/** A process's knowledge of a webhook's endpoint. */
export type Endpoint = {
  id: string;
  /** The webhook's own id until it is known. */
  tenantId: string;
  /** Number of attempts in flight. */
  inFlight: number;
  /** Whether deliveries may be due. */
  mayHaveMore: boolean;
  circuit: Circuit;
};

/** Schedules which endpoints send next, fairly between tenants. */
export class Endpoints {
  readonly #known = new Map<string, Endpoint>();
  readonly #healthy = new RoundRobin();
  /** Endpoints whose attempts hang: they may only use slots for slow attempts. */
  readonly #suspect = new RoundRobin();

  /** Notes that a delivery of the webhook may be due. */
  wake(id: string, tenantId?: string): void {
    const endpoint = this.#of(id);
    if (tenantId !== undefined) endpoint.tenantId = tenantId;
    endpoint.mayHaveMore = true;
    this.enqueue(endpoint);
  }

  get(id: string): Endpoint | undefined {
    return this.#known.get(id);
  }

  get isIdle(): boolean {
    return this.#healthy.isEmpty && this.#suspect.isEmpty;
  }

  /** Queues an endpoint if it has something to send and a free slot. */
  enqueue(endpoint: Endpoint): void {
    const { id, tenantId, inFlight, mayHaveMore, circuit } = endpoint;
    if (!mayHaveMore || inFlight >= inFlightMax(circuit)) return;
    (isSuspect(circuit) ? this.#suspect : this.#healthy).add(tenantId, id);
  }

  /**
   * Returns the endpoints whose turn it is, with the number of deliveries that each may claim. After the
   * claim the result must be reported by `claimed`.
   * @param slots free slots for all attempts, and those for attempts that are slow from the start
   */
  take({ slots, suspectSlots }: { slots: number; suspectSlots: number }): Map<string, number> {
    const room = (id: string): number => {
      const { inFlight, circuit } = this.#of(id);
      return inFlightMax(circuit) - inFlight;
    };
    const taken = this.#healthy.take(slots, room);
    for (const [id, count] of this.#suspect.take(suspectSlots, room)) {
      // Its circuit may have changed while it was in both queues.
      if (!taken.has(id)) taken.set(id, count);
    }
    for (const id of taken.keys()) this.#of(id).mayHaveMore = false;
    return taken;
  }

  /** Reports how many deliveries were claimed for an endpoint that was allowed `asked`. */
  claimed(id: string, asked: number, count: number): void {
    const endpoint = this.#of(id);
    endpoint.inFlight += count;
    if (count === asked) endpoint.mayHaveMore = true;
    this.enqueue(endpoint);
  }

  /** Reports that an attempt has ended. */
  ended(id: string, outcome: Parameters<typeof afterAttempt>[1]): void {
    const endpoint = this.#of(id);
    endpoint.inFlight--;
    endpoint.circuit = afterAttempt(endpoint.circuit, outcome);
    this.enqueue(endpoint);
  }

  #of(id: string): Endpoint {
    const known = this.#known.get(id);
    if (known) return known;
    const endpoint = { id, tenantId: id, inFlight: 0, mayHaveMore: false, circuit: NEW_CIRCUIT };
    this.#known.set(id, endpoint);
    if (this.#known.size > REMEMBERED_MAX) this.#forgetIdle();
    return endpoint;
  }

  /** Forgets a tenth of the idle endpoints, the oldest first. */
  #forgetIdle(): void {
    let left = REMEMBERED_MAX / 10;
    for (const [id, { inFlight, mayHaveMore }] of this.#known) {
      if (left === 0) return;
      if (inFlight > 0 || mayHaveMore) continue;
      this.#known.delete(id);
      left--;
    }
  }
}
