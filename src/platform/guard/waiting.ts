import type { Exchange } from "./exchange.ts";
import { Fault } from "./faults.ts";

/** The time limit of one request, over all its phases: queueing, name look-up, connection, response. */
export class Deadline {
  /** Why the time is over; undefined while it is not. */
  fault: Fault | undefined;
  /** Called when it is over; set by whatever the request waits for at the moment. */
  onOver: ((fault: Fault) => void) | undefined;
  readonly #timer: NodeJS.Timeout;
  readonly #over = new AbortController();
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

  /** Aborted with the fault when the time is over. */
  get signal(): AbortSignal {
    return this.#over.signal;
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener("abort", this.#abort);
    this.onOver = undefined;
  }

  #end(fault: Fault): void {
    this.fault ??= fault;
    this.#over.abort(this.fault);
    this.onOver?.(this.fault);
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
