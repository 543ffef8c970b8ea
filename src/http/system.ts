import { timingSafeEqual } from "node:crypto";
import { type RequestHandler, Router } from "express";
import type { App } from "../app.ts";
import { DomainError, notFound, unauthorized } from "../domain/kernel/errors.ts";
import { docs } from "./docs.ts";
import { openApiDocument } from "./openapi.ts";
import { playground } from "./playground.ts";
import type { AnyRoute } from "./route.ts";

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

const ready =
  (app: App): RequestHandler =>
  async (_request, response) => {
    const checks = await checksOf(app);
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

const isSame = (given: string, expected: string): boolean => {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
};

const metrics =
  (app: App): RequestHandler =>
  async (request, response) => {
    const { metricsToken, isProduction } = app.config;
    if (metricsToken === undefined && isProduction) throw notFound("Page");
    if (metricsToken !== undefined && !isSame(request.get("authorization") ?? "", `Bearer ${metricsToken}`)) {
      throw unauthorized("TOKEN_INVALID", "Send METRICS_TOKEN as Authorization: Bearer");
    }
    response.type(app.metrics.registry.contentType).send(await app.metrics.registry.metrics());
  };

const openApi = (routes: readonly AnyRoute[]): RequestHandler => {
  // One copy for all responses, however many clients read it slowly.
  let bytes: Buffer | undefined;
  return (_request, response) => {
    bytes ??= Buffer.from(JSON.stringify(openApiDocument(routes)));
    response.type("json").send(bytes);
  };
};

const onlyGet: RequestHandler = (_request, response) => {
  response.set("Allow", "GET, HEAD");
  throw new DomainError("METHOD_NOT_ALLOWED", "This address answers GET only");
};

/** Pages for operators and documentation; each exists once, without a prefix. */
export const systemRouter = (app: App, routes: readonly AnyRoute[]): Router => {
  const router = Router({ caseSensitive: true });
  const pages: Record<string, RequestHandler> = {
    "/health/live": (_request, response) => void response.json({ status: "ok" }),
    "/health/ready": ready(app),
    "/metrics": metrics(app),
    "/openapi.json": openApi(routes),
    ...docs,
    ...(app.config.isProduction ? {} : playground),
  };
  for (const [path, page] of Object.entries(pages)) {
    const note: RequestHandler = (_request, response, next) => {
      response.locals["route"] = path;
      next();
    };
    router.route(path).all(note).get(page).all(onlyGet);
  }
  return router;
};
