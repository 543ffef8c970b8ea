import {
  type IncomingMessage,
  Server,
  type ServerOptions,
  type ServerResponse,
  STATUS_CODES,
} from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { DomainError, type ErrorCode, invalid } from "../domain/kernel/errors.ts";
import { MATCHMAKE_BODY_LIMIT } from "../domain/kernel/limits.ts";
import { requestIdFrom } from "../domain/kernel/ids.ts";
import { CHUNK_MIN_BYTES, hasBody } from "./body.ts";
import { SECURITY_HEADERS } from "./request-guards.ts";
import { errorBody } from "./validate.ts";

/**
 * Chunks of a body beyond one for each CHUNK_MIN_BYTES: each costs as much CPU as kilobytes of a plain body.
 * More than a reader of the body accepts, so that it can answer before the connection is closed.
 */
const CHUNKS_FREE_MAX = 2_000;
/**
 * What is still read of a body after its response, so that a client which writes before it reads gets that
 * response, and not a reset.
 */
const REST_MAX_BYTES = 16 * 1024 * 1024;
const REST_MAX_MS = 5_000;

/** Counts what Node's parser passes on, and closes the connection at once when that is too much. */
class Meter {
  readonly #request: IncomingMessage;
  #bytes = 0;
  #chunks = 0;
  #bytesMax = Infinity;
  #isOver = false;

  constructor(request: IncomingMessage) {
    this.#request = request;
    const push = request.push.bind(request);
    // The parser goes on to the end of what it has read, ten thousand chunks, whatever becomes of the socket.
    request.push = (chunk: Buffer | null, encoding) =>
      this.#isOver || !this.#takes(chunk) || push(chunk, encoding);
  }

  /** Reads what follows and forgets it, up to REST_MAX_BYTES and REST_MAX_MS. */
  discardRest(): void {
    const request = this.#request;
    this.#bytesMax = this.#bytes + REST_MAX_BYTES;
    const timer = setTimeout(() => this.#end(), REST_MAX_MS).unref();
    request.once("close", () => clearTimeout(timer));
    request.resume();
  }

  #takes(chunk: Buffer | null): boolean {
    if (chunk === null) return true;
    this.#bytes += chunk.length;
    this.#chunks += 1;
    const chunksMax = CHUNKS_FREE_MAX + this.#bytes / CHUNK_MIN_BYTES;
    if (this.#bytes <= this.#bytesMax && this.#chunks <= chunksMax) return true;
    this.#end();
    return false;
  }

  #end(): void {
    this.#isOver = true;
    this.#request.pause();
    this.#request.socket.destroy();
  }
}

/**
 * Bounds the chunks of a request's body, whether anybody reads it or not, and what follows its response: a
 * refusal is sent before the body has come, and Node would read on until the request's timeout.
 */
const boundBody = (request: IncomingMessage, response: ServerResponse): void => {
  if (!hasBody(request)) return;
  const meter = new Meter(request);
  // Node forgets the rest without passing it on, unless somebody has begun to read: this begins, and takes
  // nothing.
  request.read(0);
  response.once("finish", () => {
    if (!request.complete && !request.destroyed) meter.discardRest();
  });
};

const HEADERS_TIMEOUT_MS = 10_000;
/** Time limit for a whole request, including its body. */
const REQUEST_TIMEOUT_MS = 30_000;
/** Longer than load balancers keep an idle connection, so that they close it first. */
const KEEP_ALIVE_TIMEOUT_MS = 65_000;
/** How often Node checks for connections past the first two limits. */
const TIMEOUT_CHECK_MS = 5_000;

/** How long a refusal that ends its connection may take to leave. */
const REFUSED_MAX_MS = 5_000;
/** Maximum header fields of a request: parsed, thousands of short ones take ten times what was sent. */
const HEADER_FIELDS_MAX = 200;

const isWebSocket = ({ method, headers }: IncomingMessage): boolean =>
  method === "GET" && headers.upgrade?.trim().toLowerCase() === "websocket";

/** What Node would answer by itself, without the body of every other error and without any limit. */
const OPTIONS: ServerOptions = {
  requireHostHeader: false,
  // Clients that offer HTTP/2 on every request are served in HTTP/1.1, as RFC 9110 7.8 permits.
  shouldUpgradeCallback: isWebSocket,
};

const TIMING: ServerOptions = {
  headersTimeout: HEADERS_TIMEOUT_MS,
  requestTimeout: REQUEST_TIMEOUT_MS,
  keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
  connectionsCheckingInterval: TIMEOUT_CHECK_MS,
};

/** Returns the protocol used by the client, from a list to which each proxy appends. */
const forwardedProtocol = (header: string): string => (header.split(",", 1)[0] ?? "").trim().toLowerCase();

const checkFields = ({ rawHeaders }: IncomingMessage): void => {
  if (rawHeaders.length / 2 > HEADER_FIELDS_MAX)
    throw new DomainError("HEADERS_TOO_LARGE", `A request may have at most ${HEADER_FIELDS_MAX} headers`);
};

const checkProtocol = (request: IncomingMessage): void => {
  const header = request.headers["x-forwarded-proto"];
  if (header === undefined) return;
  const protocol = forwardedProtocol(String(header));
  if (protocol !== "http" && protocol !== "https")
    throw invalid("X-Forwarded-Proto", "must be http or https");
  // Colyseus builds addresses from the raw header.
  request.headers["x-forwarded-proto"] = protocol;
};

const isHost = (text: string): boolean => !/[/\\?#@]/.test(text) && URL.canParse(`http://${text}/`);

const checkExpectation = ({ headers }: IncomingMessage): void => {
  const { expect } = headers;
  if (expect !== undefined && expect.trim().toLowerCase() !== "100-continue")
    throw invalid("Expect", "must be 100-continue");
};

/** Of several Node keeps the first, and a proxy before it may have gone by another. */
const hasManyHosts = ({ rawHeaders }: IncomingMessage): boolean => {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (rawHeaders[i]!.length === 4 && rawHeaders[i]!.toLowerCase() === "host") hosts++;
  return hosts > 1;
};

const checkAddress = (request: IncomingMessage): void => {
  const { headers, url = "", httpVersion } = request;
  if (hasManyHosts(request)) throw invalid("Host", "must be given once");
  if (headers.host === undefined && httpVersion !== "1.0") throw invalid("Host", "is required");
  if (!url.startsWith("/") || !URL.canParse(url, "http://localhost")) throw invalid("path", "is not a path");
  if (headers.host !== undefined && !isHost(headers.host)) throw invalid("Host", "is not a host name");
};

const checkMatchmaking = ({ headers, method, url = "" }: IncomingMessage): void => {
  if (method !== "POST" || !url.startsWith("/matchmake/")) return;
  const length = headers["content-length"];
  if (length === undefined) throw invalid("Content-Length", "is required", "LENGTH_REQUIRED");
  if (Number(length) > MATCHMAKE_BODY_LIMIT) {
    throw new DomainError("PAYLOAD_TOO_LARGE", `The body may have at most ${MATCHMAKE_BODY_LIMIT} bytes`);
  }
};

/** Returns why a request is refused before anything else processes it. */
const refusalOf = (request: IncomingMessage): DomainError | undefined => {
  try {
    checkFields(request);
    checkProtocol(request);
    checkExpectation(request);
    checkAddress(request);
    checkMatchmaking(request);
    return undefined;
  } catch (error) {
    if (error instanceof DomainError) return error;
    throw error;
  }
};

type Answer = { status: number; headers: Record<string, string | number>; text: string };

const answerOf = (error: DomainError, requestIdHeader?: unknown): Answer => {
  const requestId = requestIdFrom(requestIdHeader);
  const text = JSON.stringify(errorBody(error, requestId, new Date()));
  const headers = {
    ...SECURITY_HEADERS,
    "Content-Type": "application/json; charset=utf-8",
    "Content-Length": Buffer.byteLength(text),
    "X-Request-Id": requestId,
    Connection: "close",
  };
  return { status: error.status, headers, text };
};

/** Destroys a connection that is still there after a time. */
const destroyAfter = (socket: Socket, ms: number): void => {
  const timer = setTimeout(() => socket.destroy(), ms).unref();
  socket.once("close", () => clearTimeout(timer));
};

const writeRaw = (socket: Socket, { status, headers, text }: Answer): void => {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  socket.once("error", () => socket.destroy());
  // A client that never closes its half, or never reads, must not keep the socket open.
  socket.resume();
  destroyAfter(socket, REFUSED_MAX_MS);
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`;
  socket.end([head, ...lines, "", text].join("\r\n"), () => socket.destroy());
};

const refuseRequest = (error: DomainError, request: IncomingMessage, response: ServerResponse): void => {
  const { status, headers, text } = answerOf(error, request.headers["x-request-id"]);
  response.writeHead(status, headers).end(text);
};

/** Receives an exception that a listener threw on a connection, which is closed by then. */
type OnThrow = (error: unknown, event: string) => void;

/** Requests of one connection that may be in progress; no known client sends so many ahead. */
const AHEAD_MAX = 32;
const inProgress = new WeakMap<Socket, number>();

/** Closes a connection whose client sends a thousand requests ahead and may never read the answers. */
const boundAhead = (socket: Socket, response: ServerResponse): boolean => {
  const count = (inProgress.get(socket) ?? 0) + 1;
  inProgress.set(socket, count);
  response.once("close", () => inProgress.set(socket, inProgress.get(socket)! - 1));
  if (count > AHEAD_MAX) socket.destroy();
  return count <= AHEAD_MAX && !socket.destroyed;
};

/**
 * HTTP server whose listeners, including Colyseus's own, only see requests that passed its checks; an
 * exception of theirs ends the connection, not the process.
 */
class GuardedServer extends Server {
  onThrow: OnThrow = () => undefined;

  override emit(event: string, ...values: unknown[]): boolean {
    if (event !== "request" && event !== "upgrade") return super.emit(event, ...values);
    const [request, other] = values as [IncomingMessage, ServerResponse | Socket];
    return event === "upgrade" || boundAhead(request.socket, other as ServerResponse)
      ? this.#serve(event, values)
      : true;
  }

  #serve(event: "request" | "upgrade", values: unknown[]): boolean {
    const [request, other] = values as [IncomingMessage, ServerResponse | Socket];
    try {
      const error = refusalOf(request);
      if (event === "request") boundBody(request, other as ServerResponse);
      if (error === undefined) {
        if (event === "request" && request.headers.expect !== undefined)
          (other as ServerResponse).writeContinue();
        return super.emit(event, ...values);
      }
      if (event === "request") refuseRequest(error, request, other as ServerResponse);
      else writeRaw(other as Socket, answerOf(error, request.headers["x-request-id"]));
    } catch (error) {
      request.socket.destroy();
      this.onThrow(error, event);
    }
    return true;
  }
}

const BROKEN: Record<string, { code: ErrorCode; message: string }> = {
  HPE_HEADER_OVERFLOW: { code: "HEADERS_TOO_LARGE", message: "The headers are too large" },
  ERR_HTTP_REQUEST_TIMEOUT: { code: "REQUEST_TIMEOUT", message: "The request took too long to arrive" },
};

/** Returns the refusal of bytes that are no complete request. */
const refusalOfBroken = ({ code = "" }: NodeJS.ErrnoException): DomainError => {
  const known = BROKEN[code];
  if (known) return new DomainError(known.code, known.message);
  return new DomainError("VALIDATION_ERROR", "The request is not valid HTTP", { reason: "MALFORMED" });
};

const answerBroken = (error: NodeJS.ErrnoException, socket: Socket): void => {
  // After a first response the client could not tell which request this one belongs to.
  if (error.code === "ECONNRESET" || !socket.writable || socket.bytesWritten > 0)
    return void socket.destroy();
  writeRaw(socket, answerOf(refusalOfBroken(error)));
};

/**
 * Creates the HTTP server that Express and Colyseus share, not yet listening. It refuses requests that crash
 * Colyseus's handlers (a malformed Host or X-Forwarded-Proto ends a stock process) or that they do not limit
 * (matchmaking bodies), in the format of every other error, and times out slow requests.
 */
export const guardedHttpServer = (
  onThrow: OnThrow = () => undefined,
  timing: ServerOptions = TIMING,
): Server => {
  const server = new GuardedServer({ ...OPTIONS, ...timing });
  server.onThrow = onThrow;
  // Without listeners Node answers such requests itself, past all that guards the others.
  for (const event of ["checkContinue", "checkExpectation"] as const)
    server.on(event, (request, response) => void server.emit("request", request, response));
  server.on("connect", (request, socket) => {
    const error = new DomainError("METHOD_NOT_ALLOWED", "CONNECT is not served");
    writeRaw(socket as Socket, answerOf(error, request.headers["x-request-id"]));
  });
  server.on("clientError", (error: Error, socket: Duplex) => answerBroken(error, socket as Socket));
  return server;
};
