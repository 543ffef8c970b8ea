import { parseCookie, stringifySetCookie } from "cookie";
import type { Request, Response } from "express";
import type { App } from "../app.ts";
import { SESSION_SECONDS } from "../domain/accounts/auth/sessions.ts";
import { DomainError, forbidden, invalid } from "../domain/kernel/errors.ts";
import { customHostOf } from "./pin.ts";
import { type AnyRoute, Reply } from "./route.ts";

/** A session whose refresh token is kept in a cookie, as pages of the console ask for it. */
export type CookieSession = {
  /** Of the cookie that came with the request. */
  refreshToken: string | undefined;
  /** Moves the refresh token of an answer into the cookie, or ends the cookie with its session. */
  keep(reply: Reply<unknown>): Reply<unknown>;
  /** The cookie to send with a refusal: of a token that is good for nothing any more, it goes. */
  afterRefusal(error: unknown): string | undefined;
};

const LOCAL = /^(localhost|.+\.localhost|127\.0\.0\.1|\[::1\])$/;
const PORTS: Readonly<Record<string, string>> = { "http:": "80", "https:": "443" };

const notOwn = (): DomainError =>
  forbidden("ORIGIN_NOT_ALLOWED", "X-Session: cookie is for pages of this server's own console");

/**
 * Returns the console's address. A page of another port or subdomain is of the same site, with whose requests
 * browsers send the cookie: only the origin tells them apart.
 * @throws FORBIDDEN ORIGIN_NOT_ALLOWED
 */
const ownOrigin = ({ config }: App, request: Request, response: Response): URL => {
  const text = request.get("origin") ?? "";
  const site = request.get("sec-fetch-site");
  if (!URL.canParse(text) || customHostOf(response) || (site !== undefined && site !== "same-origin"))
    throw notOwn();
  const origin = new URL(text);
  const own = [config.consoleUrl, config.publicUrl].map((address) => new URL(address).origin);
  if (origin.host !== request.get("host")?.toLowerCase() && !own.includes(text)) throw notOwn();
  return origin;
};

/** @throws FORBIDDEN HTTPS_REQUIRED */
const cookieOf = ({ config }: App, { protocol, hostname, port }: URL) => {
  const secure = protocol === "https:" || LOCAL.test(hostname);
  if (!secure && config.isProduction)
    throw forbidden(
      "HTTPS_REQUIRED",
      "Browsers keep the session's cookie at https only: open the console there",
    );
  // Cookies are of a host with all of its ports: servers side by side must not end one another's sessions.
  const plainName = `laurel-session-${port || PORTS[protocol]}`;
  // With this prefix only this host can set the cookie; browsers drop it without a word where it is not secure.
  const name = secure ? `__Host-${plainName}` : plainName;
  const set = (value: string, maxAge: number): string =>
    stringifySetCookie({ name, value, maxAge, path: "/", httpOnly: true, secure, sameSite: "strict" });
  return { name, set };
};

/**
 * Returns the session of a request with `X-Session: cookie` to an operation that begins, renews or ends one.
 * @throws FORBIDDEN ORIGIN_NOT_ALLOWED, HTTPS_REQUIRED; VALIDATION_ERROR for another value of the header
 */
export const cookieSessionOf = (
  app: App,
  { session }: AnyRoute,
  request: Request,
  response: Response,
): CookieSession | undefined => {
  const wish = request.get("x-session");
  if (session === undefined || wish === undefined) return undefined;
  if (wish !== "cookie") throw invalid("X-Session", "must be cookie");
  const { name, set } = cookieOf(app, ownOrigin(app, request, response));
  const withCookie = ({ status, headers }: Reply<unknown>, body: unknown, cookie: string) =>
    new Reply(status, body, { ...headers, "Set-Cookie": cookie });
  return {
    refreshToken: parseCookie(request.get("cookie") ?? "")[name],
    keep: (reply) => {
      if (session === "ends") return withCookie(reply, reply.body, set("", 0));
      const { refreshToken, ...body } = reply.body as { refreshToken: string };
      return withCookie(reply, body, set(refreshToken, SESSION_SECONDS));
    },
    afterRefusal: (error) =>
      session === "renews" && error instanceof DomainError && error.code === "UNAUTHORIZED"
        ? set("", 0)
        : undefined,
  };
};
