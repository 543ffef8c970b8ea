import type { IncomingMessage, ServerResponse } from "node:http";
import { TLSSocket } from "node:tls";
import { type AuthContext, getBearerToken, matchMaker, ServerError } from "@colyseus/core";
import { z } from "zod";
import type { App } from "../app.ts";
import { type CustomHost, httpsRequired, nameOfHost, spokeHttps } from "../domain/accounts/domains/known.ts";
import { countRequest, limitHeaders, RateLimited } from "../domain/accounts/rate-limits/limiter.ts";
import { clientAddress } from "../domain/kernel/networks.ts";
import {
  DomainError,
  ERROR_STATUS,
  invalid,
  notFound,
  retryLater,
  unauthorized,
} from "../domain/kernel/errors.ts";
import { MATCHMAKE_BODY_LIMIT } from "../domain/kernel/limits.ts";
import { outageOf } from "../domain/kernel/outages.ts";
import { requestIdFrom } from "../domain/kernel/ids.ts";
import { asOneJoin, type Gate } from "./admission.ts";
import { authenticate, verifyToken } from "./authenticate.ts";
import { errorObject, INTERNAL_ERROR, withReason } from "./room-errors.ts";
import { parse } from "./room-input.ts";
import type { ListingRepair } from "./listing.ts";
import type { LiveRoom, SeatHolder } from "./live-room.ts";
import { seatForOldSdk } from "./sockets.ts";

/** Returns the custom domain that a request came by. @throws FORBIDDEN HTTPS_REQUIRED for plain HTTP */
const customHostOf = async (
  { config, domains }: App,
  { headers, socket }: IncomingMessage,
): Promise<CustomHost | undefined> => {
  const name = nameOfHost(headers.host);
  const known = name === "" ? undefined : await domains.find(name);
  const isTls = socket instanceof TLSSocket;
  const { remoteAddress } = socket;
  const arrival = { isTls, remoteAddress, forwardedProto: headers["x-forwarded-proto"] };
  if (known && !spokeHttps(arrival, config.trustedProxies)) throw httpsRequired(known.domain);
  return known;
};

/**
 * Returns the status that an upgrade is refused with because of the host that it came by: 403 for ws:// to a
 * custom domain, 503 where domains cannot be read; else undefined. Never rejects.
 */
export const refusedByHost = async (app: App, request: IncomingMessage): Promise<number | undefined> => {
  try {
    await customHostOf(app, request);
    return undefined;
  } catch (error) {
    if (error instanceof DomainError && error.code === "FORBIDDEN") return 403;
    app.warnOfOutage(error, "the host of a WebSocket could not be looked up");
    return 503;
  }
};

/** Methods that the SDK may call: a room is never created or entered by its id. */
export const METHODS = ["joinOrCreate", "reconnect"] as const;
type Method = (typeof METHODS)[number];

const PATH = /^\/matchmake\/(\w{1,32})\/([A-Za-z0-9_-]{1,64})$/;
const ReconnectBody = z.object({ reconnectionToken: z.string().min(1).max(64) });

const isMethod = (name: string | undefined): name is Method => METHODS.some((method) => method === name);

/** Uses events: an async iterator costs a join several percent more. */
const readBytes = (request: IncomingMessage): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    request.on("data", (chunk: Buffer) => {
      bytes += chunk.byteLength;
      if (bytes <= MATCHMAKE_BODY_LIMIT) return void chunks.push(chunk);
      request.pause();
      reject(new DomainError("PAYLOAD_TOO_LARGE", "join options may have at most 16 KiB"));
    });
    request.once("end", () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    request.once("error", reject);
    request.once("close", () => reject(new Error("the request is incomplete: send it again")));
  });

/** Returns the JSON object of a request's body, read to the end but no further than the limit. */
const readBody = async (request: IncomingMessage): Promise<object> => {
  const bytes = await readBytes(request);
  if (bytes.byteLength === 0) return {};
  let body: unknown;
  try {
    body = JSON.parse(bytes.toString("utf8"));
  } catch {
    throw invalid("body", "must be JSON");
  }
  if (body === null || typeof body !== "object" || Array.isArray(body))
    throw invalid("body", "must be an object");
  return body;
};

/** Core calls `hasOwnProperty` on the options, which a client may have overwritten. */
const withPrototype = (body: object): object =>
  Object.fromEntries(Object.entries(body).filter(([key]) => !(key in {})));

/** Returns the method and the room of a request. @throws DomainError for an unsupported request */
const readAddress = ({ url = "", method: verb }: IncomingMessage): { method: Method; target: string } => {
  const [, method, target = ""] = PATH.exec(url.split("?", 1)[0] ?? "") ?? [];
  if (!isMethod(method)) throw notFound("matchmaking method");
  if (verb !== "POST") throw new DomainError("METHOD_NOT_ALLOWED", "This address answers POST");
  return { method, target };
};

const isStopping = (): boolean => matchMaker.state !== matchMaker.MatchMakerState.READY;

type Seat = Awaited<ReturnType<typeof matchMaker.joinOrCreate>>;

/** Another room of the same id may be in this process for a moment: the seat is where it was reserved. */
const localSeat = (seat: Seat): Seat =>
  matchMaker.getLocalRoomById(seat.roomId) ? { ...seat, processId: matchMaker.processId } : seat;

const seatGone = (): DomainError => new DomainError("GONE", "the seat has expired, join again");

/**
 * Returns the seat of a dropped client. Its reconnection token alone is not enough: it takes a token of the
 * same player (or console user) and project too. Core's own `reconnect` asks for none.
 * @throws DomainError GONE for a seat that does not exist or is another's; as `authenticate`
 */
const reclaimSeat = async (
  app: App,
  roomId: string,
  { reconnectionToken, context }: { reconnectionToken: string; context: AuthContext },
): Promise<Seat> => {
  const { projectId, subject } = await authenticate(app, context.token, context);
  const room = await matchMaker.driver.findOne({ roomId });
  if ((room?.metadata as { projectId?: string } | undefined)?.projectId !== projectId) throw seatGone();
  const holder: SeatHolder = { projectId, subject };
  const args = [reconnectionToken, holder];
  const sessionId = await matchMaker
    .remoteRoomCall<LiveRoom<object>>(roomId, "claimSeat", args)
    .catch((error: unknown) => {
      // The process of the room is dead or busy.
      throw error instanceof ServerError ? retryLater("the room did not answer in time", "NOT_READY") : error;
    });
  if (typeof sessionId !== "string") throw seatGone();
  return matchMaker.buildSeatReservation(room, sessionId);
};

/**
 * Returns the tenant of a join. One without a valid token is counted as a request without credentials; it
 * waits for nothing, and no room is asked. @throws DomainError UNAUTHORIZED; RateLimited
 */
const verifiedTenant = async (app: App, token: string | undefined, ip: string): Promise<string> => {
  try {
    return (await verifyToken(app, token)).tenantId;
  } catch (error) {
    if (error instanceof DomainError && error.code === "UNAUTHORIZED")
      await countRequest(app, { kind: "anonymous" }, ip);
    throw error;
  }
};

/** At a custom domain tokens of its tenant alone are good. @throws UNAUTHORIZED TOKEN_INVALID */
const requireOwnHost = (host: CustomHost | undefined, tenantId: string): void => {
  if (host && host.tenantId !== tenantId)
    throw unauthorized("TOKEN_INVALID", "the token is not valid at this domain");
};

/** A join whose request has been read; `reserve` gets the seat. */
type Join = { tenantId: string; reserve: () => Promise<Seat> };

/** Reads a request to its end before a seat is reserved, so that slow clients delay no others. */
const readJoin = async (app: App, request: IncomingMessage, ip: string): Promise<Join> => {
  const { method, target } = readAddress(request);
  if (isStopping()) throw retryLater("the server is starting or stopping", "NOT_READY");
  const host = await customHostOf(app, request);
  const body = await readBody(request);
  const token = getBearerToken(request.headers.authorization ?? "");
  const tenantId = await verifiedTenant(app, token, ip);
  requireOwnHost(host, tenantId);
  const { origin } = request.headers;
  const headers = new Headers(origin === undefined ? {} : { origin });
  const context: AuthContext = { ip: undefined, headers, ...(token ? { token } : {}) };
  if (method === "reconnect") {
    const { reconnectionToken } = parse(ReconnectBody, body);
    const reclaim = async () => localSeat(await reclaimSeat(app, target, { reconnectionToken, context }));
    return { tenantId, reserve: reclaim };
  }
  const join = () => matchMaker.joinOrCreate(target, withPrototype(body), context);
  return { tenantId, reserve: async () => localSeat(await asOneJoin(join)) };
};

/** A room that could not be created, for which core keeps the code. */
const isUnavailable = (error: unknown): boolean =>
  error instanceof ServerError && errorObject(error)?.code === "SERVICE_UNAVAILABLE";

/** Whether the same join may succeed shortly, at this process or at another. */
const isTransient = (error: unknown): boolean =>
  outageOf(error) !== undefined || isUnavailable(error) || (isStopping() && !errorObject(error));

/** Returns the client's address, from X-Forwarded-For as far as TRUSTED_PROXIES vouch for it. */
const addressOf = ({ socket, headers }: IncomingMessage, { config }: App): string => {
  // Nobody stands between a client and TLS that ends here, so the header is the client's own.
  const isOwn = socket instanceof TLSSocket;
  const forwardedFor = isOwn ? undefined : headers["x-forwarded-for"]?.toString();
  return clientAddress({ remoteAddress: socket.remoteAddress, forwardedFor }, config.trustedProxies);
};

const answer = (response: ServerResponse, status: number, body: unknown): void => {
  if (response.headersSent || response.destroyed) return;
  response.statusCode = status;
  response.setHeader("Content-Type", "application/json; charset=utf-8");
  response.setHeader("Cache-Control", "no-store");
  response.end(JSON.stringify(body));
};

/** Answers why there is no seat. */
const refuse = (
  app: App,
  exchange: { request: IncomingMessage; response: ServerResponse; requestId: string },
  thrown: unknown,
): void => {
  const { request, response, requestId } = exchange;
  const error = isTransient(thrown)
    ? retryLater("rooms cannot be created right now: try again in a moment", "NOT_READY")
    : thrown;
  const known = errorObject(error);
  if (!known) app.log.error({ err: error, requestId }, "matchmaking failed");
  const refusal = known ?? INTERNAL_ERROR;
  app.metrics.joinsRefused.inc({ code: refusal.code, reason: refusal.reason ?? "" });
  const retryAfter = error instanceof DomainError ? error.retryAfterSeconds : undefined;
  if (retryAfter !== undefined) response.setHeader("Retry-After", String(Math.ceil(retryAfter)));
  if (error instanceof RateLimited) response.setHeaders(new Headers(limitHeaders(error.state)));
  // The rest of a refused body is not read.
  if (!request.complete) response.setHeader("Connection", "close");
  const timestamp = app.clock().toISOString();
  answer(response, ERROR_STATUS[refusal.code], {
    error: { ...refusal, requestId, timestamp },
    message: withReason(refusal),
  });
};

/**
 * Answers a request for a seat in a room, and never rejects. Errors have the same body as in every other
 * operation, plus `message`, which is all that the SDK's error has besides the status, so it tells the reason
 * too. Core's own route would answer 200 for an error with a text code and an empty 500 for one beyond 599.
 */
export const answerMatchmake = async (
  app: App,
  { gate, repair }: { gate: Gate; repair: ListingRepair },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> => {
  const requestId = requestIdFrom(request.headers["x-request-id"]);
  response.setHeader("X-Request-Id", requestId);
  try {
    const ip = addressOf(request, app);
    await app.blocks.refuse(ip);
    if (!repair.isSettled)
      throw retryLater("rooms are being listed again: try again in a moment", "NOT_READY");
    const { tenantId, reserve } = await readJoin(app, request, ip);
    const seat = await gate.pass(tenantId, reserve);
    app.metrics.joins.inc({ room: seat.name });
    answer(response, 200, { ...seat, ...seatForOldSdk(seat) });
  } catch (thrown) {
    refuse(app, { request, response, requestId }, thrown);
  }
};

/** Whether an address is that of a join, whatever the request's method. */
export const isJoinAddress = ({ url = "" }: IncomingMessage): boolean =>
  isMethod(PATH.exec(url.split("?", 1)[0] ?? "")?.[1]);

export const isMatchmake = ({ url = "" }: IncomingMessage): boolean => url.startsWith("/matchmake/");
