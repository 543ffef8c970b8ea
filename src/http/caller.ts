import { TLSSocket } from "node:tls";
import type { Request } from "express";
import type { App } from "../app.ts";
import { authenticateAdmin } from "../domain/accounts/admin/authenticate.ts";
import { authenticateKey } from "../domain/accounts/api-keys/authenticate.ts";
import { authenticateScim } from "../domain/accounts/scim/authenticate.ts";
import { isScimSecret } from "../domain/accounts/scim/tokens.ts";
import { authenticateUser } from "../domain/accounts/auth/sessions.ts";
import type { Caller } from "../domain/kernel/caller.ts";
import { unauthorized } from "../domain/kernel/errors.ts";
import { clientAddress } from "../domain/accounts/rate-limits/ip-address.ts";

/**
 * Authenticates the sender by `X-API-Key` or `Authorization: Bearer`; without either the caller is anonymous.
 * An empty X-API-Key is none.
 * Keys in the address or in Authorization are ignored.
 * @throws DomainError UNAUTHORIZED when the credentials are invalid, or when both were sent
 */
export const identify = async (app: App, request: Request, isAdmin = false): Promise<Caller> => {
  if (isAdmin) return identifyAdmin(app, request);
  const secret = request.get("x-api-key") || undefined;
  const authorization = request.get("authorization");
  if (secret !== undefined && authorization !== undefined) {
    throw unauthorized("CREDENTIALS_AMBIGUOUS", "Send X-API-Key or Authorization, not both");
  }
  if (secret !== undefined) {
    if (ACCESS_TOKEN.test(secret)) throw unauthorized("API_KEY_INVALID", TOKEN_AS_KEY);
    return authenticateKey(app.transact, app.apiKeys, secret);
  }
  if (authorization === undefined) return { kind: "anonymous" };
  return authenticateUser(app.transact, app.tokens, bearerOf(request) ?? "", freshIfChange(request));
};

/** Who only reads may have been read a moment ago. */
const freshIfChange = ({ method }: Request) => ({ isFresh: method !== "GET" && method !== "HEAD" });

const API_KEY = /^svc_(live|test)_/;
const KEY_AS_TOKEN = "This is an API key: send it in the header X-API-Key, without Bearer";
/** The beginning of every JWT. */
const ACCESS_TOKEN = /^(Bearer +)?eyJ/i;
const TOKEN_AS_KEY =
  "This is no API key but an access token: send it as Authorization: Bearer <access token>";

const bearerOf = (request: Request): string | undefined => {
  const authorization = request.get("authorization");
  if (authorization === undefined) return undefined;
  const bearer = /^Bearer +(\S+)$/i.exec(authorization)?.[1];
  if (API_KEY.test(bearer ?? authorization)) throw unauthorized("TOKEN_INVALID", KEY_AS_TOKEN);
  if (bearer !== undefined) return bearer;
  throw unauthorized("TOKEN_INVALID", "Authorization must be: Bearer <access token>");
};

/** SCIM accepts no other credentials, and its tokens are accepted nowhere else. */
export const identifyScim = async (app: App, request: Request): Promise<Caller> => {
  const bearer = bearerOf(request);
  if (bearer === undefined) return { kind: "anonymous" };
  const secret = isScimSecret(bearer) ? bearer : undefined;
  return authenticateScim(app.transact, app.apiKeys, secret, freshIfChange(request));
};

/** Super-admin operations accept no other credentials, and theirs are accepted nowhere else. */
const identifyAdmin = async (app: App, request: Request): Promise<Caller> => {
  const bearer = bearerOf(request);
  return bearer === undefined
    ? { kind: "anonymous" }
    : authenticateAdmin(app, bearer, freshIfChange(request));
};

/** Returns the client's address, from X-Forwarded-For as far as TRUSTED_PROXIES vouch for it. */
export const clientIp = ({ config }: Pick<App, "config">, { socket, headers }: Request): string => {
  // Nobody stands between a client and TLS that ends here, so the header is the client's own.
  const isOwn = socket instanceof TLSSocket;
  const forwardedFor = isOwn ? undefined : headers["x-forwarded-for"]?.toString();
  return clientAddress({ remoteAddress: socket.remoteAddress, forwardedFor }, config.trustedProxies);
};
