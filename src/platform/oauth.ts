import assert from "node:assert/strict";
import * as client from "openid-client";
import { z } from "zod";
import type { OAuthSettings } from "../config/sections.ts";
import type { Settings } from "../config.ts";
import {
  type FailureReason,
  type Handshake,
  OAuthError,
  type OAuthProvider,
  type OAuthProviders,
  profileFrom,
  type ProviderId,
} from "../domain/accounts/oauth/provider.ts";
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

/** Reads a body. @throws what `refuse` makes of the words for one with more bytes */
export const readBounded = async (
  body: AsyncIterable<Uint8Array> | Uint8Array[],
  maxBytes: number,
  refuse: (why: string) => Error,
): Promise<Uint8Array<ArrayBuffer>> => {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of body) {
    length += part.byteLength;
    if (length > maxBytes) throw refuse(`the answer is over ${maxBytes} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts);
};

/** Like `fetch`, but reads the whole body and fails if it is too large. Follows no redirects. */
export const boundedFetch: client.CustomFetch = async (url, options) => {
  const response = await fetch(url, { ...options, redirect: "manual" } as RequestInit);
  const body = await readBounded(response.body ?? [], ANSWER_MAX_BYTES, (why) => new TypeError(why));
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
const asOAuthError = (error: unknown): OAuthError => {
  if (error instanceof OAuthError) return error;
  if (error instanceof client.AuthorizationResponseError) return refusalOf(error);
  if (error instanceof client.ResponseBodyError) {
    const message = "The provider did not accept the answer that the browser brought; try again";
    return new OAuthError("provider_error", message, error, ofServer(error));
  }
  if (error instanceof client.WWWAuthenticateChallengeError) {
    const reason = { text: "the provider refuses the client id or the client secret", isAnybodys: false };
    return new OAuthError("provider_error", "The provider's answer could not be trusted", error, reason);
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

/** Runs what speaks to a provider. @throws OAuthError for whatever fails there */
export const orOAuthError = async <T>(run: () => Promise<T>): Promise<T> => {
  try {
    return await run();
  } catch (error) {
    throw asOAuthError(error);
  }
};

/** Returns where a browser signs in: with state, nonce and PKCE, which bind the answer to this flow. */
export const authorizationUrlOf = async (
  configuration: client.Configuration,
  { state, nonce, codeVerifier }: Omit<Handshake, "nonce"> & { nonce?: string },
  parameters: Record<string, string>,
): Promise<string> =>
  client.buildAuthorizationUrl(configuration, {
    ...parameters,
    state,
    ...(nonce !== undefined && { nonce }),
    code_challenge: await client.calculatePKCECodeChallenge(codeVerifier),
    code_challenge_method: "S256",
  }).href;

export type Exchanged = { claims: client.IDToken; accessToken: string };

/** Exchanges the code of an OpenID provider for the claims of its ID token, which is for this client alone. */
export const exchange = async (
  configuration: client.Configuration,
  redirectUri: string,
  answer: URLSearchParams,
  { state, nonce, codeVerifier }: Handshake,
): Promise<Exchanged> => {
  const url = new URL(`${redirectUri}?${answer.toString()}`);
  const tokens = await client.authorizationCodeGrant(configuration, url, {
    expectedState: state,
    expectedNonce: nonce,
    pkceCodeVerifier: codeVerifier,
    idTokenExpected: true,
  });
  const claims = tokens.claims();
  assert(claims, "the library insists on an ID token");
  // The library accepts additional audiences where `azp` is this client.
  if (String(claims.aud) !== configuration.clientMetadata().client_id)
    throw new OAuthError("provider_error", "The provider's answer is also meant for another application");
  return { claims, accessToken: tokens.access_token };
};

const API_VERSION = "2022-11-28";

type Github = NonNullable<OAuthSettings["github"]>;

const Person = z.object({ id: z.int().positive(), name: z.string().nullish() });
const Emails = z
  .array(z.object({ email: z.string(), primary: z.boolean(), verified: z.boolean() }))
  .max(1_000);
const Refusal = z.object({ error: z.string() });

/**
 * Adapts GitHub's error responses: it refuses a code with 200 and `error`; the protocol and the library
 * require 400.
 */
const tokenFetch: client.CustomFetch = async (url, options) => {
  const response = await boundedFetch(url, options);
  if (response.status !== 200) return response;
  const text = await response.text();
  const status = Refusal.safeParse(jsonOf(text)).success ? 400 : 200;
  return new Response(text, { status, headers: response.headers });
};

const jsonOf = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

const configurationOf = (
  { clientId, clientSecret, url }: Github,
  isProduction: boolean,
): client.Configuration => {
  const base = `${url}/login/oauth`;
  const configuration = new client.Configuration(
    { issuer: base, authorization_endpoint: `${base}/authorize`, token_endpoint: `${base}/access_token` },
    clientId,
    {},
    client.ClientSecretPost(clientSecret),
  );
  configuration.timeout = TIMEOUT_SECONDS;
  configuration[client.customFetch] = tokenFetch;
  // oxlint-disable-next-line typescript/no-deprecated -- marked to stand out; for a server on this machine
  if (!isProduction && isLoopback(url)) client.allowInsecureRequests(configuration);
  return configuration;
};

const ask = async <T>(address: string, accessToken: string, schema: z.ZodType<T>): Promise<T> => {
  const response = await boundedFetch(address, {
    method: "GET",
    body: undefined,
    redirect: "manual",
    headers: {
      accept: "application/vnd.github+json",
      authorization: `Bearer ${accessToken}`,
      "user-agent": "laurel",
      "x-github-api-version": API_VERSION,
    },
    signal: AbortSignal.timeout(TIMEOUT_SECONDS * 1_000),
  });
  if (response.status !== 200) throw new Error(`GitHub answered ${response.status}`);
  return schema.parse(await response.json());
};

/** GitHub or GitHub Enterprise Server: OAuth without ID tokens, so the user is identified through its API. */
const createGithub = (settings: Github, { url, isProduction }: Callback): OAuthProvider => {
  const configuration = configurationOf(settings, isProduction);
  return {
    authorizationUrl: ({ state, codeVerifier }) =>
      authorizationUrlOf(
        configuration,
        { state, codeVerifier },
        { redirect_uri: url, scope: "read:user user:email" },
      ),
    profileOf: (answer, { state, codeVerifier }) =>
      orOAuthError(async () => {
        const { access_token: token } = await client.authorizationCodeGrant(
          configuration,
          new URL(`${url}?${answer.toString()}`),
          { expectedState: state, pkceCodeVerifier: codeVerifier },
        );
        const { id, name } = await ask(`${settings.apiUrl}/user`, token, Person);
        // The address in /user is the one that the person displays, verified or not.
        const emails = await ask(`${settings.apiUrl}/user/emails?per_page=100`, token, Emails);
        const primary = emails.find((one) => one.primary);
        return profileFrom({
          subject: String(id),
          email: primary?.email,
          isEmailVerified: primary?.verified,
          name,
        });
      }),
  };
};

type Google = NonNullable<OAuthSettings["google"]>;

const discover = (
  { clientId, clientSecret, issuer }: Google,
  isProduction: boolean,
): Promise<client.Configuration> =>
  client.discovery(
    new URL(issuer),
    clientId,
    {
      client_secret: clientSecret,
      id_token_signed_response_alg: "RS256",
      [client.clockTolerance]: CLOCK_TOLERANCE_SECONDS,
    },
    client.ClientSecretBasic(clientSecret),
    {
      [client.customFetch]: boundedFetch,
      timeout: TIMEOUT_SECONDS,
      execute: [
        // Otherwise the library trusts TLS and does not verify the signature of an ID token.
        client.enableNonRepudiationChecks,
        // oxlint-disable-next-line typescript/no-deprecated -- marked to stand out
        ...(!isProduction && isLoopback(issuer) ? [client.allowInsecureRequests] : []),
      ],
    },
  );

/** Google, or the OpenID provider at `issuer`. */
const createGoogle = (settings: Google, { url, isProduction }: Callback): OAuthProvider => {
  const configuration = createDiscovery(() => discover(settings, isProduction));
  return {
    authorizationUrl: (handshake) =>
      orOAuthError(async () => {
        const parameters = { redirect_uri: url, scope: "openid email profile" };
        return authorizationUrlOf(await configuration(), handshake, parameters);
      }),
    profileOf: (answer, handshake) =>
      orOAuthError(async () => {
        const { claims } = await exchange(await configuration(), url, answer, handshake);
        const { sub: subject, email, email_verified: isEmailVerified, name } = claims;
        return profileFrom({ subject, email, isEmailVerified, name });
      }),
  };
};

/** Creates the configured providers; sends no request before the first sign-in. */
export const createOAuth = (
  { google, github }: OAuthSettings,
  { publicUrl, isProduction }: Pick<Settings, "publicUrl" | "isProduction">,
): OAuthProviders => {
  const back = (id: ProviderId): Callback => ({
    // The address that the operator registers with the provider.
    url: `${publicUrl}/api/v1/auth/oauth/${id}/callback`,
    isProduction,
  });
  return {
    ...(google && { google: createGoogle(google, back("google")) }),
    ...(github && { github: createGithub(github, back("github")) }),
  };
};
