import type { Request, RequestHandler, Response } from "express";
import type { App } from "../app.ts";
import type { Caller } from "../domain/caller.ts";
import { refuseHostile } from "../domain/tracking/event-input.ts";
import { checkBodyHeaders, readJson } from "./body.ts";
import { clientIp, identify, requireAccess } from "./caller.ts";
import { projectOf } from "./project.ts";
import { type AnyRoute, Reply } from "./route.ts";
import { parseBody, parseParams, queryChecker } from "./validate.ts";

const takesBody = (route: AnyRoute): boolean =>
  route.body !== undefined || route.method === "post" || route.method === "put" || route.method === "patch";

const identifyFor = async (app: App, route: AnyRoute, request: Request): Promise<Caller> => {
  if (route.access === "public") return { kind: "anonymous" };
  const caller = await identify(app, request);
  requireAccess(route.access, caller);
  return caller;
};

const bodyOf = async (route: AnyRoute, request: Request, response: Response): Promise<unknown> => {
  if (!takesBody(route)) return undefined;
  const body = await readJson(request, response, route.bodyLimit);
  if (route.itemised !== true) refuseHostile("", body);
  return parseBody(route, body);
};

const send = (response: Response, route: AnyRoute, result: unknown): void => {
  const reply = result instanceof Reply ? result : new Reply(route.status ?? 200, result);
  response.status(reply.status).set(reply.headers).json(reply.body);
};

/**
 * Serves a route. The order of checks is part of the contract: size and type, credentials, role or scope,
 * project, then the values. What `run` answers is sent as it is; tests hold it against the route's
 * `response`.
 */
export const operation = (app: App, route: AnyRoute): RequestHandler => {
  const checkQuery = queryChecker(route);
  return async (request, response) => {
    response.locals["route"] = route.path;
    if (takesBody(route)) checkBodyHeaders(request, route.bodyLimit);
    const caller = await identifyFor(app, route, request);
    response.locals["caller"] = caller;
    const projectId = await projectOf(app, route.project, caller, request);
    const result: unknown = await route.run(app, {
      caller,
      projectId,
      params: await parseParams(route, request.params),
      query: await checkQuery(request.query),
      body: await bodyOf(route, request, response),
      requestId: String(response.locals["requestId"]),
      ip: clientIp(request),
    });
    send(response, route, result);
  };
};
