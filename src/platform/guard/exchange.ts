import type { Dispatcher } from "undici";
import { RESPONSE_BODY_MAX } from "../../domain/delivery/webhooks/delivering/sender.ts";
import type { Connection } from "./connections.ts";
import { codeOf, Fault } from "./faults.ts";

/** Maximum number of 1xx responses before the final one. */
const PROVISIONAL_MAX = 20;

export type Message = { path: string; headers: string[]; body: string };

/** The received part of a response. */
export type Answer = {
  /** null if none arrived. */
  status: number | null;
  retryAfter: string | undefined;
  parts: readonly Buffer[];
  /** Whether the body is longer than `parts`. */
  isCut: boolean;
  /** Why the exchange is incomplete. */
  error: unknown;
};

/** One POST on one connection; at most RESPONSE_BODY_MAX bytes of the answer's body are read. */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly answer: Promise<Answer>;
  readonly connection: Connection;
  readonly #receivedBefore: number;
  #resolve!: (answer: Answer) => void;
  #isOver = false;
  #status: number | null = null;
  #retryAfter: string | undefined;
  readonly #parts: Buffer[] = [];
  #length = 0;
  #provisional = 0;

  constructor(connection: Connection, { path, headers, body }: Message) {
    this.connection = connection;
    this.#receivedBefore = connection.received();
    this.answer = new Promise((resolve) => (this.#resolve = resolve));
    try {
      connection.client.dispatch({ method: "POST", path, headers, body }, this);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Bytes of the response so far, including everything but its body. */
  get received(): number {
    return this.connection.received() - this.#receivedBefore;
  }

  /** Ends the exchange with an error, unless it is over. */
  fail(error: unknown): void {
    this.#end(false, error);
  }

  onRequestStart(): void {
    // Required by undici.
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: Record<string, unknown>): void {
    if (status < 200) {
      this.#provisional += 1;
      if (this.#provisional > PROVISIONAL_MAX)
        this.fail(new Fault("the endpoint sends only provisional responses"));
      return;
    }
    this.#status = status;
    const retryAfter = headers["retry-after"];
    if (typeof retryAfter === "string") this.#retryAfter = retryAfter;
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    const room = RESPONSE_BODY_MAX - this.#length;
    this.#length += chunk.length;
    this.#parts.push(chunk.length > room ? chunk.subarray(0, room) : chunk);
    if (chunk.length > room) this.#end(true, undefined);
  }

  onResponseEnd(): void {
    this.#end(false, undefined);
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.fail(error);
  }

  #end(isCut: boolean, error: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const [status, retryAfter, parts] = [this.#status, this.#retryAfter, this.#parts];
    this.#resolve({ status, retryAfter, parts, isCut, error });
  }
}

const CLOSED = new Set(["UND_ERR_SOCKET", "UND_ERR_DESTROYED", "ECONNRESET", "EPIPE"]);

/** Whether the connection was closed before any part of a response arrived. */
export const isStale = ({ status, error }: Answer): boolean => status === null && CLOSED.has(codeOf(error));
