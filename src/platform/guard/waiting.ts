import type { Exchange } from "./exchange.ts";
import { Fault } from "./faults.ts";

/** The time limit of one request, over all its phases: queueing, name look-up, connection, response. */
export class Deadline {
  /** Why the time is over; undefined while it is not. */
  fault: Fault | undefined;
  /** Called when it is over; set by whatever the request waits for at the moment. */
  onOver: ((fault: Fault) => void) | undefined;
  readonly #timer: NodeJS.Timeout;
  readonly #signal: AbortSignal | undefined;
  readonly #abort = () => this.#end(new Fault("the request was aborted"));

  constructor(timeoutMs: number, signal: AbortSignal | undefined) {
    this.#timer = setTimeout(
      () => this.#end(new Fault(`no complete response within ${timeoutMs / 1_000} s`)),
      timeoutMs,
    );
    this.#signal = signal;
    signal?.addEventListener("abort", this.#abort, { once: true });
    if (signal?.aborted) this.#abort();
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener("abort", this.#abort);
    this.onOver = undefined;
  }

  #end(fault: Fault): void {
    this.fault ??= fault;
    this.onOver?.(this.fault);
  }
}

/** Admits a limited number of requests; the others queue in order until their time is over. */
export class AdmissionQueue {
  readonly #max: number;
  #inside = 0;
  readonly #outside = new Set<() => void>();

  constructor(max: number) {
    this.#max = max;
  }

  /** @returns whether the request is admitted; an admitted one must leave */
  enter(deadline: Deadline): boolean | Promise<boolean> {
    if (deadline.fault) return false;
    if (this.#inside < this.#max) {
      this.#inside += 1;
      return true;
    }
    return new Promise((resolve) => {
      const isNext = () => resolve(true);
      this.#outside.add(isNext);
      deadline.onOver = () => {
        this.#outside.delete(isNext);
        resolve(false);
      };
    });
  }

  leave(): void {
    const next = this.#outside.values().next();
    if (next.done) {
      this.#inside -= 1;
      return;
    }
    // The free slot passes to it.
    this.#outside.delete(next.value);
    next.value();
  }
}

/**
 * Maximum bytes of a response with its headers, the framing of its chunks and the provisional responses
 * before it.
 */
const RECEIVED_MAX = 1_048_576;
const FLOOD_CHECK_MS = 500;

/** Ends exchanges that receive many bytes outside the body, which nothing else counts. */
export class FloodWatch {
  readonly #watched = new Set<Exchange>();
  #timer: NodeJS.Timeout | undefined;

  add(exchange: Exchange): void {
    this.#watched.add(exchange);
    this.#timer ??= setInterval(() => this.#look(), FLOOD_CHECK_MS).unref();
  }

  delete(exchange: Exchange): void {
    this.#watched.delete(exchange);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #look(): void {
    for (const exchange of this.#watched)
      if (exchange.received > RECEIVED_MAX) exchange.fail(new Fault("the response is too large"));
  }
}
