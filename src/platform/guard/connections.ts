import type { Socket } from "node:net";
import { type buildConnector, Client, type Dispatcher, errors } from "undici";
import { RESPONSE_BODY_MAX } from "../../domain/delivery/webhooks/delivering/sender.ts";
import { codeOf } from "../../domain/kernel/errors.ts";
import { type Connect, Fault, type Target } from "./faults.ts";

/** An HTTP date, in the only form that may be sent today. */
const HTTP_DATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/**
 * Returns the seconds from `nowMs` that Retry-After asks for, as a number or as a date; null for anything
 * else.
 */
export const retryAfterSeconds = (header: string | undefined, nowMs: number): number | null => {
  const text = header?.trim() ?? "";
  if (/^\d{1,9}$/.test(text)) return Number(text);
  const atMs = HTTP_DATE.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(atMs) ? null : Math.max(0, Math.ceil((atMs - nowMs) / 1_000));
};

/**
 * Decodes a body, whatever its bytes are: at most RESPONSE_BODY_MAX bytes of UTF-8, without NUL, which
 * PostgreSQL does not store. A character split by the cut is omitted.
 */
export const bodyText = (parts: readonly Buffer[], isCut: boolean): string => {
  const decoder = new TextDecoder();
  const bytes = parts.length === 1 ? parts[0] : Buffer.concat(parts);
  const text = decoder.decode(bytes, { stream: isCut }).replaceAll("\0", "");
  // Replacing invalid UTF-8 makes the text longer.
  if (text.length * 3 <= RESPONSE_BODY_MAX || Buffer.byteLength(text) <= RESPONSE_BODY_MAX) return text;
  return new TextDecoder().decode(Buffer.from(text).subarray(0, RESPONSE_BODY_MAX), { stream: true });
};

/** Maximum number of idle connections, per origin and in total; the oldest are closed first. */
const IDLE_PER_ORIGIN = 16;
const IDLE_MAX = 256;
/** Servers close idle connections after 5 seconds or more, according to their responses. */
const IDLE_MS = 4_000;
const IDLE_MS_MAX = 30_000;
/** Maximum age of a connection; then the name is looked up again, however busy the connection is. */
const AGE_MS_MAX = 300_000;
const HEADER_BYTES_MAX = 16_384;
/** Shared instance: creating an error, with its stack, costs more than closing a connection. */
const ENDED = new errors.ClientDestroyedError();

/** One connection to one origin, used by one request at a time. */
export type Connection = {
  client: Client;
  origin: string;
  bornMs: number;
  /** Bytes received on it so far. */
  received(): number;
  /** Ends the connection, also while it is being opened. */
  end(): void;
};

export type Connections = {
  /** Returns a connection kept after a response, if any; its server may just be closing it. */
  takeIdle(origin: string): Connection | undefined;
  /** Creates a connection that opens with its first request. */
  open(target: Target): Connection;
  /** Returns a connection after its response was read to the end. */
  giveBack(connection: Connection): void;
  /** Ends idle connections at once, and all others when they are returned. */
  close(): void;
};

/**
 * Creates a pool over `connect` alone: undici does not decide where connections go, and follows no redirects.
 */
export const createConnections = (connect: Connect, ageMsMax = AGE_MS_MAX): Connections => {
  // In the order in which they became idle.
  const idle = new Set<Connection>();
  const idleOf = new Map<string, Connection[]>();
  let isClosed = false;

  const forget = (connection: Connection): void => {
    if (!idle.delete(connection)) return;
    const { origin } = connection;
    const others = idleOf.get(origin)?.filter((one) => one !== connection) ?? [];
    if (others.length === 0) idleOf.delete(origin);
    else idleOf.set(origin, others);
  };

  const open = (target: Target): Connection => {
    const ending = new AbortController();
    let socket: Socket | undefined;
    const connection: Connection = {
      client: newClient(target, async () => (socket = await connect(target, ending.signal))),
      origin: target.origin,
      bornMs: performance.now(),
      received: () => socket?.bytesRead ?? 0,
      end: () => {
        forget(connection);
        ending.abort(ENDED);
        void connection.client.destroy(ENDED);
      },
    };
    connection.client.on("disconnect", connection.end);
    return connection;
  };

  return {
    open,
    takeIdle: (origin) => {
      // The most recently used one: the others may expire.
      const connection = idleOf.get(origin)?.at(-1);
      if (connection) forget(connection);
      return connection;
    },
    giveBack: (connection) => {
      const { origin, client } = connection;
      const others = idleOf.get(origin);
      const isOld = performance.now() - connection.bornMs > ageMsMax;
      if (isClosed || isOld || client.destroyed || (others?.length ?? 0) >= IDLE_PER_ORIGIN)
        return connection.end();
      idle.add(connection);
      if (others) others.push(connection);
      else idleOf.set(origin, [connection]);
      if (idle.size > IDLE_MAX) idle.values().next().value?.end();
    },
    close: () => {
      isClosed = true;
      for (const connection of idle) connection.end();
    },
  };
};

const newClient = ({ origin }: Target, connect: () => Promise<Socket>): Client =>
  new Client(origin, {
    connect: (_options, callback) => {
      // A failed assertion of undici in its callback must not end the process: the time limit ends the
      // request.
      establish(connect, callback).catch(() => undefined);
    },
    pipelining: 1,
    allowH2: false,
    maxHeaderSize: HEADER_BYTES_MAX,
    // The whole exchange has one time limit, which is not undici's.
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: IDLE_MS,
    keepAliveMaxTimeout: IDLE_MS_MAX,
  });

const establish = async (connect: () => Promise<Socket>, done: buildConnector.Callback): Promise<void> => {
  let socket: Socket;
  try {
    socket = await connect();
  } catch (error) {
    done(error as Error, null);
    return;
  }
  done(null, socket);
};

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
