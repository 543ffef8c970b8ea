import assert from "node:assert/strict";
import * as client from "openid-client";
import { z } from "zod";
import type { OAuthSettings } from "../config/sections.ts";
import type { Settings } from "../config.ts";
import {
  OAuthError,
  type OAuthProvider,
  type OAuthProviders,
  profileFrom,
  type ProviderId,
} from "../domain/accounts/oauth/provider.ts";
import {
  asOAuthError,
  boundedFetch,
  CLOCK_TOLERANCE_SECONDS,
  type Callback,
  createDiscovery,
  isLoopback,
  TIMEOUT_SECONDS,
} from "./oauth-fetch.ts";

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
    authorizationUrl: async ({ state, codeVerifier }) =>
      client.buildAuthorizationUrl(configuration, {
        redirect_uri: url,
        scope: "read:user user:email",
        state,
        code_challenge: await client.calculatePKCECodeChallenge(codeVerifier),
        code_challenge_method: "S256",
      }).href,
    profileOf: async (answer, { state, codeVerifier }) => {
      try {
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
      } catch (error) {
        throw asOAuthError(error);
      }
    },
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
    authorizationUrl: async ({ state, nonce, codeVerifier }) => {
      try {
        const parameters = {
          redirect_uri: url,
          scope: "openid email profile",
          state,
          nonce,
          code_challenge: await client.calculatePKCECodeChallenge(codeVerifier),
          code_challenge_method: "S256",
        };
        return client.buildAuthorizationUrl(await configuration(), parameters).href;
      } catch (error) {
        throw asOAuthError(error);
      }
    },
    profileOf: async (answer, { state, nonce, codeVerifier }) => {
      try {
        const current = new URL(`${url}?${answer.toString()}`);
        const tokens = await client.authorizationCodeGrant(await configuration(), current, {
          expectedState: state,
          expectedNonce: nonce,
          pkceCodeVerifier: codeVerifier,
          idTokenExpected: true,
        });
        const claims = tokens.claims();
        assert(claims, "the library insists on an ID token");
        // The library accepts additional audiences where `azp` is this client; Google has none.
        if (String(claims.aud) !== settings.clientId)
          throw new OAuthError(
            "provider_error",
            "The provider's answer is also meant for another application",
          );
        const { sub: subject, email, email_verified: isEmailVerified, name } = claims;
        return profileFrom({ subject, email, isEmailVerified, name });
      } catch (error) {
        throw asOAuthError(error);
      }
    },
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
