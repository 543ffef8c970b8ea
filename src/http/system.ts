import { timingSafeEqual } from "node:crypto";
import { type RequestHandler, Router } from "express";
import type { App } from "../app.ts";
import { DomainError, notFound, unauthorized } from "../domain/kernel/errors.ts";
import { docs } from "./docs.ts";
import { fixedBody, sendFixed, type FixedBody } from "./compression.ts";
import type { Describe } from "./description.ts";
import { playground } from "./playground.ts";

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
const metrics = (app: App, isPrivate: boolean): RequestHandler => {
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

/** Where to go from here: browsers are sent to the reference, others get addresses. */
const start =
  ({ config }: App): RequestHandler =>
  (request, response) => {
    if (request.accepts(["json", "html"]) === "html") return response.redirect(302, "/docs");
    const pages = { docs: "/docs", openapi: "/openapi.json", health: "/health", api: "/api/v1" };
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
    "/metrics": metrics(app, isPrivate),
  };
};

/** The pages that METRICS_PORT serves. */
export const operatorRouter = (app: App): Router => routerOf(operatorPages(app, true));

/** Pages for operators and documentation. The description is also where whoever knows the API alone looks. */
export const systemRouter = (app: App, describe: Describe): Router => {
  const document = openApi(app, describe);
  return routerOf({
    "/": start(app),
    ...operatorPages(app, false),
    "/openapi.json": document,
    "/api/v1/openapi.json": document,
    ...docs,
    ...(app.config.isProduction ? {} : playground),
  });
};
