import * as client from "openid-client";
import type { OidcSettings } from "../../domain/accounts/sso/clients.ts";
import { TIMEOUT_SECONDS } from "../oauth-fetch.ts";
import type { TenantFetch } from "./guarded-fetch.ts";

/** Signatures of ID tokens that are accepted: those with public keys. */
const SIGNATURES = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"];

/** How a client proves itself at the token endpoint, by precedence. */
const METHODS = ["client_secret_basic", "client_secret_post"] as const;

export type OidcParts = { fetchOf: TenantFetch; isLocal: boolean };

const knownOf = (all: readonly string[], told: unknown): string[] =>
  Array.isArray(told) ? all.filter((one) => told.includes(one)) : [];

/**
 * What is used of the metadata: it is remembered, and a provider may put anything into it. Of signatures only
 * those that count: the library compares an ID token with this list.
 */
const usedOf = (metadata: Readonly<client.ServerMetadata>): client.ServerMetadata => {
  const {
    issuer,
    authorization_endpoint: authorization,
    token_endpoint: token,
    userinfo_endpoint: userinfo,
    jwks_uri: keys,
    id_token_signing_alg_values_supported: signatures = ["RS256"],
    token_endpoint_auth_methods_supported: methods,
    code_challenge_methods_supported: challenges,
    authorization_response_iss_parameter_supported: namesIssuer,
  } = metadata;
  return {
    issuer,
    ...(authorization !== undefined && { authorization_endpoint: authorization }),
    ...(token !== undefined && { token_endpoint: token }),
    ...(userinfo !== undefined && { userinfo_endpoint: userinfo }),
    ...(keys !== undefined && { jwks_uri: keys }),
    id_token_signing_alg_values_supported: knownOf(SIGNATURES, signatures),
    ...(methods && { token_endpoint_auth_methods_supported: knownOf(METHODS, methods) }),
    ...(challenges && { code_challenge_methods_supported: knownOf(["S256"], challenges) }),
    ...(namesIssuer === true && { authorization_response_iss_parameter_supported: true }),
  };
};

/** Members of public keys that verify signatures (RFC 7518, section 6), and those that choose among keys. */
const KEY_MEMBERS = ["kty", "use", "key_ops", "alg", "kid", "crv", "x", "y", "n", "e"];
const KEYS_MAX = 100;

/** Leaves of a provider's keys what is used: the library remembers them. */
const withKeysAlone =
  (fetch: client.CustomFetch, keysUrl: string | undefined): client.CustomFetch =>
  async (url, request) => {
    const answer = await fetch(url, request);
    const isKeys = keysUrl !== undefined && url === URL.parse(keysUrl)?.href;
    if (!isKeys || answer.status !== 200) return answer;
    const { keys } = (await answer.json()) as { keys?: unknown };
    if (!Array.isArray(keys)) return Response.json({});
    const used = keys
      .slice(0, KEYS_MAX)
      .map((key: Record<string, unknown> | null) =>
        Object.fromEntries(KEY_MEMBERS.flatMap((name) => (key?.[name] == null ? [] : [[name, key[name]]]))),
      );
    return Response.json({ keys: used });
  };

/** Basic is the standard's default. */
const authenticationOf = (
  { token_endpoint_auth_methods_supported: methods }: Readonly<client.ServerMetadata>,
  secret: string,
): client.ClientAuth =>
  methods === undefined || methods.includes(METHODS[0])
    ? client.ClientSecretBasic(secret)
    : client.ClientSecretPost(secret);

/** Reads a provider's metadata. */
export const discover = async (
  { fetchOf, isLocal }: OidcParts,
  { tenantId, issuer, clientId, clientSecret }: OidcSettings,
): Promise<client.Configuration> => {
  const fetch = fetchOf(tenantId);
  // oxlint-disable-next-line typescript/no-deprecated -- marked to stand out; for providers on this machine
  const local = isLocal ? [client.allowInsecureRequests] : [];
  const found = await client.discovery(new URL(issuer), clientId, undefined, client.None(), {
    [client.customFetch]: fetch,
    timeout: TIMEOUT_SECONDS,
    execute: local,
  });
  const metadata = usedOf(found.serverMetadata());
  const configuration = new client.Configuration(
    metadata,
    clientId,
    { client_secret: clientSecret },
    authenticationOf(metadata, clientSecret),
  );
  configuration.timeout = TIMEOUT_SECONDS;
  configuration[client.customFetch] = withKeysAlone(fetch, metadata.jwks_uri);
  // Otherwise the library trusts TLS and does not verify the signature of an ID token.
  client.enableNonRepudiationChecks(configuration);
  for (const allow of local) allow(configuration);
  return configuration;
};
