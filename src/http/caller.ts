import { isIP } from "node:net";
import type { Request } from "express";
import type { App } from "../app.ts";
import type { Access } from "../domain/access.ts";
import { authenticateKey } from "../domain/api-keys/authenticate.ts";
import { authenticateUser } from "../domain/auth/sessions.ts";
import type { Caller } from "../domain/caller.ts";
import { forbidden, unauthorized } from "../domain/errors.ts";

/**
 * Who sends the request, by `X-API-Key` or `Authorization: Bearer`; with neither, nobody. A key is never
 * looked for in the address or in Authorization.
 * @throws DomainError UNAUTHORIZED when what was sent is not valid, or when both were sent
 */
export const identify = async (app: App, request: Request): Promise<Caller> => {
  const secret = request.get("x-api-key");
  const authorization = request.get("authorization");
  if (secret !== undefined && authorization !== undefined) {
    throw unauthorized("CREDENTIALS_AMBIGUOUS", "Send X-API-Key or Authorization, not both");
  }
  if (secret !== undefined) return authenticateKey(app.transact, app.apiKeys, secret);
  if (authorization === undefined) return { kind: "anonymous" };
  const bearer = /^Bearer +(\S+)$/i.exec(authorization)?.[1];
  if (bearer === undefined)
    throw unauthorized("TOKEN_INVALID", "Authorization must be: Bearer <access token>");
  return authenticateUser(app.transact, app.tokens, bearer);
};

/** @throws DomainError UNAUTHORIZED without credentials, FORBIDDEN without the role or scope */
export const requireAccess = (access: Access, caller: Caller): void => {
  if (access === "public") return;
  if (caller.kind === "anonymous") {
    throw unauthorized(
      "CREDENTIALS_MISSING",
      "Send an API key in X-API-Key or an access token in Authorization",
    );
  }
  if (caller.kind === "key") {
    if (access.scope === undefined)
      throw forbidden("INSUFFICIENT_SCOPE", "This operation is not open to API keys");
    if (!caller.scopes.includes(access.scope)) {
      throw forbidden("INSUFFICIENT_SCOPE", `The API key lacks the scope ${access.scope}`);
    }
    return;
  }
  if (access.roles === undefined)
    throw forbidden("INSUFFICIENT_ROLE", "This operation is open to API keys only");
  if (!access.roles.includes(caller.role)) {
    throw forbidden("INSUFFICIENT_ROLE", `This operation needs one of the roles ${access.roles.join(", ")}`);
  }
};

/**
 * The client's address, by X-Forwarded-For as far as TRUSTED_PROXIES vouch for it (Express's "trust proxy").
 * What a proxy passes on may be any text, so what is not an address counts as the proxy itself.
 */
export const clientIp = (request: Request): string => {
  const named = request.ip ?? "";
  const address = isIP(named) === 0 ? (request.socket.remoteAddress ?? "") : named;
  return address.startsWith("::ffff:") && isIP(address.slice(7)) === 4 ? address.slice(7) : address;
};
