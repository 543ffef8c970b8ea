import type { Request, RequestHandler, Response } from "express";
import type { App } from "../app.ts";
import type { Actor, Caller } from "../domain/kernel/caller.ts";
import { DomainError } from "../domain/kernel/errors.ts";
import { withTimeouts } from "../domain/kernel/timeouts.ts";
import { refuseHostile } from "../domain/kernel/hostile-json.ts";
import type { RowScope } from "../domain/kernel/work.ts";
import { requireAccess } from "./access.ts";
import { refuseOutsiders } from "./admin-network.ts";
import { checkBodyHeaders, readJson } from "./body.ts";
import { clientIp, identify } from "./caller.ts";
import { type Execution, keyedRequest, runKeyed, runOnce } from "./idempotency.ts";
import { consumeLimits, countAnonymous, countBadKey } from "./limits.ts";
import { isLong, sendLong } from "./long-json.ts";
import { hasLargePages, type PageSlots } from "./page-slots.ts";
import { projectOf } from "./project.ts";
import { type AnyRoute, type Reply, takesBody } from "./route.ts";
import { ownerOf, type UnreadResponses } from "./unread.ts";
import { parseBody, parseParams, queryChecker } from "./validate.ts";

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
  try {
    return await identify(app, request, route.access.admin !== undefined);
  } catch (error) {
    if (!(error instanceof DomainError) || error.code !== "UNAUTHORIZED") throw error;
    // A revoked or expired key is a customer's mistake, not a guess.
    const isGuess = error.reason === "API_KEY_INVALID";
    response.set(isGuess ? await countBadKey(app, ip) : await countAnonymous(app, ip));
    throw error;
  }
};

/** Returns the JSON as received, and its parsed form. */
const bodyOf = async (
  route: AnyRoute,
  request: Request,
  response: Response,
): Promise<{ raw: unknown; body: unknown }> => {
  if (!takesBody(route)) return { raw: undefined, body: undefined };
  const raw = await readJson(request, response, route.bodyLimit);
  if (route.itemised !== true) refuseHostile("", raw);
  return { raw, body: await parseBody(route, raw) };
};

/** Must be called after the body was read. */
const actorOf = (caller: Caller, { request, response, ip }: Arrival, signal: AbortSignal): Actor => ({
  caller,
  ip,
  userAgent: request.get("user-agent") ?? "",
  requestId: String(response.locals["requestId"]),
  waits: { bytes: Buffer.isBuffer(request.body) ? request.body.length : 0, signal },
});

/** Returns the rows that the operation may see. */
const rowScopeOf = (actor: Actor, projectId: string): RowScope => {
  const { caller } = actor;
  if (caller.kind !== "user" && caller.kind !== "key") return { role: "accounts", by: actor };
  const projectIds = projectId === "" ? [] : [projectId];
  return { role: "web", tenantId: caller.tenantId, projectIds, by: actor };
};

const send = async (response: Response, reply: Reply<unknown>): Promise<void> => {
  response.status(reply.status).set(reply.headers);
  if (reply.status === 302) response.end();
  else if (isLong(reply.body)) await sendLong(response, reply.body);
  else response.json(reply.body);
};

const gone = (): DomainError => new DomainError("SERVICE_UNAVAILABLE", "The client has gone");

/** Returns a signal that aborts when the connection ends before the response is complete. */
const presenceOf = (response: Response): AbortSignal => {
  const presence = new AbortController();
  response.once("close", () => {
    if (!response.writableFinished) presence.abort(gone());
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

const announceEnd = (response: Response, { deprecated }: AnyRoute): void => {
  if (deprecated) response.set({ "X-Deprecated": "true", Sunset: deprecated.sunset.toUTCString() });
};

/** What all operations of a process share to bound its memory. */
export type MemoryBounds = { unread: UnreadResponses; pages: PageSlots };

/**
 * Serves a route. The order of checks is part of the contract: blocked address, size and type, credentials,
 * limits, state of the tenant, role or scope, approval and plan, project, then the values. The result of
 * `run` is sent unchanged; tests validate it against the route's `response`.
 */
export const operation = (app: App, route: AnyRoute, { unread, pages }: MemoryBounds): RequestHandler => {
  const checkQuery = queryChecker(route);
  const isPage = hasLargePages(route);
  const accounts: App = { ...app, transact: app.transactAs({ role: "accounts" }) };
  return async (request, response) => {
    response.locals["route"] = route.path;
    const signal = presenceOf(response);
    announceEnd(response, route);
    const ip = clientIp(app, request);
    await accounts.blocks.refuse(ip);
    refuseOutsiders(app.config, ip, route);
    if (takesBody(route)) checkBodyHeaders(request, route.bodyLimit);
    const caller = await identifyFor(accounts, route, { request, response, ip });
    response.locals["caller"] = caller;
    response.set(await consumeLimits(accounts, route, caller, ip));
    unread.admit(ownerOf(caller, ip));
    requireAccess(route.access, caller, app.config);
    const projectId = await projectOf(accounts, route.project, caller, request);
    const params = await parseParams(route, request.params);
    const query = await checkQuery(request.query);
    const { raw, body } = await bodyOf(route, request, response);
    const actor = actorOf(caller, { request, response, ip }, signal);
    const rowScope = rowScopeOf(actor, projectId);
    const cookie = request.get("cookie") ?? "";
    const deviceToken = request.get("x-device-token") ?? "";
    const given = { params, query, body, cookie, deviceToken };
    const execution: Execution = { route, rowScope, context: { caller, projectId, actor, signal, ...given } };
    const scoped: App = { ...app, transact: whilePresent(app.transactAs(rowScope), signal) };
    const keyed = await keyedRequest(request, execution, raw);
    try {
      const run = () => (keyed ? runKeyed(scoped, execution, keyed) : runOnce(scoped, execution));
      const answer = async (): Promise<void> => {
        const reply = await (route.timeouts ? withTimeouts(route.timeouts, run) : run());
        // Others may have been answered meanwhile. What was written is not refused afterwards.
        if (request.method === "GET" && isLong(reply.body)) unread.admit(ownerOf(caller, ip));
        await send(response, reply);
      };
      await (isPage ? pages.run(actor, answer) : answer());
    } catch (error) {
      await route.onRefused?.(scoped, { ...execution.context, prepared: execution.prepared }, error);
      throw error;
    }
  };
};
