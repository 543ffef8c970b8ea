import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Requests of one connection that may wait behind the current one; no known client sends so many ahead. */
const PIPELINED_MAX = 32;
/** Header fields of the waiting requests of one connection: parsed, each takes more memory than was sent. */
const FIELDS_MAX = 640;
/** The same of all connections of a process. */
const PROCESS_FIELDS_MAX = 32_000;
/**
 * How long a change of protocol waits for the responses before it, in ms. Node's own timeouts and events of
 * the connection have ended with it.
 */
const TAKE_OVER_MAX_MS = 5_000;

/** A change of protocol has no response, and nothing follows it on its connection. */
type Waiting = { request: IncomingMessage; response?: ServerResponse; serve: () => void };

const fieldsOf = ({ request }: Waiting): number => request.rawHeaders.length / 2;

/** Requests that wait on one connection. */
type Line = { waiting: Waiting[]; fields: number };

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

/** Destroys a connection that is still there after a time. */
export const destroyAfter = (socket: Socket, ms: number): void => {
  const timer = setTimeout(() => socket.destroy(), ms).unref();
  socket.once("close", () => clearTimeout(timer));
};

/**
 * Serves the requests of each connection one after another: the next one begins when the response before it
 * has been sent. Node passes on all requests of a 64 KiB read at once, more than a thousand of them, whose
 * responses would be made together and wait in memory for a client that may never read them.
 */
export class Pipelining {
  /** Lines of connections that have a request in progress. */
  readonly #lines = new WeakMap<Socket, Line>();
  readonly #current = new WeakMap<Socket, ServerResponse>();
  /** Connections whose line is forgotten when they close. */
  readonly #watched = new WeakSet<Socket>();
  /** Fields of the waiting requests of all connections. */
  #fields = 0;

  /** Returns the response to the request that a connection has in progress. */
  currentOf(socket: Socket): ServerResponse | undefined {
    return this.#current.get(socket);
  }

  /** Runs `serve` now, or in turn. A connection with too much ahead is closed. */
  enter(request: IncomingMessage, response: ServerResponse, serve: () => void): void {
    const { socket } = request;
    if (socket.destroyed) return;
    const line = this.#lines.get(socket);
    if (!line) {
      this.#lines.set(socket, { waiting: [], fields: 0 });
      return this.#run(socket, { request, response, serve });
    }
    if (!this.#add(socket, line, { request, response, serve })) return;
    // What comes behind them stays in the network.
    socket.pause();
  }

  /**
   * Runs `serve`, which takes a connection over for another protocol, once the responses before it have been
   * sent. A client may reuse a connection so soon that the response on it has just left.
   */
  takeOver(request: IncomingMessage, serve: () => void): void {
    const { socket } = request;
    const line = this.#lines.get(socket);
    if (!line) return serve();
    // Node listens to this socket no longer, and nobody does yet: a reset must not be an uncaught exception.
    const onError = (): void => void socket.destroy();
    socket.on("error", onError);
    const timer = setTimeout(onError, TAKE_OVER_MAX_MS).unref();
    socket.once("close", () => clearTimeout(timer));
    const serveAlone = (): void => {
      clearTimeout(timer);
      serve();
      socket.off("error", onError);
    };
    this.#add(socket, line, { request, serve: serveAlone });
  }

  /** Adds to the requests that wait, unless there are too many: then the connection is closed. */
  #add(socket: Socket, line: Line, next: Waiting): boolean {
    const fields = fieldsOf(next);
    const isTooMuch =
      line.waiting.length >= PIPELINED_MAX ||
      line.fields + fields > FIELDS_MAX ||
      this.#fields + fields > PROCESS_FIELDS_MAX;
    if (isTooMuch) {
      this.#forget(socket);
      abortWithoutStacks(socket);
      return false;
    }
    this.#watch(socket);
    line.waiting.push(next);
    line.fields += fields;
    this.#fields += fields;
    return true;
  }

  #take(line: Line): Waiting | undefined {
    const next = line.waiting.shift();
    if (!next) return undefined;
    const fields = fieldsOf(next);
    line.fields -= fields;
    this.#fields -= fields;
    return next;
  }

  #watch(socket: Socket): void {
    if (this.#watched.has(socket)) return;
    this.#watched.add(socket);
    socket.once("close", () => this.#forget(socket));
  }

  #forget(socket: Socket): void {
    const line = this.#lines.get(socket);
    while (line && this.#take(line));
    this.#lines.delete(socket);
  }

  #run(socket: Socket, { response, serve }: Waiting): void {
    if (response) {
      this.#current.set(socket, response);
      response.once("close", () => this.#next(socket));
    } else this.#lines.delete(socket);
    serve();
  }

  #next(socket: Socket): void {
    this.#current.delete(socket);
    // Other connections have their turn in between. A response may also be sent while the rest of the same
    // read is still being parsed, which must find the connection in use.
    setImmediate(() => {
      const line = this.#lines.get(socket);
      if (!line || socket.destroyed) return;
      const next = this.#take(line);
      if (!next) this.#lines.delete(socket);
      // The other protocol's first bytes are for who takes the connection over.
      if (line.waiting.length === 0 && (!next || next.response)) socket.resume();
      if (next) this.#run(socket, next);
    });
  }
}
