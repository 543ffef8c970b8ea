import { TLSSocket } from "node:tls";
import type { RequestHandler, Response } from "express";
import type { App } from "../app.ts";
import type { Caller } from "../domain/kernel/caller.ts";
import { requestIdFrom } from "../domain/kernel/request-id.ts";
import { clientIp } from "./caller.ts";
import { recordedStatus } from "./recorded-status.ts";

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
  if (caller?.kind === "scim") return { tenantId: caller.tenantId, scimTokenId: caller.tokenId };
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
      const status = recordedStatus(response);
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
