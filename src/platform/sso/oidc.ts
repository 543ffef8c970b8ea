import { createHash } from "node:crypto";
import * as client from "openid-client";
import type { CustomFetch } from "openid-client";
import type { Dispatcher } from "undici";
import { profileFrom } from "../../domain/accounts/oauth/provider.ts";
import type { OidcSettings, SsoCheck, SsoClaims, SsoClients } from "../../domain/accounts/sso/clients.ts";
import { Bulkhead } from "../../domain/kernel/bulkhead.ts";
import { codeOf } from "../../domain/kernel/errors.ts";
import { createSizedCache } from "../../domain/kernel/caches.ts";
import { shownIfSet } from "../../domain/kernel/json.ts";
import { type Connections, Deadline } from "../guard/connections.ts";
import { Fault, faultText, type Guard, Refused } from "../guard/faults.ts";
import {
  authorizationUrlOf,
  CLOCK_TOLERANCE_SECONDS,
  createDiscovery,
  exchange,
  type Exchanged,
  orOAuthError,
  readBounded,
  TIMEOUT_SECONDS,
} from "../oauth.ts";

/** Time limit for one request to an identity provider, over all its phases, in ms. */
const REQUEST_MS = 10_000;
/** Maximum bytes of an answer: the keys of a provider, with their certificates, have some tens of KiB. */
const ANSWER_MAX_BYTES = 128 * 1_024;
/** Requests at once of one tenant, whose provider may answer none of them, and how many wait. */
const OF_TENANT_MAX = 8;
const OF_TENANT_QUEUED_MAX = 50;
/** As these, of all tenants. */
const IN_FLIGHT_MAX = 256;
const QUEUED_MAX = 1_000;

/** The failure of a request, as `fetch` reports one, with why in the words of the guard. */
class FetchFailed extends TypeError {
  constructor(cause: unknown) {
    super("fetch failed", { cause });
  }
}

const headersOf = (headers: Dispatcher.ResponseData["headers"]): Headers =>
  new Headers(
    Object.entries(headers).flatMap(([name, value]) =>
      [value ?? []].flat().map((one): [string, string] => [name, one]),
    ),
  );

type Request = Parameters<CustomFetch>[1];

/** Returns the `fetch` of one tenant, whose id is given: tenants do not wait for each other's providers. */
export type TenantFetch = (tenantId: string) => CustomFetch;

/**
 * Like `fetch`, for addresses that tenants have configured: only where the guard allows, over a connection of
 * its own, within 10 s and 128 KiB, without following redirects, few at once of each tenant.
 *
 * @throws FetchFailed, whose cause says why
 */
export const createGuardedFetch = (guard: Guard, connections: Connections): TenantFetch => {
  const refusal = () => new Fault("too many requests are on their way");
  const slots = new Bulkhead({
    ofKey: { slots: OF_TENANT_MAX, waiting: OF_TENANT_QUEUED_MAX },
    ofAll: { slots: IN_FLIGHT_MAX, waiting: QUEUED_MAX },
    refusal,
  });
  const ask = async (url: string, request: Request, deadline: Deadline): Promise<Response> => {
    const { target, problem } = guard.judge(url);
    if (target === undefined) throw new Refused(problem);
    const { method, headers, body } = request;
    const connection = connections.open(target);
    // The library heeds a signal only once a name is looked up and a connection is there.
    deadline.onOver = connection.end;
    try {
      const answer = await connection.client.request({
        method,
        path: target.path,
        headers: { ...headers, "accept-encoding": "identity" },
        // What the library sends are forms.
        body: body instanceof URLSearchParams ? body.toString() : null,
      });
      const bytes = await readBounded(answer.body, ANSWER_MAX_BYTES, (why) => new Fault(why));
      const sent = bytes.length === 0 ? null : bytes;
      return new Response(sent, { status: answer.statusCode, headers: headersOf(answer.headers) });
    } finally {
      connection.end();
    }
  };
  return (tenantId) => async (url, request) => {
    const deadline = new Deadline(REQUEST_MS, request.signal);
    try {
      return await slots.run(tenantId, () => ask(url, request, deadline), deadline);
    } catch (error) {
      throw new FetchFailed(deadline.fault ?? error);
    } finally {
      deadline.clear();
    }
  };
};

/** Signatures of ID tokens that are accepted: those with public keys. */
const SIGNATURES = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"];

/** How a client proves itself at the token endpoint, by precedence. */
const METHODS = ["client_secret_basic", "client_secret_post"] as const;

type OidcParts = { fetchOf: TenantFetch; isLocal: boolean };

const knownOf = (all: readonly string[], told: unknown): string[] =>
  Array.isArray(told) ? all.filter((one) => told.includes(one)) : [];

/**
 * What is used of the metadata: it is remembered, and a provider may put anything into it. Of signatures only
 * those that count: the library compares an ID token with this list.
 */
const usedOf = (metadata: Readonly<client.ServerMetadata>): client.ServerMetadata => {
  const {
    issuer,
    id_token_signing_alg_values_supported: signatures = ["RS256"],
    token_endpoint_auth_methods_supported: methods,
    code_challenge_methods_supported: challenges,
    authorization_response_iss_parameter_supported: namesIssuer,
  } = metadata;
  return {
    issuer,
    ...shownIfSet(metadata, ["authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri"]),
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
    const used = (key: Record<string, unknown> | null) => shownIfSet(key ?? {}, KEY_MEMBERS);
    return Response.json({ keys: keys.slice(0, KEYS_MAX).map(used) });
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
    { client_secret: clientSecret, [client.clockTolerance]: CLOCK_TOLERANCE_SECONDS },
    authenticationOf(metadata, clientSecret),
  );
  configuration.timeout = TIMEOUT_SECONDS;
  configuration[client.customFetch] = withKeysAlone(fetch, metadata.jwks_uri);
  // Otherwise the library trusts TLS and does not verify the signature of an ID token.
  client.enableNonRepudiationChecks(configuration);
  for (const allow of local) allow(configuration);
  return configuration;
};

const check = (name: string, ok: boolean, message: string): SsoCheck => ({ name, ok, message });

/** Returns why a request failed, in words that hold nothing of it. */
const reasonOf = (error: unknown): string => {
  if (!(error instanceof Error)) return "it failed";
  const { cause } = error;
  if (error.message === "fetch failed") return faultText(cause);
  const code = codeOf(error);
  if (code === "OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED") return "it names another issuer";
  if (code === "OAUTH_RESPONSE_IS_NOT_CONFORM") return "it does not answer with 200";
  return cause instanceof Error ? reasonOf(cause) : "it is not the metadata of an OpenID provider";
};

const methodsOf = (metadata: Readonly<client.ServerMetadata>): SsoCheck[] => {
  const { code_challenge_methods_supported: challenges, token_endpoint_auth_methods_supported: methods } =
    metadata;
  const hasPkce = challenges === undefined || challenges.includes("S256");
  const signatures = metadata.id_token_signing_alg_values_supported ?? [];
  const endpoints = [metadata.authorization_endpoint, metadata.token_endpoint, metadata.jwks_uri];
  return [
    check(
      "endpoints",
      endpoints.every((one) => one !== undefined),
      "authorization_endpoint, token_endpoint and jwks_uri",
    ),
    check(
      "authentication",
      methods === undefined || methods.length > 0,
      "token_endpoint_auth_methods_supported has client_secret_basic or client_secret_post, or is not told",
    ),
    check("pkce", hasPkce, "code_challenge_methods_supported has S256, or is not told"),
    check("signatures", signatures.length > 0, "ID tokens are signed with a public key, such as by RS256"),
  ];
};

const keysCheck = async (fetch: client.CustomFetch, url: string | undefined): Promise<SsoCheck> => {
  if (url === undefined) return check("keys", false, "there is no jwks_uri");
  try {
    const headers = { accept: "application/json" };
    const answer = await fetch(url, { method: "GET", headers, body: undefined, redirect: "manual" });
    const { keys } = (await answer.json()) as { keys?: unknown };
    const count = Array.isArray(keys) ? keys.length : 0;
    return check("keys", answer.status === 200 && count > 0, `jwks_uri has ${count} keys`);
  } catch (error) {
    return check("keys", false, `jwks_uri: ${reasonOf(error)}`);
  }
};

/** Looks at what can be seen without signing in. */
const checksOf = async (parts: OidcParts, settings: OidcSettings): Promise<SsoCheck[]> => {
  let metadata: Readonly<client.ServerMetadata>;
  try {
    metadata = (await discover(parts, settings)).serverMetadata();
  } catch (error) {
    const message = `${settings.issuer}/.well-known/openid-configuration: ${reasonOf(error)}`;
    return [check("discovery", false, message)];
  }
  return [
    check("discovery", true, "the metadata names this issuer"),
    ...methodsOf(metadata),
    await keysCheck(parts.fetchOf(settings.tenantId), metadata.jwks_uri),
  ];
};

/** Maximum providers whose metadata a process remembers. */
const KNOWN_MAX = 500;

/** Tells settings apart, without being the secret. */
const digestOf = ({ tenantId, issuer, clientId, clientSecret }: OidcSettings): string =>
  createHash("sha256")
    .update(JSON.stringify([tenantId, issuer, clientId, clientSecret]))
    .digest("base64url");

/** Remembers the metadata of providers, each for an hour. */
const createDirectory = (parts: OidcParts) => {
  const known = createSizedCache<() => Promise<client.Configuration>>({ items: KNOWN_MAX });
  return (settings: OidcSettings): Promise<client.Configuration> => {
    const key = digestOf(settings);
    const load = () => discover(parts, settings);
    const read = known.get(key) ?? known.keep(key, createDiscovery(load), { owner: settings.tenantId });
    return read();
  };
};

/**
 * Providers may give the address, and their word about it, in the ID token, or only when they are asked: what
 * they say of another address says nothing of this one.
 */
const withUserInfo = async (
  configuration: client.Configuration,
  { provider }: OidcSettings,
  { claims, accessToken }: Exchanged,
): Promise<Record<string, unknown> & { sub: string }> => {
  const { email, email_verified: word } = claims;
  const isTold = email !== undefined && (word !== undefined || provider === "AZURE_AD");
  if (isTold || configuration.serverMetadata().userinfo_endpoint === undefined) return claims;
  try {
    const asked = await client.fetchUserInfo(configuration, accessToken, claims.sub);
    if (email === undefined) return { ...asked, ...claims };
    return email === asked.email ? { ...claims, email_verified: asked.email_verified } : claims;
  } catch (error) {
    if (email === undefined) throw error;
    return claims;
  }
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
    authorizationUrl: (settings, handshake, loginHint) =>
      orOAuthError(async () => {
        const scope = settings.scopes.join(" ");
        const hint = loginHint === undefined ? {} : { login_hint: loginHint };
        const parameters = { redirect_uri: settings.redirectUri, scope, ...hint };
        return authorizationUrlOf(await configurationOf(settings), handshake, parameters);
      }),
    claimsOf: (settings, answer, handshake) =>
      orOAuthError(async () => {
        const configuration = await configurationOf(settings);
        const exchanged = await exchange(configuration, settings.redirectUri, answer, handshake);
        return claimsFrom(settings, await withUserInfo(configuration, settings, exchanged));
      }),
  };
};
