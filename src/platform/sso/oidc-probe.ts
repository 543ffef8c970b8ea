import type * as client from "openid-client";
import type { OidcSettings, SsoCheck, SsoProbe } from "../../domain/accounts/sso/clients.ts";
import { codeOf, faultText } from "../guard/faults.ts";
import { discover, type OidcParts } from "./oidc-configuration.ts";

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
  const challenges = metadata.code_challenge_methods_supported;
  const hasPkce = challenges === undefined || challenges.includes("S256");
  const signatures = metadata.id_token_signing_alg_values_supported ?? [];
  const endpoints = [metadata.authorization_endpoint, metadata.token_endpoint, metadata.jwks_uri];
  return [
    check(
      "endpoints",
      endpoints.every((one) => one !== undefined),
      "authorization_endpoint, token_endpoint and jwks_uri",
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
export const checksOf = async (parts: OidcParts, settings: OidcSettings): Promise<SsoProbe> => {
  let metadata: Readonly<client.ServerMetadata>;
  try {
    metadata = (await discover(parts, settings)).serverMetadata();
  } catch (error) {
    const message = `${settings.issuer}/.well-known/openid-configuration: ${reasonOf(error)}`;
    return { checks: [check("discovery", false, message)] };
  }
  const found = check("discovery", true, "the metadata names this issuer");
  return {
    checks: [
      found,
      ...methodsOf(metadata),
      await keysCheck(parts.fetchOf(settings.tenantId), metadata.jwks_uri),
    ],
  };
};
