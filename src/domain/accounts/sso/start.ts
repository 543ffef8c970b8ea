import { newRandomSecret } from "../auth/random-secret.ts";
import { OAuthError } from "../oauth/errors.ts";
import { newHandshake, type ResponseMode } from "../oauth/flows.ts";
import { type RedirectRules, requireRedirectUri } from "../oauth/redirects.ts";
import { refusal, type Started } from "../oauth/start.ts";
import type { CustomHost } from "../domains/known.ts";
import { Tenant } from "../tenants/tenant.ts";
import { notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import { hasFeature } from "../../kernel/plans.ts";
import type { Work } from "../../kernel/work.ts";
import type { SsoClients } from "./clients.ts";
import { SsoConfiguration } from "./configuration.ts";
import { type FailureParts, keepFailure } from "./failures.ts";
import { storeSsoFlow, type SsoHandshake } from "./flows.ts";
import { oidcSettingsOf, samlSettingsOf, type SettingsParts } from "./settings.ts";

export type SsoParts = SettingsParts & RedirectRules & FailureParts & { sso: SsoClients };

/** A configuration that people sign in through, with its tenant. */
export type OpenSso = { sso: SsoConfiguration; tenant: Tenant };

/** Returns what signs people in to a tenant now, at a host. @throws NOT_FOUND where nothing does */
export const findOpenSso = async (
  work: Work,
  tenantId: string,
  host: CustomHost | undefined,
): Promise<OpenSso> => {
  const tenant = await findSsoTenant(work, tenantId, host);
  const sso = await work.em.findOne(SsoConfiguration, { tenantId: tenant.id, status: "ACTIVE" });
  if (!sso) throw notFound("Single sign-on");
  return { sso, tenant };
};

/**
 * Returns a tenant that may have single sign-on, before it has. At a custom domain there is that of its
 * tenant alone. @throws NOT_FOUND
 */
export const findSsoTenant = async (
  { em }: Work,
  tenantId: string,
  host: CustomHost | undefined,
): Promise<Tenant> => {
  const tenant = isId(tenantId) ? await em.findOne(Tenant, { id: tenantId, deletedAt: null }) : null;
  const isElsewhere = host !== undefined && host.tenantId !== tenant?.id;
  if (!tenant || isElsewhere || !hasFeature(tenant, "sso")) throw notFound("Single sign-on");
  return tenant;
};

/** Where the browser wants to go back to, with what. */
export type SsoStart = {
  tenantId: string;
  redirectUri: string | undefined;
  responseMode: ResponseMode;
  /** The secret that the browser has already. */
  browser?: string | undefined;
};

/**
 * Starts a sign-in through a tenant's identity provider.
 * @returns where the browser goes, and the cookie that it must come back with; none on an immediate error
 * @throws NOT_FOUND, VALIDATION_ERROR REDIRECT_URI_NOT_ALLOWED
 */
export const startSso = async (
  parts: SsoParts,
  { tenantId, redirectUri: wanted, responseMode, browser = newRandomSecret() }: SsoStart,
): Promise<Started> => {
  const { host } = parts;
  const { sso, tenant } = await parts.transact((work) => findOpenSso(work, tenantId, host));
  const registered = [...parts.redirectUris, ...tenant.redirectUris];
  const redirectUri = requireRedirectUri(wanted, registered, parts.isProduction);
  // An XML id starts with no digit.
  const handshake: SsoHandshake = { ...newHandshake(), requestId: `_${newRandomSecret()}` };
  try {
    const location = await authorizationUrl(parts, sso, handshake);
    const begun = { tenantId: tenant.id, idpChangedAt: sso.idpChangedAt, domain: host?.domain ?? null };
    const flow = { ...begun, redirectUri, responseMode };
    await parts.transact((work) => storeSsoFlow(work, parts.secretBox, flow, { handshake, browser }));
    return { location, browser };
  } catch (error) {
    if (!(error instanceof OAuthError)) throw error;
    await keepFailure(parts, { tenantId: tenant.id, failure: error, email: undefined });
    return { location: refusal(redirectUri, error) };
  }
};

const authorizationUrl = async (
  parts: SsoParts,
  sso: SsoConfiguration,
  handshake: SsoHandshake,
): Promise<string> => {
  if (sso.provider !== "SAML") return parts.sso.oidc.authorizationUrl(oidcSettingsOf(sso, parts), handshake);
  const now = await parts.transact(async (work) => work.now);
  const settings = samlSettingsOf(sso, parts, now);
  if (settings.certificates.length === 0)
    throw new OAuthError(
      "provider_error",
      "The certificate of your identity provider has expired; ask an OWNER to replace it",
    );
  const { requestId, state } = handshake;
  return parts.sso.saml.authorizationUrl(settings, { requestId, relayState: state });
};
