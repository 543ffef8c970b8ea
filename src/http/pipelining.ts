import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Requests of one connection that may wait behind the current one; no known client sends so many ahead. */
const PIPELINED_MAX = 32;

type Waiting = { response: ServerResponse; serve: () => void };

/**
 * Destroys a connection, for whose requests Node then makes an error each: the stacks of a thousand of them
 * would be most of what the connection costs.
 */
const abortWithoutStacks = (socket: Socket): void => {
  const { stackTraceLimit } = Error;
  // Node's own listener comes between these two.
  socket.prependOnceListener("close", () => (Error.stackTraceLimit = 0));
  socket.once("close", () => (Error.stackTraceLimit = stackTraceLimit));
  socket.destroy();
};

/**
 * Serves the requests of each connection one after another: the next one begins when the response before it
 * has been sent. Node passes on all requests of a 64 KiB read at once, more than a thousand of them, whose
 * responses would be made together and wait in memory for a client that may never read them.
 */
export class Pipelining {
  /** Requests waiting on connections that have one in progress. */
  readonly #waiting = new WeakMap<Socket, Waiting[]>();
  readonly #current = new WeakMap<Socket, ServerResponse>();

  /** Returns the response to the request that a connection has in progress. */
  currentOf(socket: Socket): ServerResponse | undefined {
    return this.#current.get(socket);
  }

  /** Whether a connection has requests whose responses have not been sent, or were in this turn. */
  isInUse(socket: Socket): boolean {
    return this.#waiting.has(socket);
  }

  /** Runs `serve` now, or in turn. A connection with too many requests ahead is closed. */
  enter(socket: Socket, response: ServerResponse, serve: () => void): void {
    const waiting = this.#waiting.get(socket);
    if (!waiting) {
      this.#waiting.set(socket, []);
      return this.#run(socket, { response, serve });
    }
    if (socket.destroyed) return;
    if (waiting.length >= PIPELINED_MAX) {
      waiting.length = 0;
      abortWithoutStacks(socket);
      return;
    }
    waiting.push({ response, serve });
    // What comes behind them stays in the network.
    socket.pause();
  }

  #run(socket: Socket, { response, serve }: Waiting): void {
    this.#current.set(socket, response);
    response.once("close", () => this.#next(socket));
    serve();
  }

  #next(socket: Socket): void {
    this.#current.delete(socket);
    // Other connections have their turn in between. A response may also be sent while the rest of the same
    // read is still being parsed, which must find the connection in use.
    setImmediate(() => {
      const waiting = this.#waiting.get(socket) ?? [];
      const next = waiting.shift();
      if (!next || socket.destroyed) this.#waiting.delete(socket);
      if (socket.destroyed) return;
      if (waiting.length === 0) socket.resume();
      if (next) this.#run(socket, next);
    });
  }
}
