import { TLSSocket } from "node:tls";
import type { Request, RequestHandler, Response } from "express";
import type { App } from "../app.ts";
import { httpsRequired, type KnownDomain, nameOfHost, spokeHttps } from "../domain/accounts/domains/known.ts";
import type { Caller } from "../domain/kernel/caller.ts";
import { invalid, notFound, unauthorized } from "../domain/kernel/errors.ts";
import { isOfPlatform } from "./access.ts";
import type { AnyRoute } from "./route.ts";

/** Pages that are of this server's operators alone. */
const OPERATORS = /^\/(metrics|internal)(\/|$)/;

/** The custom domain that a request came by; undefined for this server's own names. */
export const customHostOf = ({ locals }: Response): KnownDomain | undefined =>
  locals["customHost"] as KnownDomain | undefined;

const HEALTH = /^\/health(\/|$)/;

/** Authorities ask for it by plain HTTP. */
const CHALLENGE = /^\/\.well-known\/acme-challenge\//;

/** Whether a request was not sent by https, and is none of those that need not. */
const isPlain = ({ config }: App, { socket, headers, path }: Request): boolean => {
  const isTls = socket instanceof TLSSocket;
  const { remoteAddress } = socket;
  const arrival = { isTls, remoteAddress, forwardedProto: headers["x-forwarded-proto"] };
  return !CHALLENGE.test(path) && !spokeHttps(arrival, config.trustedProxies);
};

/** Has what only reads asked for again by https; anything else might be lost or done twice on the way. */
const toHttps = (request: Request, response: Response, domain: string): void => {
  Object.assign(response.locals, { route: "https", group: "system" });
  if (request.method !== "GET" && request.method !== "HEAD") throw httpsRequired(domain);
  response.status(308).set("Location", `https://${domain}${request.originalUrl}`).end();
};

/**
 * Notes whose custom domain a request came by. Who speaks TLS as one domain asks for no other, nor for it
 * once it is gone. By plain HTTP a domain only leads to https.
 * @throws VALIDATION_ERROR, NOT_FOUND, FORBIDDEN HTTPS_REQUIRED
 */
export const pinHost =
  (app: App): RequestHandler =>
  async (request, response, next) => {
    const name = nameOfHost(request.headers.host);
    const { socket } = request;
    if (socket instanceof TLSSocket && nameOfHost(String(socket.servername)) !== name)
      throw invalid("Host", "must be the name that the connection was opened for");
    // Whether the process lives is told also where names cannot be read.
    if (HEALTH.test(request.path)) return next();
    const known = name === "" ? undefined : await app.domains.find(name);
    // A connection may be older than the end of its domain.
    if (socket instanceof TLSSocket && !known) {
      response.set("Connection", "close");
      throw notFound("Page");
    }
    if (known) {
      if (OPERATORS.test(request.path)) throw notFound("Page");
      if (isPlain(app, request)) return toHttps(request, response, known.domain);
      response.locals["customHost"] = known;
    }
    next();
  };

/** A super-admin's operations are at no tenant's domain. */
export const isHiddenByPin = (response: Response, route: AnyRoute): boolean =>
  customHostOf(response) !== undefined && isOfPlatform(route);

/**
 * At a custom domain the credentials of other tenants are as unknown ones.
 * @throws UNAUTHORIZED API_KEY_INVALID, TOKEN_INVALID
 */
export const requirePinned = (response: Response, caller: Caller): void => {
  const pinned = customHostOf(response)?.tenantId;
  if (pinned === undefined || caller.kind === "anonymous" || caller.kind === "admin") return;
  if (caller.tenantId === pinned) return;
  if (caller.kind === "key") throw unauthorized("API_KEY_INVALID", "The API key is unknown");
  throw unauthorized("TOKEN_INVALID", "The token is not valid at this domain");
};
