import type { Request, RequestHandler, Response } from "express";
import type { App } from "../app.ts";
import {
  checkOriginOf,
  findKnownProject,
  readClock,
  resolvePathProject,
  resolveProject,
} from "../domain/accounts/projects/project.ts";
import { forPages } from "../domain/accounts/auth/tokens.ts";
import type { Actor, Caller } from "../domain/kernel/caller.ts";
import { inZone } from "../domain/kernel/iso-time.ts";
import { DomainError, invalid, notFound } from "../domain/kernel/errors.ts";
import { ReadyJson } from "../domain/kernel/caches.ts";
import { ClientGone } from "../domain/kernel/flights.ts";
import { refuseHostile } from "../domain/kernel/hostile-json.ts";
import { ignoredFields, isJsonObject } from "../domain/kernel/json.ts";
import { whileWanted, withTimeouts } from "../domain/kernel/timeouts.ts";
import { readBy } from "../domain/kernel/read.ts";
import type { Sharing } from "../domain/kernel/shared-commits.ts";
import type { RowScope } from "../domain/kernel/work.ts";
import { refuseOutsiders, requireAccess } from "./access.ts";
import { bodyLimitOf, checkBodyHeaders, hasBody, readForm, readJson, receiveBody } from "./body.ts";
import { cookieSessionOf } from "./cookie-session.ts";
import { sendJson, sendReady, sendStreamed, StreamedBody } from "./compression.ts";
import { type Execution, keyedRequest, runKeyed, runOnce } from "./idempotency.ts";
import {
  type BodyHold,
  type BodyMemory,
  clientIp,
  consumeLimits,
  countAnonymous,
  countBadKey,
  identify,
  type LargeWorks,
  slotsOf,
} from "./request-guards.ts";
import { customHostOf, isHiddenByPin, requirePinned } from "./pin.ts";
import { type AnyRoute, type ProjectSource, type Reply, takesBody } from "./route.ts";
import { fieldsOf, parseBody, parseParams, queryChecker } from "./validate.ts";

/** Operations that follow the server's clock in a sandbox too: nothing of theirs is what players have. */
const BY_SERVER_TIME: ReadonlySet<string> = new Set([
  "API keys",
  "Authentication",
  "Chat",
  "Chat moderation",
  "Email",
  "Jobs",
  "Limits",
  "Lobbies",
  "Projects",
  "Rate limits",
  "Team",
  "Tenant",
  "Webhooks",
]);

const isInSandbox = async (app: App, caller: Caller, projectId: string): Promise<boolean> => {
  if (caller.kind === "key") return caller.isTest;
  if (caller.kind !== "user") return false;
  const known = await findKnownProject(app.transactAs({ role: "accounts" }), projectId);
  return known?.isSandbox === true;
};

/**
 * Returns how far the clock of a request's project is ahead of the server's, in ms. Only a request to a
 * sandbox reads it: each anew, so that what comes after an advance is at the new time in every process.
 */
const aheadOf = async (
  app: App,
  { tag }: AnyRoute,
  { caller, projectId }: { caller: Caller; projectId: string },
): Promise<number> => {
  if (projectId === "" || BY_SERVER_TIME.has(tag)) return 0;
  if (caller.kind === "anonymous" || caller.kind === "admin") return 0;
  if (!(await isInSandbox(app, caller, projectId))) return 0;
  const scope = { role: "web", tenantId: caller.tenantId, projectIds: [projectId] } as const;
  const read = app.readAs?.(scope) ?? readBy(app.transactAs(scope));
  return (await readClock(read, projectId)).clockAheadMs;
};

const one = (value: unknown): string | undefined => {
  if (Array.isArray(value)) throw invalid("projectId", "must be given once");
  return typeof value === "string" && value !== "" ? value : undefined;
};

/**
 * Determines the project of a request, checked to be the caller's own; "" for an operation without one. It
 * comes from the path, `X-Project-ID`, `projectId` in the query, or is the caller's only one.
 * @throws DomainError NOT_FOUND, VALIDATION_ERROR when it cannot be determined, FORBIDDEN PROJECT_MISMATCH or
 * ORIGIN_NOT_ALLOWED for a key
 */
const projectOf = async (
  app: App,
  source: ProjectSource,
  caller: Caller,
  request: Request,
): Promise<string> => {
  // For every operation: a key in a page of a foreign origin was stolen from its owner.
  if (caller.kind === "key") await checkOriginOf(app.transact, caller.projectId, request.get("origin"));
  if (source === "none") return "";
  const header = one(request.get("x-project-id"));
  if (source !== "path") {
    const wish = header ?? one(request.query["projectId"]);
    const resolved = await resolveIfNamed(app, caller, wish);
    if (!(resolved instanceof DomainError)) return resolved;
    if (source === "caller") throw resolved;
    return "";
  }
  const inPath = one(request.params["projectId"]) ?? "";
  const { projectId } = await resolvePathProject(app.transact, caller, inPath);
  // A key that names another project in the header is refused even where the path decides.
  if (caller.kind === "key" && header !== undefined) await resolveProject(app.transact, caller, header);
  return projectId;
};

/** As `resolveProject`, but returns the error of a console user who did not name the project. */
const resolveIfNamed = async (
  app: App,
  caller: Caller,
  wish: string | undefined,
): Promise<string | DomainError> => {
  try {
    return (await resolveProject(app.transact, caller, wish)).projectId;
  } catch (error) {
    if (error instanceof DomainError && error.reason === "PROJECT_REQUIRED") return error;
    throw error;
  }
};

type Arrival = { request: Request; response: Response; ip: string };

/**
 * Authenticates a request. Invalid credentials count against the address, so that guessing does not evade its
 * limit.
 */
const identifyFor = async (
  app: App,
  route: AnyRoute,
  { request, response, ip }: Arrival,
): Promise<Caller> => {
  if (route.access === "public") return { kind: "anonymous" };
  let known: Caller | undefined;
  try {
    known = await identify(app, request, route.access.admin !== undefined);
    requirePinned(response, known);
    return known;
  } catch (error) {
    if (!(error instanceof DomainError) || error.code !== "UNAUTHORIZED") throw error;
    // A revoked or expired key, or one of another domain, is a customer's mistake, not a guess.
    const isGuess = error.reason === "API_KEY_INVALID" && known === undefined;
    response.set(isGuess ? await countBadKey(app, ip) : await countAnonymous(app, ip));
    throw error;
  }
};

const takesNone = (): DomainError => invalid("body", "this operation takes no body");

const isEmptyObject = (value: unknown): boolean => isJsonObject(value) && Object.keys(value).length === 0;

type Body = { raw: unknown; body: unknown; ignored: string[] };

/** Returns what reads a body: as received, parsed, and the names of fields that this leaves out. */
const bodyReader = (route: AnyRoute) => {
  const known = new Set(fieldsOf(route.body));
  const limits = { bytes: bodyLimitOf(route), parts: route.bodyPartsMax };
  return async (request: Request, { hold }: BodyHold): Promise<Body> => {
    if (!takesBody(route)) return { raw: undefined, body: undefined, ignored: [] };
    // Configurations have slots of their own: see LargeWork.
    const raw = route.takesForm
      ? readForm(request)
      : await readJson(request, limits, route.isOfConfiguration ? () => undefined : hold);
    if (route.body === undefined && !isEmptyObject(raw)) throw takesNone();
    if (route.itemised !== true) refuseHostile("", raw);
    return { raw, body: await parseBody(route, raw), ignored: ignoredFields(raw, known) };
  };
};

/** Must be called after the body was read. */
const actorOf = (caller: Caller, { request, response, ip }: Arrival, signal: AbortSignal): Actor => ({
  caller,
  ip,
  userAgent: request.get("user-agent") ?? "",
  requestId: String(response.locals["requestId"]),
  waits: { bytes: Buffer.isBuffer(request.body) ? request.body.length : 0, signal },
});

type OwnProject = { projectId: string; aheadMs: number };

/** Returns the rows that the operation may see, and at what time it sees them. */
const rowScopeOf = (actor: Actor, { projectId, aheadMs }: OwnProject): RowScope => {
  const { caller } = actor;
  if (caller.kind !== "user" && caller.kind !== "key") return { role: "accounts", by: actor };
  const projectIds = projectId === "" ? [] : [projectId];
  const scope = { role: "web", tenantId: caller.tenantId, projectIds, by: actor } as const;
  return aheadMs === 0 ? scope : { ...scope, aheadMs };
};

const send = async (route: AnyRoute, response: Response, reply: Reply<unknown>): Promise<void> => {
  if (reply.status === 302) return void response.status(302).set(reply.headers).end();
  if (reply.body instanceof StreamedBody) return sendStreamed(response, reply.body, reply);
  if (reply.body instanceof ReadyJson) {
    response.status(reply.status).set(reply.headers);
    return sendReady(response, reply.body);
  }
  // Invalid JSON throws before anything of the response is set.
  const bytes = Buffer.from(JSON.stringify(reply.body) ?? "");
  response.status(reply.status).set(reply.headers);
  await sendJson(response, bytes, route.isRevalidated === true);
};

/** Returns a signal that aborts when the connection ends before the response is complete. */
const presenceOf = (response: Response): AbortSignal => {
  const presence = new AbortController();
  response.once("close", () => {
    if (!response.writableFinished) presence.abort(new ClientGone());
  });
  return presence.signal;
};

/** Begins no transaction for a client that disconnected while its request was queued. */
const whilePresent = (transact: App["transact"], signal: AbortSignal): App["transact"] => {
  let hasBegun = false;
  return (run, ...rest) =>
    transact(
      (work) => {
        if (!hasBegun) signal.throwIfAborted();
        hasBegun = true;
        return run(work);
      },
      ...rest,
    );
};

/**
 * Returns the App of an operation: what it does is within its scope. With `signal` it ends with its client;
 * without, it lasts.
 */
const scopedFor = (app: App, { route, rowScope: given, context }: Execution, signal?: AbortSignal): App => {
  const rowScope = signal ? given : lastingScope(given);
  const own = transactOf(app, rowScope, { route, sharing: route.sharing?.(context) });
  const transact = signal ? whilePresent(own, signal) : own;
  const read = app.readAs?.(rowScope) ?? readBy(transact);
  const tokens = context.session ? forPages(app.tokens) : app.tokens;
  return { ...app, tokens, transact, read, clock: clockIn(app, rowScope) };
};

type Transacting = { route: AnyRoute; sharing: Sharing | undefined };

const transactOf = (app: App, rowScope: RowScope, { route, sharing }: Transacting): App["transact"] => {
  if (sharing) return app.transactShared(rowScope, sharing);
  return route.readsReplica ? app.replicaAs(rowScope) : app.transactAs(rowScope);
};

/** Returns the clock of an operation's project. */
const clockIn = ({ clock }: App, rowScope: RowScope): App["clock"] => {
  const aheadMs = rowScope.role === "web" ? (rowScope.aheadMs ?? 0) : 0;
  return aheadMs === 0 ? clock : () => new Date(clock().getTime() + aheadMs);
};

/** The scope of work that nobody ends by disconnecting. */
const lastingScope = (rowScope: RowScope): RowScope => {
  if (!rowScope.by) return rowScope;
  const { waits: _waits, ...by } = rowScope.by;
  return { ...rowScope, by };
};

const announceEnd = (response: Response, { deprecated }: AnyRoute): void => {
  if (deprecated) response.set({ "X-Deprecated": "true", Sunset: deprecated.sunset.toUTCString() });
};

/** What all operations of a process share to bound its memory. */
export type MemoryBounds = LargeWorks & { bodies: BodyMemory };

/** A request that has passed all checks but that of its body. */
type Admitted = { caller: Caller; ip: string; signal: AbortSignal; zone: string } & Pick<
  Execution["context"],
  "projectId" | "params" | "query"
>;

const NO_BYTES = new Uint8Array();

const signedOf = (request: Request, { signatureHeader }: AnyRoute) => ({
  bytes: Buffer.isBuffer(request.body) ? request.body : NO_BYTES,
  signature: signatureHeader === undefined ? "" : (request.get(signatureHeader) ?? ""),
});

/** Refuses what is not signed, and counts it as a request without credentials. */
const requireSigned = async (
  app: App,
  route: AnyRoute,
  { request, response, ip }: Arrival,
): Promise<void> => {
  try {
    await route.requireSigned?.(app, signedOf(request, route));
  } catch (error) {
    response.set(await countAnonymous(app, ip));
    throw error;
  }
};

/** Checks a request up to its body. @throws DomainError */
const admit = (app: App, route: AnyRoute) => {
  const checkQuery = queryChecker(route);
  return async ({ request, response, ip }: Arrival, signal: AbortSignal): Promise<Admitted> => {
    await app.blocks.refuse(ip);
    refuseOutsiders(app.config, ip, route);
    if (isHiddenByPin(response, route)) throw notFound("Page");
    if (takesBody(route)) checkBodyHeaders(request, route);
    else if (hasBody(request)) throw takesNone();
    const caller = await identifyFor(app, route, { request, response, ip });
    response.locals["caller"] = caller;
    response.set(await consumeLimits(app, route, caller, ip));
    requireAccess(route.access, caller, app.config);
    const projectId = await projectOf(app, route.project, caller, request);
    const zone = (await findKnownProject(app.transact, projectId))?.timezone ?? "UTC";
    const params = await parseParams(route, request.params);
    const query = await inZone(zone, () => checkQuery(request.query));
    return { caller, ip, signal, projectId, zone, params, query };
  };
};

/**
 * Serves a route. The order of checks is part of the contract: blocked address, size and type, credentials,
 * limits, state of the tenant, role or scope, approval and plan, project, then the values. The result of
 * `run` is sent unchanged; tests validate it against the route's `response`.
 */
export const operation = (app: App, route: AnyRoute, bounds: MemoryBounds): RequestHandler => {
  const check = admit({ ...app, transact: app.transactAs({ role: "accounts" }) }, route);
  const readBody = bodyReader(route);
  const slots = slotsOf(route, bounds);
  const perform = async (arrival: Arrival, admitted: Admitted, held: BodyHold): Promise<void> => {
    const { request, response } = arrival;
    const { caller, signal, projectId } = admitted;
    await requireSigned(app, route, arrival);
    const session = cookieSessionOf(app, route, request, response);
    const { raw, body, ignored } = await readBody(request, held);
    const actor = actorOf(caller, arrival, signal);
    const rowScope = rowScopeOf(actor, { projectId, aheadMs: await aheadOf(app, route, admitted) });
    const cookie = request.get("cookie") ?? "";
    const origin = request.get("origin");
    const signed = signedOf(request, route);
    const host = customHostOf(response);
    const context = { ...admitted, actor, body, ignored, host, origin, cookie, signed, session };
    const execution: Execution = { route, rowScope, context };
    const scoped = scopedFor(app, execution, signal);
    const keyed = await keyedRequest(request, execution, raw);
    try {
      const lasting = scopedFor(app, execution);
      const run = () =>
        keyed ? runKeyed(scoped, lasting, execution, keyed) : runOnce(scoped, lasting, execution);
      const wanted = () => (route.isQuestion || route.isStream ? whileWanted(signal, run) : run());
      const made = await (route.timeouts ? withTimeouts(route.timeouts, wanted) : wanted());
      const reply = session?.keep(made) ?? made;
      const sent = () => send(route, response, reply);
      await (route.isStream ? whileWanted(signal, sent) : sent());
    } catch (error) {
      const gone = session?.afterRefusal(error);
      if (gone !== undefined) response.set("Set-Cookie", gone);
      await route.onRefused?.(scoped, { ...context, prepared: execution.prepared }, error);
      throw error;
    }
  };
  return async (request, response) => {
    Object.assign(response.locals, { route: route.path, group: route.tag });
    const signal = presenceOf(response);
    announceEnd(response, route);
    const arrival: Arrival = { request, response, ip: clientIp(app, request) };
    const admitted = await check(arrival, signal);
    const held = bounds.bodies.open(admitted.caller, arrival.ip);
    try {
      // Slots are not held while a body arrives, which takes as long as its sender wants.
      const bytes = takesBody(route) ? await receiveBody(request, bodyLimitOf(route), held.hold) : 0;
      const run = () => inZone(admitted.zone, () => perform(arrival, admitted, held));
      await (slots ? slots.run({ ...admitted, bytes }, run) : run());
    } finally {
      held.release();
    }
  };
};
