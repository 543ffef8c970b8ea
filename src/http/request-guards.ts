import { TLSSocket } from "node:tls";
import type { Request, RequestHandler, Response } from "express";
import type { z } from "zod";
import type { App } from "../app.ts";
import type { Caller } from "../domain/kernel/caller.ts";
import { noteAbuse } from "../domain/accounts/rate-limits/ip-blocks.ts";
import { countRequest, limitHeaders } from "../domain/accounts/rate-limits/limiter.ts";
import { clientAddress, isOfThisMachine } from "../domain/kernel/networks.ts";
import { authenticateAdmin } from "../domain/accounts/admin/admins.ts";
import { authenticateKey } from "../domain/accounts/api-keys/api-key.ts";
import { authenticateUser } from "../domain/accounts/auth/sessions.ts";
import { retryLater, unauthorized } from "../domain/kernel/errors.ts";
import { requestIdFrom } from "../domain/kernel/ids.ts";
import { Bulkhead, busy, WAITING } from "../domain/kernel/bulkhead.ts";
import type { AnyRoute } from "./route.ts";

/** Whether somebody tries Laurel out on their own machine, where the guides register again and again. */
const isTriedOut = ({ config }: App, ip: string): boolean =>
  !config.isProduction && config.mode === "embedded" && isOfThisMachine(ip);

/**
 * Counts the request against all its limits, and returns the headers for its response.
 * @throws RateLimited
 */
export const consumeLimits = async (
  app: App,
  { limits = [], requireSigned, method }: AnyRoute,
  caller: Caller,
  ip: string,
): Promise<Record<string, string>> => {
  if (requireSigned) return {};
  const names = limits.filter((name) => name !== "registration" || !isTriedOut(app, ip));
  const state = await countRequest(app, caller, ip, { names, isRead: method === "get" });
  return state === undefined ? {} : limitHeaders(state);
};

/** Counts a request without valid credentials; returns the headers for its response. @throws RateLimited */
export const countAnonymous = async (app: App, ip: string): Promise<Record<string, string>> => {
  const state = await countRequest(app, { kind: "anonymous" }, ip);
  return state === undefined ? {} : limitHeaders(state);
};

/**
 * Counts a request with an invalid API key, both as one without credentials and as abuse: too many of an
 * address block it for a while. Returns the headers for its response. @throws RateLimited
 */
export const countBadKey = async (app: App, ip: string): Promise<Record<string, string>> => {
  await noteAbuse(app, "badKeys", ip);
  return countAnonymous(app, ip);
};

const MIB = 1024 * 1024;

/**
 * Authenticates the sender by `X-API-Key` or `Authorization: Bearer`; without either the caller is anonymous.
 * An empty X-API-Key is none.
 * Keys in the address or in Authorization are ignored.
 * @throws DomainError UNAUTHORIZED when the credentials are invalid, or when both were sent
 */
export const identify = async (app: App, request: Request, isAdmin = false): Promise<Caller> => {
  if (isAdmin) return identifyAdmin(app, request);
  const secret = request.get("x-api-key") || undefined;
  const authorization = request.get("authorization");
  if (secret !== undefined && authorization !== undefined) {
    throw unauthorized("CREDENTIALS_AMBIGUOUS", "Send X-API-Key or Authorization, not both");
  }
  if (secret !== undefined) {
    if (ACCESS_TOKEN.test(secret)) throw unauthorized("API_KEY_INVALID", TOKEN_AS_KEY);
    return authenticateKey(app.transact, app.apiKeys, secret);
  }
  if (authorization === undefined) return { kind: "anonymous" };
  return authenticateUser(app.transact, app.tokens, bearerOf(request) ?? "", freshIfChange(request));
};

/** Who only reads may have been read a moment ago. */
const freshIfChange = ({ method }: Request) => ({ isFresh: method !== "GET" && method !== "HEAD" });

const API_KEY = /^svc_(live|test)_/;
const KEY_AS_TOKEN = "This is an API key: send it in the header X-API-Key, without Bearer";
/** The beginning of every JWT. */
const ACCESS_TOKEN = /^(Bearer +)?eyJ/i;
const TOKEN_AS_KEY =
  "This is no API key but an access token: send it as Authorization: Bearer <access token>";

const bearerOf = (request: Request): string | undefined => {
  const authorization = request.get("authorization");
  if (authorization === undefined) return undefined;
  const bearer = /^Bearer +(\S+)$/i.exec(authorization)?.[1];
  if (API_KEY.test(bearer ?? authorization)) throw unauthorized("TOKEN_INVALID", KEY_AS_TOKEN);
  if (bearer !== undefined) return bearer;
  throw unauthorized("TOKEN_INVALID", "Authorization must be: Bearer <access token>");
};

/** Super-admin operations accept no other credentials, and theirs are accepted nowhere else. */
const identifyAdmin = async (app: App, request: Request): Promise<Caller> => {
  const bearer = bearerOf(request);
  return bearer === undefined
    ? { kind: "anonymous" }
    : authenticateAdmin(app, bearer, freshIfChange(request));
};

/** Returns the client's address, from X-Forwarded-For as far as TRUSTED_PROXIES vouch for it. */
export const clientIp = ({ config }: Pick<App, "config">, { socket, headers }: Request): string => {
  // Nobody stands between a client and TLS that ends here, so the header is the client's own.
  const isOwn = socket instanceof TLSSocket;
  const forwardedFor = isOwn ? undefined : headers["x-forwarded-for"]?.toString();
  return clientAddress({ remoteAddress: socket.remoteAddress, forwardedFor }, config.trustedProxies);
};

/** A connection whose client reads nothing of a complete response for this long is closed, in ms. */
const UNREAD_MS = 20_000;

/** Closes the connections of clients that stop reading: their responses would stay in memory. */
export const closeUnread: RequestHandler = (_request, response, next) => {
  response.once("prefinish", () => {
    const { socket } = response;
    response.setTimeout(UNREAD_MS, () => void socket?.destroy());
  });
  next();
};

/** Key of the receiver of a response: the tenant of the credentials, otherwise the address. */
const ownerOf = (caller: Caller | undefined, ip: string): string =>
  caller !== undefined && "tenantId" in caller ? `tenant ${caller.tenantId}` : `address ${ip}`;

/** Maximum bytes of parsed bodies in memory at once, of one tenant. */
const TENANT_MAX_BYTES = 96 * MIB;
/** The same of all tenants of the process, and of all callers that are no tenant's. */
const TENANTS_MAX_BYTES = 256 * MIB;
const OUTSIDERS_MAX_BYTES = 32 * MIB;
/** Whoever has less in memory is served also when all have too much. */
const TENANT_FREE_BYTES = 8 * MIB;
const OUTSIDER_FREE_BYTES = 256 * 1024;
/** Estimated bytes of a name or value in parsed JSON, with what validation copies of it. */
const PART_BYTES = 100;
/** Largest factor by which gzip (RFC 1951) packs bytes. */
const GZIP_FACTOR_MAX = 1_032;

/** Estimates what a parsed body takes in memory, in bytes. */
export const parsedBytes = ({ bytes, parts }: { bytes: number; parts: number }): number =>
  bytes + parts * PART_BYTES;

/** The most that a packed body can inflate to, in bytes. */
export const inflatedMax = (packedBytes: number, limit: number): number =>
  Math.min(limit, packedBytes * GZIP_FACTOR_MAX);

/** Memory of one request's body: `hold` replaces what it held before. */
export type BodyHold = {
  /** @throws DomainError SERVICE_UNAVAILABLE SERVER_BUSY when the bodies in memory have become too large */
  hold(bytes: number): void;
  release(): void;
};

type Limits = { ownerMax: number; max: number; ownerFree: number };

const TENANTS: Limits = { ownerMax: TENANT_MAX_BYTES, max: TENANTS_MAX_BYTES, ownerFree: TENANT_FREE_BYTES };
const OUTSIDERS: Limits = {
  ownerMax: OUTSIDERS_MAX_BYTES,
  max: OUTSIDERS_MAX_BYTES,
  ownerFree: OUTSIDER_FREE_BYTES,
};

class Pool {
  readonly #limits: Limits;
  readonly #byOwner = new Map<string, number>();
  #bytes = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  open(owner: string): BodyHold {
    const { ownerMax, max, ownerFree } = this.#limits;
    let held = 0;
    const change = (bytes: number): void => {
      this.#add(owner, bytes - held);
      held = bytes;
    };
    return {
      hold: (bytes) => {
        // One body alone is always taken.
        const others = (this.#byOwner.get(owner) ?? 0) - held;
        const ownMax = this.#bytes - held + bytes > max ? ownerFree : ownerMax;
        if (others > 0 && others + bytes > ownMax)
          throw retryLater("too many large bodies are worked on at once: try again", "SERVER_BUSY");
        change(bytes);
      },
      release: () => change(0),
    };
  }

  #add(owner: string, bytes: number): void {
    this.#bytes += bytes;
    const own = (this.#byOwner.get(owner) ?? 0) + bytes;
    if (own > 0) this.#byOwner.set(owner, own);
    else this.#byOwner.delete(owner);
  }
}

/**
 * Bounds the memory of the bodies that a process receives and works on. A few bytes of gzip may become
 * megabytes of JSON, and these ten times as much when they are parsed. What callers without a tenant send is
 * counted by itself: anybody may send from many addresses.
 */
export class BodyMemory {
  readonly #ofTenants = new Pool(TENANTS);
  readonly #ofOutsiders = new Pool(OUTSIDERS);

  /** Returns what one request of a caller holds, which is nothing yet. */
  open(caller: Caller, ip: string): BodyHold {
    const pool = "tenantId" in caller ? this.#ofTenants : this.#ofOutsiders;
    return pool.open(ownerOf(caller, ip));
  }
}

/** Recorded for a client that disconnected before its response began, as nginx does. It is never sent. */
const CLIENT_GONE = 499;

/**
 * Headers of every response: it is data, not a page, and must not be cached. Pages of documentation add more.
 */
export const SECURITY_HEADERS = {
  "X-Content-Type-Options": "nosniff",
  "Cache-Control": "no-store",
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "Referrer-Policy": "no-referrer",
  "X-Frame-Options": "DENY",
};
const HSTS = { "Strict-Transport-Security": "max-age=31536000" };

/** Assigns a request id for the response, the log and every error, and sets the headers of all responses. */
export const nameRequest = ({ config }: App): RequestHandler => {
  const isHttps = config.publicUrl.startsWith("https:");
  return (request, response, next) => {
    const requestId = requestIdFrom(request.headers["x-request-id"]);
    response.locals["requestId"] = requestId;
    const isSecure = isHttps || request.socket instanceof TLSSocket;
    response.set({ "X-Request-Id": requestId, ...SECURITY_HEADERS, ...(isSecure ? HSTS : {}) });
    next();
  };
};

const who = (caller: Caller | undefined): Record<string, string> => {
  if (caller?.kind === "key") return { tenantId: caller.tenantId, keyId: caller.keyId };
  if (caller?.kind === "user") return { tenantId: caller.tenantId, userId: caller.userId };
  return caller?.kind === "admin" ? { adminId: caller.adminId } : {};
};

const routeOf = (response: Response): string => String(response.locals["route"] ?? "unmatched");

/** Writes one log line and one measurement per request, when it is answered or its client has gone. */
export const observe =
  (app: App): RequestHandler =>
  (request, response, next) => {
    const startMs = performance.now();
    response.once("close", () => {
      const durationMs = Math.round((performance.now() - startMs) * 1000) / 1000;
      const route = routeOf(response);
      const status = response.headersSent ? response.statusCode : CLIENT_GONE;
      const statusClass = `${Math.floor(status / 100)}xx`;
      const group = String(response.locals["group"] ?? "unmatched");
      app.metrics.httpDuration.observe({ group, status: statusClass }, durationMs / 1000);
      app.metrics.httpRequests.inc({ method: request.method, route, status: statusClass });
      const isRoutine = route.startsWith("/health") || route === "/metrics";
      app.log[isRoutine ? "debug" : "info"](
        {
          requestId: response.locals["requestId"],
          method: request.method,
          // Without the query, which may contain secrets.
          path: request.originalUrl.split("?", 1)[0],
          route,
          status,
          durationMs,
          ip: clientIp(app, request),
          ...who(response.locals["caller"] as Caller | undefined),
          ...(response.writableFinished ? {} : { aborted: true }),
        },
        "request",
      );
    });
    next();
  };

/** Pages of one tenant, or one address, that are read and written at once in a process, and those of all. */
const PAGES: Slots = { ofOwner: 2, ofProcess: 6 };
/** The same of configurations of whole projects, which are read, compared or imported. */
const CONFIGURATIONS: Slots = { ofOwner: 1, ofProcess: 2 };
/** The same of questions of analytics, each of which keeps a core of the database busy. */
const QUESTIONS: Slots = { ofOwner: 2, ofProcess: 4 };
/** The same of files that are streamed, each of which holds a snapshot for as long as its client reads. */
const STREAMS: Slots = { ofOwner: 1, ofProcess: 3 };
/** Requests that wait for each slot of an owner, at most, and their maximum wait in ms. */
const SLOT_WAITING_MAX = 60;
const WAIT_MAX_MS = 10_000;

/** Whether a route answers pages whose rows may be large documents. */
const hasLargePages = ({ method, query, hasSmallRows }: AnyRoute): boolean =>
  method === "get" && hasSmallRows !== true && query !== undefined && "limit" in shapeOf(query as z.ZodType);

const shapeOf = (schema: z.ZodType): object => ("shape" in schema ? (schema.shape as object) : {});

type Slots = { ofOwner: number; ofProcess: number };

/** Who asks for something large. `bytes`: of the request; `signal`: aborted when they have gone. */
type Asker = { caller: Caller; ip: string; bytes: number; signal: AbortSignal };

/**
 * Bounds the memory of what is large while it is made: only a few are made at once, and further requests wait
 * in the order of their arrival.
 */
class LargeWork {
  readonly #slots: Bulkhead;

  constructor({ ofOwner, ofProcess }: Slots) {
    this.#slots = new Bulkhead({
      ofKey: { slots: ofOwner, waiting: ofOwner * SLOT_WAITING_MAX },
      ofOwner: WAITING.ofOwner,
      ofAll: { slots: ofProcess, ...WAITING.ofAll },
      waitMaxMs: WAIT_MAX_MS,
      refusal: busy,
    });
  }

  /** @throws DomainError SERVICE_UNAVAILABLE BUSY when too much waits, or for too long */
  run<T>({ caller, ip, bytes, signal }: Asker, make: () => Promise<T>): Promise<T> {
    const owner = ownerOf(caller, ip);
    return this.#slots.run(owner, make, { owner, bytes, signal });
  }
}

/** Pages: one of 100 large documents takes a hundred megabytes. */
export const pageSlots = (): LargeWork => new LargeWork(PAGES);

/** Configurations: one of a project at its limits takes as much, and CPU for seconds in slices. */
export const configurationSlots = (): LargeWork => new LargeWork(CONFIGURATIONS);

/** Questions of analytics: each reads much. */
export const questionSlots = (): LargeWork => new LargeWork(QUESTIONS);

/** Streamed files: slow readers keep nobody from asking questions. */
export const streamSlots = (): LargeWork => new LargeWork(STREAMS);

/** Bounds of what is large, by kind. */
export type LargeWorks = {
  pages: LargeWork;
  configurations: LargeWork;
  questions: LargeWork;
  streams: LargeWork;
};

/** Returns what bounds a route's work; undefined for what is small. */
export const slotsOf = (route: AnyRoute, bounds: LargeWorks): LargeWork | undefined => {
  if (route.isStream) return bounds.streams;
  if (route.isQuestion) return bounds.questions;
  if (hasLargePages(route)) return bounds.pages;
  return route.isOfConfiguration ? bounds.configurations : undefined;
};
