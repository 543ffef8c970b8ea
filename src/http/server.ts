import express, { type ErrorRequestHandler, type RequestHandler, Router } from "express";
import type { App } from "../app.ts";
import { throttledWarnings } from "../domain/kernel/throttled-log.ts";
import { DomainError, notFound } from "../domain/kernel/errors.ts";
import { BUSY, outageOf } from "../domain/kernel/outages.ts";
import { isHiddenFrom } from "./admin-network.ts";
import { clientIp } from "./caller.ts";
import { asDomainError, internalError, sendError } from "./errors.ts";
import { nameRequest, observe } from "./observe.ts";
import { operation } from "./operation.ts";
import type { AnyRoute } from "./route.ts";
import { bySpecificity, checkRoutes, expressPath, pathPattern } from "./route-list.ts";
import { systemRouter } from "./system.ts";

/** Clients may write a path with one of these, or with none; the documentation shows the first. */
const PREFIXES = ["/api/v1", "/v1"];

/** NUL decodes to text that no database takes, so it is refused before anything reads the address. */
const refuseNul: RequestHandler = (request, _response, next) => {
  if (request.url.includes("%00"))
    throw new DomainError("VALIDATION_ERROR", "The address holds a NUL character");
  next();
};

/** 405 where another method would be served, else nothing. */
const refuseMethod = (app: App, routes: readonly AnyRoute[]): RequestHandler => {
  const patterns = routes.map((route) => ({
    route,
    pattern: pathPattern(route.path),
    method: route.method.toUpperCase(),
  }));
  return (request, response, next) => {
    const here = patterns.filter(({ pattern }) => pattern.test(request.path));
    // Not next(): Express itself would answer OPTIONS.
    const ip = clientIp(app, request);
    if (here.some(({ route }) => isHiddenFrom(app.config, ip, route))) throw notFound("Page");
    const methods = here.map(({ method }) => method);
    if (methods.length === 0) return next();
    const allowed = [
      ...new Set(methods.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method]))),
    ].join(", ");
    response.set("Allow", allowed);
    throw new DomainError("METHOD_NOT_ALLOWED", `This address answers ${allowed}`);
  };
};

const operations = (app: App, routes: readonly AnyRoute[]): Router => {
  const router = Router({ caseSensitive: true });
  for (const route of routes.toSorted(bySpecificity)) {
    router[route.method](expressPath(route.path), operation(app, route));
  }
  router.use(refuseMethod(app, routes));
  return router;
};

/** A bug, or a part of this service that failed; what operations refuse on purpose is no fault. */
const isFault = (error: unknown, known: DomainError | undefined): boolean =>
  known === undefined || (known.status >= 500 && known !== error);

/** Tells of faults: each bug with its stack, an outage and what met other work in one line for a while. */
const faultLog = (log: App["log"]) => {
  const [ofBusy, ofOutages] = [throttledWarnings(log), throttledWarnings(log)];
  return (error: unknown, known: DomainError | undefined, of: object): void => {
    if (known?.reason === BUSY)
      ofBusy(error instanceof Error ? error.message : error, "requests have waited too long for other work");
    else if (outageOf(error) !== undefined)
      ofOutages(error, "requests are refused: what they need does not answer");
    else log.error({ err: error, ...of }, "request failed");
  };
};

/** The last resort: every error of a request ends here, becomes an answer, and never leaves. */
const answerError = (app: App): ErrorRequestHandler => {
  const logFault = faultLog(app.log);
  return (error: unknown, request, response, _next) => {
    try {
      const known = asDomainError(error);
      const { requestId, route } = response.locals;
      if (isFault(error, known)) logFault(error, known, { requestId, method: request.method, route });
      sendError(response, known ?? internalError(), app.clock());
    } catch (failure) {
      app.log.error({ err: failure, cause: error }, "an error could not be answered");
      response.destroy();
    }
  };
};

/**
 * The Express application: `routes` under `/api/v1`, `/v1` and no prefix, the pages for operators, the
 * description at /openapi.json and /docs. Every answer that is not a success has the body of errors.ts.
 */
export const createHttp = (app: App, routes: readonly AnyRoute[]): express.Express => {
  checkRoutes(routes);
  const http = express();
  http.disable("x-powered-by");
  http.disable("etag");
  http.enable("case sensitive routing");
  http.use(nameRequest(app), observe(app), refuseNul);
  http.use(systemRouter(app, routes));
  const api = operations(app, routes);
  http.use(PREFIXES, api);
  http.use(api);
  http.use(() => {
    throw notFound("Page");
  });
  http.use(answerError(app));
  return http;
};
