import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Requests of one connection that may wait behind the current one; no known client sends so many ahead. */
const PIPELINED_MAX = 32;

/** A change of protocol has no response, and nothing follows it on its connection. */
type Waiting = { response?: ServerResponse; serve: () => void };

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

  /** Runs `serve` now, or in turn. A connection with too many requests ahead is closed. */
  enter(socket: Socket, response: ServerResponse, serve: () => void): void {
    const waiting = this.#waiting.get(socket);
    if (!waiting) {
      this.#waiting.set(socket, []);
      return this.#run(socket, { response, serve });
    }
    if (!this.#line(socket, waiting, { response, serve })) return;
    // What comes behind them stays in the network.
    socket.pause();
  }

  /**
   * Runs `serve`, which takes a connection over for another protocol, once the responses before it have been
   * sent. A client may reuse a connection so soon that the response on it has just left.
   */
  takeOver(socket: Socket, serve: () => void): void {
    const waiting = this.#waiting.get(socket);
    if (!waiting) return serve();
    // Node listens to this socket no longer, and nobody does yet: a reset must not be an uncaught exception.
    const onError = (): void => void socket.destroy();
    socket.on("error", onError);
    const serveAlone = (): void => {
      serve();
      socket.off("error", onError);
    };
    this.#line(socket, waiting, { serve: serveAlone });
  }

  /** Adds to the requests that wait, unless there are too many: then the connection is closed. */
  #line(socket: Socket, waiting: Waiting[], next: Waiting): boolean {
    if (socket.destroyed) return false;
    if (waiting.length >= PIPELINED_MAX) {
      waiting.length = 0;
      abortWithoutStacks(socket);
      return false;
    }
    waiting.push(next);
    return true;
  }

  #run(socket: Socket, { response, serve }: Waiting): void {
    if (response) {
      this.#current.set(socket, response);
      response.once("close", () => this.#next(socket));
    } else this.#waiting.delete(socket);
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
      // The other protocol's first bytes are for who takes the connection over.
      if (waiting.length === 0 && (!next || next.response)) socket.resume();
      if (next) this.#run(socket, next);
    });
  }
}
