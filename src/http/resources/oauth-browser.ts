import { parseCookie, stringifySetCookie } from "cookie";
import type { App } from "../../app.ts";
import type { CustomHost } from "../../domain/accounts/domains/known.ts";
import type { OAuthError } from "../../domain/accounts/oauth/provider.ts";
import { invalid } from "../../domain/kernel/errors.ts";
import { Reply } from "../route.ts";

const SECRET = /^[\w-]{43}$/;

/**
 * Names and sends the cookie of a browser that signs in at an address: one secret for all its flows, which may
 * be in several tabs.
 */
const browserCookie = (address: string, plainName: string, isPosted: boolean) => {
  const secure = address.startsWith("https:");
  // With this prefix, browsers allow only this host to set the cookie, and only over TLS.
  const name = secure ? `__Host-${plainName}` : plainName;
  const sameSite = isPosted && secure ? "none" : "lax";
  const set = (value: string, maxAge: number): string =>
    stringifySetCookie({ name, value, maxAge, path: "/", httpOnly: true, secure, sameSite });
  const read = (cookie: string): string | undefined => {
    const value = parseCookie(cookie)[name];
    return value !== undefined && SECRET.test(value) ? value : undefined;
  };
  return { read, set };
};

export const cookieOf = ({ config }: App) => browserCookie(config.publicUrl, "laurel-oauth", false);

/** SAML responses are posted by pages of other sites, with which browsers send no other cookies. */
export const ssoCookieOf = ({ config }: App, host: CustomHost | undefined) =>
  browserCookie(host ? `https://${host.domain}` : config.publicUrl, "laurel-sso", true);

const causesOf = (error: unknown): string[] =>
  error instanceof Error ? [error.message, ...causesOf(error.cause)] : [];

/**
 * Logs failures that the user cannot fix, with what says whose they are: of a provider's the text alone,
 * since errors may hold tokens.
 */
export const reportTo =
  (log: App["log"], message: string, about: Record<string, unknown> = {}) =>
  ({ code, cause }: OAuthError): void => {
    if (code === "server_error") log.error({ ...about, err: cause }, message);
    else log.warn({ ...about, error: code, causes: causesOf(cause) }, message);
  };

/** Keeps addresses with secrets out of caches and Referer headers. */
export const redirect = (location: string, cookie?: string): Reply<undefined> =>
  new Reply(302, undefined, {
    Location: location,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    ...(cookie === undefined ? {} : { "Set-Cookie": cookie }),
  });

/** @throws VALIDATION_ERROR for a repeated parameter */
export const answerOf = (query: Record<string, unknown>): URLSearchParams => {
  const answer = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (typeof value !== "string") throw invalid(name, "must be given once");
    answer.set(name, value);
  }
  return answer;
};
