import {
  afterAttempt,
  type Circuit,
  inFlightMax,
  isSuspect,
  NEW_CIRCUIT,
} from "../domain/delivery/webhooks/delivering/circuit.ts";
import { Turns } from "../domain/delivery/webhooks/delivering/turns.ts";

/** Endpoints that are remembered while nothing is to be done for them. */
const REMEMBERED_MAX = 10_000;

/** What a process knows of the endpoint of a webhook. */
export type Endpoint = {
  id: string;
  /** The webhook's own id until it is known. */
  tenantId: string;
  /** Attempts on their way. */
  inFlight: number;
  /** Something may be due. */
  mayHaveMore: boolean;
  circuit: Circuit;
};

/** Which endpoints have something to send, and whose turn it is. */
export class Endpoints {
  readonly #known = new Map<string, Endpoint>();
  readonly #turns = new Turns();
  /** Those that have kept attempts hanging: they use slots of slow attempts only. */
  readonly #suspectTurns = new Turns();

  /** Something of the webhook is due. */
  ring(id: string, tenantId?: string): void {
    const endpoint = this.#of(id);
    if (tenantId !== undefined) endpoint.tenantId = tenantId;
    endpoint.mayHaveMore = true;
    this.line(endpoint);
  }

  get(id: string): Endpoint | undefined {
    return this.#known.get(id);
  }

  get isIdle(): boolean {
    return this.#turns.isEmpty && this.#suspectTurns.isEmpty;
  }

  /** Lines an endpoint up for its turn, if it has something to send and room for it. */
  line(endpoint: Endpoint): void {
    const { id, tenantId, inFlight, mayHaveMore, circuit } = endpoint;
    if (!mayHaveMore || inFlight >= inFlightMax(circuit)) return;
    (isSuspect(circuit) ? this.#suspectTurns : this.#turns).add(tenantId, id);
  }

  /**
   * Whose turn it is, and how many each may claim. After the claim say what came of it (`claimed`).
   * @param slots for attempts at all, and for those that are slow from their beginning
   */
  take({ slots, suspectSlots }: { slots: number; suspectSlots: number }): Map<string, number> {
    const room = (id: string): number => {
      const { inFlight, circuit } = this.#of(id);
      return inFlightMax(circuit) - inFlight;
    };
    const taken = this.#turns.take(slots, room);
    for (const [id, count] of this.#suspectTurns.take(suspectSlots, room)) {
      // Its circuit may have changed while it stood in both lines.
      if (!taken.has(id)) taken.set(id, count);
    }
    for (const id of taken.keys()) this.#of(id).mayHaveMore = false;
    return taken;
  }

  /** So many were claimed for an endpoint that asked for `asked`. */
  claimed(id: string, asked: number, count: number): void {
    const endpoint = this.#of(id);
    endpoint.inFlight += count;
    if (count === asked) endpoint.mayHaveMore = true;
    this.line(endpoint);
  }

  /** An attempt has ended. */
  ended(id: string, outcome: Parameters<typeof afterAttempt>[1]): void {
    const endpoint = this.#of(id);
    endpoint.inFlight--;
    endpoint.circuit = afterAttempt(endpoint.circuit, outcome);
    this.line(endpoint);
  }

  #of(id: string): Endpoint {
    const known = this.#known.get(id);
    if (known) return known;
    const endpoint = { id, tenantId: id, inFlight: 0, mayHaveMore: false, circuit: NEW_CIRCUIT };
    this.#known.set(id, endpoint);
    if (this.#known.size > REMEMBERED_MAX) this.#forgetIdle();
    return endpoint;
  }

  /** Forgets a tenth of those that have nothing to do, the oldest first. */
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
