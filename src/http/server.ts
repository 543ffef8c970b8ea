import assert from "node:assert/strict";
import { timingSafeEqual } from "node:crypto";
import express, { type ErrorRequestHandler, type Request, type RequestHandler, Router } from "express";
import type { App } from "../app.ts";
import { readChallenge } from "../domain/accounts/domains/known.ts";
import { TOKEN_PAGES } from "../domain/accounts/email/templates/template.ts";
import { isIn, isOfThisMachine, networkOf } from "../domain/kernel/networks.ts";
import { normaliseDomain } from "../domain/accounts/sso/domain-name.ts";
import { DomainError, notFound, unauthorized } from "../domain/kernel/errors.ts";
import { BUSY, outageOf, throttledWarnings } from "../domain/kernel/outages.ts";
import { isHiddenFrom } from "./access.ts";
import { fixedBody, type FixedBody, sendFixed } from "./compression.ts";
import { consolePages } from "./console.ts";
import { type Describe, describeHere } from "./openapi.ts";
import { docs, playground } from "./docs.ts";
import {
  BodyMemory,
  clientIp,
  closeUnread,
  configurationSlots,
  countAnonymous,
  nameRequest,
  observe,
  pageSlots,
  questionSlots,
  streamSlots,
} from "./request-guards.ts";
import { type MemoryBounds, operation } from "./operation.ts";
import { customHostOf, isHiddenByPin, pinHost } from "./pin.ts";
import type { AnyRoute } from "./route.ts";
import { asDomainError, fieldsOf, hasGone, internalError, sendError } from "./validate.ts";

const TOKEN = /^[A-Za-z0-9_-]{16,128}$/;

/** Answers the certificate authority that looks whether a domain leads here, whichever process ordered. */
const challenge =
  (app: App): RequestHandler =>
  async (request, response) => {
    const token = String(request.params["token"]);
    response.set(await countAnonymous(app, clientIp(app, request)));
    if (!TOKEN.test(token)) throw notFound("Page");
    const answer = await app.transactAs({ role: "accounts" })((work) => readChallenge(work, token));
    if (answer === undefined) throw notFound("Page");
    response.type("application/octet-stream").send(Buffer.from(answer));
  };

const FORWARDED = ["x-forwarded-for", "forwarded", "via"];

/** Whether a request comes from this machine or a proxy itself, not through one. */
const isOfProxy = (app: App, request: Request): boolean => {
  const ip = clientIp(app, request);
  const address = networkOf(ip);
  if (address === undefined || FORWARDED.some((name) => request.headers[name] !== undefined)) return false;
  return isOfThisMachine(ip) || isIn(address, app.config.trustedProxies);
};

/** Tells a proxy that gets certificates by itself whether it may get one for a name. */
const ask =
  (app: App): RequestHandler =>
  async (request, response) => {
    const { domain } = request.query;
    if (!isOfProxy(app, request) || typeof domain !== "string") throw notFound("Page");
    if (!(await app.domains.find(normaliseDomain(domain)))) throw notFound("Domain");
    response.json({ allowed: true });
  };

const noted =
  (route: string): RequestHandler =>
  (_request, response, next) => {
    Object.assign(response.locals, { route, group: "system" });
    next();
  };

/** Leads links of mails, which name a tenant's own domain, on to the console. */
const toConsole =
  ({ config }: App): RequestHandler =>
  (request, response, next) => {
    if (!customHostOf(response)) return next();
    const { pathname, search } = new URL(request.url, "http://localhost");
    response.status(302).set("Location", `${config.consoleUrl}${pathname}${search}`).end();
  };

/** The pages that certificates of custom domains need, and links in mails. */
const domainPages = (app: App): Router => {
  const router = Router({ caseSensitive: true });
  if (app.config.domains?.acme) {
    const path = "/.well-known/acme-challenge/:token";
    router.get(path, noted(path), challenge(app));
  } else router.get("/internal/tls/ask", noted("/internal/tls/ask"), ask(app));
  for (const path of TOKEN_PAGES) router.get(path, noted(path), toConsole(app));
  return router;
};

const PARAMETER = /\{(\w+)\}/g;

/** Converts `/players/{playerId}` to Express's form: `/players/:playerId`. */
const expressPath = (path: string): string => path.replace(PARAMETER, ":$1");

/** Builds a pattern for addresses of the template, without a prefix. */
const pathPattern = (path: string): RegExp =>
  new RegExp(`^${path.replace(/[.*+?^$()|[\]\\]/g, "\\$&").replace(PARAMETER, "[^/]+")}/?$`);

const parametersOf = (path: string): string[] => [...path.matchAll(PARAMETER)].map(([, name = ""]) => name);

/** One digit per segment: 0 for a name, 1 for a parameter. */
const shapeOf = (path: string): string =>
  path
    .split("/")
    .map((part) => (part.startsWith("{") ? "1" : "0"))
    .join("");

/** Sorts `/players/import` before `/players/{playerId}`, so that a list may be in any order. */
const bySpecificity = (a: AnyRoute, b: AnyRoute): number => {
  const [left, right] = [shapeOf(a.path), shapeOf(b.path)];
  return left < right ? -1 : Number(left > right);
};

const checkRoute = (route: AnyRoute): void => {
  const { path, params, access, project, id } = route;
  assert.match(path, /^\/[\w-]+(\/([\w-]+|\{\w+\}))*$/, `${id}: the path ${path} is malformed`);
  const inPath = parametersOf(path);
  assert.deepEqual(
    fieldsOf(params).toSorted(),
    inPath.toSorted(),
    `${id}: params do not match the path ${path}`,
  );
  assert(access !== "public" || project === "none", `${id}: a public operation has no project`);
  assert(project !== "path" || inPath.includes("projectId"), `${id}: the path ${path} lacks {projectId}`);
};

/** @throws AssertionError for inconsistent or conflicting routes: a programming error */
export const checkRoutes = (routes: readonly AnyRoute[]): void => {
  const seen = new Set<string>();
  for (const route of routes) {
    checkRoute(route);
    for (const name of [route.id, `${route.method} ${route.path.replace(PARAMETER, "{}")}`]) {
      assert(!seen.has(name), `two routes are ${name}`);
      seen.add(name);
    }
  }
};

/** A dependency that has not answered within this time counts as failing. */
const READY_TIMEOUT_MS = 2_000;

type Check = Awaited<ReturnType<App["health"]>>[number];

const checksOf = async (app: App): Promise<Check[]> => {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Check[]>((resolve) => {
    const check = { name: "health", ok: false, message: `no answer within ${READY_TIMEOUT_MS} ms` };
    timer = setTimeout(() => resolve([check]), READY_TIMEOUT_MS);
  });
  try {
    return await Promise.race([app.health(), late]);
  } catch (error) {
    app.log.error({ err: error }, "health check failed");
    return [{ name: "health", ok: false, message: "the check itself failed" }];
  } finally {
    clearTimeout(timer);
  }
};

const isSame = (given: string, expected: string): boolean => {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
};

/** For how long requests are given the same metrics, which take milliseconds to collect and to write. */
const METRICS_SHARED_MS = 1_000;
/** For how long requests are given the same checks, which ask the database and Redis. */
const CHECKS_SHARED_MS = 250;

/** Returns what `make` does, made once for all that ask while it is made and within `ms` of its begin. */
const shared = <T>(ms: number, make: () => Promise<T>): (() => Promise<T>) => {
  let made: Promise<T> | undefined;
  let isOver = true;
  let atMs = 0;
  return () => {
    if (made === undefined || (isOver && performance.now() - atMs >= ms)) {
      atMs = performance.now();
      isOver = false;
      made = make().finally(() => (isOver = true));
      made.catch(() => (made = undefined));
    }
    return made;
  };
};

const ready = (app: App): RequestHandler => {
  const read = shared(CHECKS_SHARED_MS, () => checksOf(app));
  return async (_request, response) => {
    const checks = await read();
    const failing = checks.filter(({ ok }) => !ok);
    if (failing.length > 0) {
      const details = failing.map(({ name, message }) => ({ field: name, message: message ?? "is failing" }));
      const names = failing.map(({ name }) => name).join(", ");
      throw new DomainError("SERVICE_UNAVAILABLE", `Not ready: ${names}`, {
        reason: "NOT_READY",
        details,
        retryAfterSeconds: 1,
      });
    }
    response.json({ status: "ok", checks });
  };
};

/** @param isPrivate whether clients do not reach the port, so that no token is needed in production */
const serveMetrics = (app: App, isPrivate: boolean): RequestHandler => {
  const read = shared(METRICS_SHARED_MS, () => app.metrics.registry.metrics());
  return async (request, response) => {
    const { metricsToken, isProduction } = app.config;
    if (metricsToken === undefined && isProduction && !isPrivate) throw notFound("Page");
    if (metricsToken !== undefined && !isSame(request.get("authorization") ?? "", `Bearer ${metricsToken}`)) {
      throw unauthorized("TOKEN_INVALID", "Send METRICS_TOKEN as Authorization: Bearer");
    }
    response.type(app.metrics.registry.contentType).send(await read());
  };
};

const openApi = ({ config }: App, describe: Describe): RequestHandler => {
  // One copy for all responses, however many clients read it slowly.
  let body: Promise<FixedBody> | undefined;
  return async (request, response) => {
    // With PORT=0 only the socket knows the port.
    const origin = config.publicUrl.replace(/:0$/, `:${request.socket.localPort ?? 0}`);
    body ??= describe(origin).then(fixedBody);
    body.catch(() => (body = undefined));
    const document = await body;
    response.type("json").set("Cache-Control", "no-cache");
    sendFixed(response, document);
  };
};

const onlyGet: RequestHandler = (request, response) => {
  response.set("Allow", "GET, HEAD");
  if (request.method === "OPTIONS") return void response.status(204).end();
  throw new DomainError("METHOD_NOT_ALLOWED", "This address answers GET only");
};

/** Where to go from here: browsers are sent to the console, others get addresses. */
const start =
  ({ config }: App): RequestHandler =>
  (request, response) => {
    const place = customHostOf(response) ? "/docs" : "/console";
    if (request.accepts(["json", "html"]) === "html") return response.redirect(302, place);
    const pages = {
      console: "/console",
      docs: "/docs",
      openapi: "/openapi.json",
      health: "/health",
      api: "/api/v1",
    };
    return void response.json({ name: "Laurel", version: config.version, ...pages });
  };

type Pages = Record<string, RequestHandler>;

const routerOf = (pages: Pages): Router => {
  const router = Router({ caseSensitive: true });
  for (const [path, page] of Object.entries(pages)) {
    const note: RequestHandler = (_request, response, next) => {
      Object.assign(response.locals, { route: path, group: "system" });
      next();
    };
    router.route(path).all(note).get(page).all(onlyGet);
  }
  return router;
};

const operatorPages = (app: App, isPrivate: boolean): Pages => {
  const health = ready(app);
  return {
    "/health": health,
    "/health/live": (_request, response) => void response.json({ status: "ok" }),
    "/health/ready": health,
    "/metrics": serveMetrics(app, isPrivate),
  };
};

/** The pages that METRICS_PORT serves. */
const operatorRouter = (app: App): Router => routerOf(operatorPages(app, true));

/** Pages for operators and documentation. The description is also where whoever knows the API alone looks. */
const systemRouter = (app: App, describe: Describe): Router => {
  const document = openApi(app, describe);
  return routerOf({
    "/": start(app),
    ...operatorPages(app, false),
    "/openapi.json": document,
    "/api/v1/openapi.json": document,
    ...docs,
    ...consolePages(app),
    ...(app.config.isProduction ? {} : playground),
  });
};

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

const firstNameOf = (path: string): string => path.split("/", 2)[1] ?? "";

const routerOfRoutes = (app: App, routes: readonly AnyRoute[], bounds: MemoryBounds): Router => {
  const router = Router({ caseSensitive: true });
  for (const route of routes.toSorted(bySpecificity)) {
    router[route.method](expressPath(route.path), operation(app, route, bounds));
  }
  return router.use(refuseMethod(app, routes));
};

/** One router for each first name of a path: Express tries routes one after the other, and these are hundreds. */
const operations = (app: App, routes: readonly AnyRoute[], bounds: MemoryBounds): RequestHandler => {
  const groups = Map.groupBy(routes, ({ path }) => firstNameOf(path));
  const routers = new Map([...groups].map(([name, list]) => [name, routerOfRoutes(app, list, bounds)]));
  return (request, response, next) => {
    const router = routers.get(firstNameOf(request.path));
    if (router) router(request, response, next);
    else next();
  };
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
 * Creates the Express application: `routes` under `/api/v1`, `/v1` and no prefix, the pages for operators,
 * the description at /openapi.json and /docs. Every unsuccessful response has the body of errors.ts.
 */
export const createHttp = (
  app: App,
  routes: readonly AnyRoute[],
  describe: Describe = describeHere(routes),
): express.Express => {
  checkRoutes(routes);
  const http = bareHttp();
  http.use(nameRequest(app), observe(app), closeUnread, refuseNul);
  if (app.config.domains) http.use(pinHost(app), domainPages(app));
  const bounds = {
    bodies: new BodyMemory(),
    pages: pageSlots(),
    configurations: configurationSlots(),
    questions: questionSlots(),
    streams: streamSlots(),
  };
  const api = operations(app, routes, bounds);
  http.use(PREFIXES, api);
  http.use(systemRouter(app, describe), api, noPage, answerError(app));
  return http;
};

/** Creates the application of the operators' own port: health and metrics of this process alone. */
export const createOperatorHttp = (app: App): express.Express => {
  const http = bareHttp();
  http.use(nameRequest(app), observe(app), refuseNul, operatorRouter(app), noPage, answerError(app));
  return http;
};
