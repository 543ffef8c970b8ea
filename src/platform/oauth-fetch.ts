import * as client from "openid-client";
import { type FailureReason, OAuthError } from "../domain/accounts/oauth/provider.ts";
import { faultText } from "./guard/faults.ts";

/** How long the issuer's metadata is cached; its keys have a cache of their own. */
const METADATA_MS = 3_600_000;

/**
 * Caches the discovered metadata; a failure is not cached, and until a refresh succeeds the old one is used.
 */
export const createDiscovery = (
  load: () => Promise<client.Configuration>,
): (() => Promise<client.Configuration>) => {
  let known: { config: client.Configuration; untilMs: number } | undefined;
  let loading: Promise<client.Configuration> | undefined;
  const renew = async (): Promise<client.Configuration> => {
    try {
      const config = await load();
      known = { config, untilMs: performance.now() + METADATA_MS };
      return config;
    } catch (error) {
      if (known) return known.config;
      throw error;
    } finally {
      loading = undefined;
    }
  };
  return async () => {
    if (known && known.untilMs > performance.now()) return known.config;
    loading ??= renew();
    return loading;
  };
};

/** Time limit for one request to a provider, including the body. */
export const TIMEOUT_SECONDS = 10;
/** Tolerated difference between the clocks of a provider and this server. */
export const CLOCK_TOLERANCE_SECONDS = 30;
const ANSWER_MAX_BYTES = 1_048_576;

/** Where a provider redirects the browser back to. */
export type Callback = { url: string; isProduction: boolean };

/** Outside production a provider may run on this machine, without TLS. */
export const isLoopback = (url: string): boolean =>
  /^http:\/\/(localhost|127\.0\.0\.1)(:\d+)?(\/|$)/.test(url);

const readBounded = async (response: Response): Promise<Buffer> => {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of response.body ?? []) {
    length += part.byteLength;
    if (length > ANSWER_MAX_BYTES) throw new TypeError(`the answer is over ${ANSWER_MAX_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts);
};

/** Like `fetch`, but reads the whole body and fails if it is too large. Follows no redirects. */
export const boundedFetch: client.CustomFetch = async (url, options) => {
  const response = await fetch(url, { ...options, redirect: "manual" } as RequestInit);
  const body = await readBounded(response);
  const { status, headers } = response;
  return new Response(body.length === 0 ? null : body, { status, headers });
};

const UNREACHABLE = "The provider does not answer right now; try again";

/** Maximum length of what a provider says of its error. */
const DESCRIPTION_MAX = 300;

/** An error as providers name them (RFC 6749, sections 4.1.2.1 and 5.2). */
const named = (error: client.AuthorizationResponseError | client.ResponseBodyError): string => {
  const parts = [error.error, error.error_description ?? ""].filter((part) => part !== "");
  return parts.map((part) => part.slice(0, DESCRIPTION_MAX)).join(": ");
};

/** Returns what has failed, without anything of the request or of this server's network. */
const reasonOf = (error: unknown): string | undefined => {
  if (error instanceof client.ResponseBodyError) return `the provider says ${named(error)}`;
  // Its message quotes the text.
  if (error instanceof SyntaxError) return "the answer is not JSON";
  if (isTimeout(error)) return `it does not answer within ${TIMEOUT_SECONDS} seconds`;
  if (!(error instanceof Error)) return undefined;
  if (error.message === "fetch failed") return faultText(error.cause);
  const inner = reasonOf(error.cause);
  return inner === undefined ? error.message : `${error.message}: ${inner}`;
};

const ofServer = (error: unknown): FailureReason | undefined => {
  const text = reasonOf(error);
  return text === undefined ? undefined : { text, isAnybodys: false };
};

/** Converts a provider's failure to an error for the user; the details are its `cause`, for the log. */
export const asOAuthError = (error: unknown): OAuthError => {
  if (error instanceof OAuthError) return error;
  if (error instanceof client.AuthorizationResponseError) return refusalOf(error);
  if (error instanceof client.ResponseBodyError) {
    const message = "The provider did not accept the answer that the browser brought; try again";
    return new OAuthError("provider_error", message, error, ofServer(error));
  }
  const reason = ofServer(error);
  if (isUnreachable(error)) return new OAuthError("temporarily_unavailable", UNREACHABLE, error, reason);
  return new OAuthError("provider_error", "The provider's answer could not be trusted", error, reason);
};

const refusalOf = (error: client.AuthorizationResponseError): OAuthError => {
  const reason = { text: `the browser came back with ${named(error)}`, isAnybodys: true };
  if (error.error === "access_denied")
    return new OAuthError("access_denied", "The sign-in was refused at the provider", undefined, reason);
  if (error.error === "temporarily_unavailable" || error.error === "server_error")
    return new OAuthError("temporarily_unavailable", UNREACHABLE, error, reason);
  return new OAuthError("provider_error", "The provider refused the sign-in", error, reason);
};

const isTimeout = (error: unknown): boolean =>
  (error instanceof client.ClientError && error.code === "OAUTH_TIMEOUT") ||
  (error instanceof DOMException && error.name === "TimeoutError");

/** Whether the connection failed or timed out. */
const isUnreachable = (error: unknown): boolean =>
  isTimeout(error) || (error instanceof TypeError && error.message === "fetch failed");
