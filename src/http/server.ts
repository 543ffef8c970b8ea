import express, { type ErrorRequestHandler, type RequestHandler, Router } from "express";
import type { App } from "../app.ts";
import { throttledWarnings } from "../domain/kernel/throttled-log.ts";
import { DomainError, notFound } from "../domain/kernel/errors.ts";
import { BUSY, outageOf } from "../domain/kernel/outages.ts";
import { isHiddenFrom } from "./admin-network.ts";
import { isHiddenByPin, pinHost } from "./pin.ts";
import { clientIp } from "./caller.ts";
import { domainPages } from "./domain-pages.ts";
import { type Describe, describeHere } from "./description.ts";
import { asDomainError, hasGone, internalError, sendError } from "./errors.ts";
import { nameRequest, observe } from "./observe.ts";
import { type MemoryBounds, operation } from "./operation.ts";
import type { AnyRoute } from "./route.ts";
import { bySpecificity, checkRoutes, expressPath, pathPattern } from "./route-list.ts";
import { configurationSlots, pageSlots, questionSlots, streamSlots } from "./page-slots.ts";
import { BodyMemory } from "./body-memory.ts";
import { speakScim } from "./scim/answers.ts";
import { SCIM_PATH } from "./scim/discovery.ts";
import { scimRoutes } from "./scim/routes.ts";
import { trackUnread, UnreadResponses } from "./unread.ts";
import { operatorRouter, systemRouter } from "./system.ts";

/** Prefixes that clients may use, besides none; the documentation shows the first. */
const PREFIXES = ["/api/v1", "/v1"];

/** Refuses NUL, which decodes to text that no database accepts, before anything reads the address. */
const refuseNul: RequestHandler = (request, _response, next) => {
  if (request.url.includes("%00"))
    throw new DomainError("VALIDATION_ERROR", "The address holds a NUL character");
  next();
};

/** Answers OPTIONS, and 405 to others, if another method would be served. */
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
    if (here.some(({ route }) => isHiddenFrom(app.config, ip, route) || isHiddenByPin(response, route)))
      throw notFound("Page");
    const methods = here.map(({ method }) => method);
    if (methods.length === 0) return next();
    const allowed = [
      ...new Set(methods.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method]))),
    ].join(", ");
    response.set("Allow", allowed);
    if (request.method === "OPTIONS") return void response.status(204).end();
    throw new DomainError("METHOD_NOT_ALLOWED", `This address answers ${allowed}`);
  };
};

const operations = (app: App, routes: readonly AnyRoute[], bounds: MemoryBounds): Router => {
  const router = Router({ caseSensitive: true });
  for (const route of routes.toSorted(bySpecificity)) {
    router[route.method](expressPath(route.path), operation(app, route, bounds));
  }
  router.use(refuseMethod(app, routes));
  return router;
};

/** Whether an error is a bug or a failure of this service; deliberate refusals are not. */
const isFault = (error: unknown, known: DomainError | undefined): boolean =>
  known === undefined || (known.status >= 500 && known !== error);

/** Logs faults: each bug with its stack; outages and conflicts in one line per interval. */
const faultLog = (log: App["log"]) => {
  const warn = throttledWarnings(log);
  return (error: unknown, known: DomainError | undefined, of: object): void => {
    if (known?.reason === BUSY)
      warn(error instanceof Error ? error.message : error, "requests have waited too long for other work");
    else if (outageOf(error) !== undefined)
      warn(error, "requests are refused: what they need does not answer");
    else log.error({ err: error, ...of }, "request failed");
  };
};

/** Counts what limits, load and outages refuse; an error without a reason is counted under its code. */
const countRefusal = ({ metrics }: App, { code, reason = code }: DomainError): void => {
  if (code === "RATE_LIMITED" || code === "SERVICE_UNAVAILABLE")
    metrics.requestsRefused.inc({ code, reason });
};

/** Last error handler: every error of a request ends here and becomes a response. */
const answerError = (app: App): ErrorRequestHandler => {
  const logFault = faultLog(app.log);
  return (error: unknown, request, response, _next) => {
    try {
      const known = asDomainError(error);
      const { requestId, route } = response.locals;
      if (known && !hasGone(request)) countRefusal(app, known);
      if (isFault(error, known)) logFault(error, known, { requestId, method: request.method, route });
      sendError(response, known ?? internalError(), app.clock());
    } catch (failure) {
      app.log.error({ err: failure, cause: error }, "an error could not be answered");
      response.destroy();
    }
  };
};

const bareHttp = (): express.Express => {
  const http = express();
  http.disable("x-powered-by");
  http.disable("etag");
  http.enable("case sensitive routing");
  return http;
};

const noPage: RequestHandler = () => {
  throw notFound("Page");
};

/**
 * Creates the Express application: `routes` under `/api/v1`, `/v1` and no prefix, SCIM, the pages for
 * operators, the description at /openapi.json and /docs. Every unsuccessful response has the body of
 * errors.ts; those of SCIM have the protocol's.
 */
export const createHttp = (
  app: App,
  routes: readonly AnyRoute[],
  describe: Describe = describeHere(routes),
): express.Express => {
  checkRoutes([...routes, ...scimRoutes]);
  const http = bareHttp();
  const unread = new UnreadResponses();
  http.use(nameRequest(app), observe(app), trackUnread(app, unread), refuseNul);
  if (app.config.domains) http.use(pinHost(app), domainPages(app));
  http.use(systemRouter(app, describe));
  const bounds = {
    unread,
    bodies: new BodyMemory(),
    pages: pageSlots(),
    configurations: configurationSlots(),
    questions: questionSlots(),
    streams: streamSlots(),
  };
  http.use(SCIM_PATH, speakScim);
  http.use(operations(app, scimRoutes, bounds));
  const api = operations(app, routes, bounds);
  http.use(PREFIXES, api);
  http.use(api, noPage, answerError(app));
  return http;
};

/** Creates the application of the operators' own port: health and metrics of this process alone. */
export const createOperatorHttp = (app: App): express.Express => {
  const http = bareHttp();
  http.use(nameRequest(app), observe(app), refuseNul, operatorRouter(app), noPage, answerError(app));
  return http;
};
