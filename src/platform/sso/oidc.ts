import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import * as client from "openid-client";
import { OAuthError } from "../../domain/accounts/oauth/errors.ts";
import type { Handshake } from "../../domain/accounts/oauth/provider.ts";
import { profileFrom } from "../../domain/accounts/oauth/profile.ts";
import type { OidcSettings, SsoClaims, SsoClients } from "../../domain/accounts/sso/clients.ts";
import { createDiscovery } from "../oauth-discovery.ts";
import { asOAuthError } from "../oauth-fetch.ts";
import { discover, type OidcParts } from "./oidc-configuration.ts";
import { checksOf } from "./oidc-probe.ts";

/** Maximum tenants whose provider's metadata a process remembers, of each one; the oldest are forgotten. */
const KNOWN_MAX = 500;

/** Tells settings apart, without being the secret. */
const digestOf = ({ issuer, clientId, clientSecret }: OidcSettings): string =>
  createHash("sha256")
    .update(JSON.stringify([issuer, clientId, clientSecret]))
    .digest("base64url");

/** Remembers the metadata of providers, each for an hour. */
const createDirectory = (parts: OidcParts) => {
  const known = new Map<string, { digest: string; read: () => Promise<client.Configuration> }>();
  return (settings: OidcSettings): Promise<client.Configuration> => {
    const { tenantId } = settings;
    const digest = digestOf(settings);
    const before = known.get(tenantId);
    const own =
      before?.digest === digest ? before : { digest, read: createDiscovery(() => discover(parts, settings)) };
    known.delete(tenantId);
    known.set(tenantId, own);
    if (known.size > KNOWN_MAX) known.delete(known.keys().next().value!);
    return own.read();
  };
};

type Exchanged = { claims: client.IDToken; accessToken: string };

const exchange = async (
  configuration: client.Configuration,
  { clientId, redirectUri }: OidcSettings,
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
  if (String(claims.aud) !== clientId)
    throw new OAuthError("provider_error", "The provider's answer is also meant for another application");
  return { claims, accessToken: tokens.access_token };
};

/** Providers may give the address in the ID token, or only when they are asked for it. */
const withUserInfo = async (
  configuration: client.Configuration,
  { claims, accessToken }: Exchanged,
): Promise<Record<string, unknown> & { sub: string }> => {
  if (claims["email"] !== undefined || configuration.serverMetadata().userinfo_endpoint === undefined)
    return claims;
  const asked = await client.fetchUserInfo(configuration, accessToken, claims.sub);
  return { ...asked, ...claims };
};

/**
 * Of Entra and Google only the directory counts: which addresses Entra gives is up to the directory's
 * administrators and users, so it is never taken for verified.
 */
const claimsFrom = (
  { provider, issuer }: OidcSettings,
  claims: Record<string, unknown> & { sub: string },
): SsoClaims => {
  const isEntra = provider === "AZURE_AD";
  const email = claims["email"] ?? (isEntra ? claims["preferred_username"] : undefined);
  const profile = profileFrom({ subject: claims.sub, email, isEmailVerified: true, name: claims["name"] });
  const { hd } = claims;
  return {
    issuer,
    ...profile,
    isEmailVerified: !isEntra && claims["email_verified"] === true,
    // Some write a text.
    isEmailUnproved: !isEntra && String(claims["email_verified"]) === "false",
    hostedDomain: typeof hd === "string" ? hd.toLowerCase() : undefined,
  };
};

/** A relying party of OpenID Connect, one for all tenants. */
export const createOidc = (parts: OidcParts): SsoClients["oidc"] => {
  const configurationOf = createDirectory(parts);
  return {
    probe: (settings) => checksOf(parts, settings),
    authorizationUrl: async (settings, { state, nonce, codeVerifier }) => {
      try {
        return client.buildAuthorizationUrl(await configurationOf(settings), {
          redirect_uri: settings.redirectUri,
          scope: settings.scopes.join(" "),
          state,
          nonce,
          code_challenge: await client.calculatePKCECodeChallenge(codeVerifier),
          code_challenge_method: "S256",
        }).href;
      } catch (error) {
        throw asOAuthError(error);
      }
    },
    claimsOf: async (settings, answer, handshake) => {
      try {
        const configuration = await configurationOf(settings);
        const exchanged = await exchange(configuration, settings, answer, handshake);
        return claimsFrom(settings, await withUserInfo(configuration, exchanged));
      } catch (error) {
        throw asOAuthError(error);
      }
    },
  };
};
