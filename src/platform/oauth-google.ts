import assert from "node:assert/strict";
import * as client from "openid-client";
import type { OAuthSettings } from "../config.ts";
import { OAuthError } from "../domain/accounts/oauth/errors.ts";
import { profileFrom } from "../domain/accounts/oauth/profile.ts";
import type { OAuthProvider } from "../domain/accounts/oauth/provider.ts";
import { createDiscovery } from "./oauth-discovery.ts";
import { asOAuthError, boundedFetch, type Callback, isLoopback, TIMEOUT_SECONDS } from "./oauth-fetch.ts";

type Google = NonNullable<OAuthSettings["google"]>;

const discover = (
  { clientId, clientSecret, issuer }: Google,
  isProduction: boolean,
): Promise<client.Configuration> =>
  client.discovery(
    new URL(issuer),
    clientId,
    { client_secret: clientSecret, id_token_signed_response_alg: "RS256" },
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
export const createGoogle = (settings: Google, { url, isProduction }: Callback): OAuthProvider => {
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
