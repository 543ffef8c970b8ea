import { sql } from "kysely";
import { hashRandomSecret, newRandomSecret } from "../auth/one-time-secrets.ts";
import type { CustomHost } from "../domains/known.ts";
import {
  type Handshake,
  newHandshake,
  OAuthError,
  type RedirectRules,
  refusal,
  requireRedirectUri,
  type ResponseMode,
  type Started,
} from "../oauth/provider.ts";
import { secretContext, SsoConfiguration, type SsoProvider, validCertificates } from "./configuration.ts";
import { Tenant } from "../tenants/tenant.ts";
import { hasFeature } from "../../kernel/caller.ts";
import { invalid, notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import { shown } from "../../kernel/json.ts";
import type { SecretBox } from "../../kernel/secret-box.ts";
import type { Transact, Work } from "../../kernel/work.ts";

/**
 * Returns the addresses at which a tenant's identity provider knows this server, for sign-ins at a host. The entity id names the tenant, so it is the
 * same everywhere: a provider that was set up before a custom domain was there, or after it has gone, knows
 * the same service provider.
 * @param domain a custom domain of the tenant; undefined for PUBLIC_URL
 */
export const addressesOf = (publicUrl: string, tenantId: string, domain?: string) => {
  const path = "/api/v1/auth/sso";
  const at = domain === undefined ? publicUrl : `https://${domain}`;
  return {
    spEntityId: `${publicUrl}${path}/saml/${tenantId}/metadata`,
    acsUrl: `${at}${path}/saml/${tenantId}/acs`,
    oidcRedirectUri: `${at}${path}/oidc/${tenantId}/callback`,
  };
};

/** Where this server is; `domains` is set where it has custom domains. */
export type ServerAddresses = { publicUrl: string; domains: object | undefined };

/**
 * Returns the addresses at the custom domains of a tenant that are served by TLS, which a provider has to know
 * for sign-ins that begin there: the oldest first, so that a domain that is added changes the place of no other.
 */
export const customHostAddresses = async (
  { db }: Work,
  { publicUrl, domains }: ServerAddresses,
  tenantId: string,
) => {
  if (!domains) return [];
  const { rows } = await sql<{ domain: string }>`
    select domain from custom_domains
    where tenant_id = ${tenantId}::uuid and status in ('ACTIVE', 'DEGRADED')
    order by created_at, id`.execute(db);
  return rows.map(({ domain }) => {
    const { acsUrl, oidcRedirectUri } = addressesOf(publicUrl, tenantId, domain);
    return { domain, acsUrl, oidcRedirectUri };
  });
};

/** Kinds of failures that are kept of a tenant, the latest; and for how long after the last time, in days. */
export const FAILURES_KEPT = 50;
const FAILURE_DAYS = 30;
const DAY_MS = 86_400_000;

/** A sign-in that has failed. `email`: the address that the provider gave; undefined before it gave one. */
type SsoFailure = { tenantId: string; failure: OAuthError; email: string | undefined };

/** `report` is called with each failure; `problem`: why it could not be kept. */
export type FailureParts = { transact: Transact; report: (failed: SsoFailure, problem?: unknown) => void };

/** Keeps why a sign-in has failed for the administrators; who signs in is told in any case. */
export const keepFailure = async ({ transact, report }: FailureParts, failed: SsoFailure): Promise<void> => {
  try {
    await transact((work) => noteFailure(work, failed));
    report(failed);
  } catch (error) {
    report(failed, error);
  }
};

/** Maximum length of a reason. */
const REASON_MAX = 500;

/** Reasons may quote a provider: what the database cannot keep is left out. */
const plain = (text: string): string => text.replaceAll(/\p{C}+/gu, " ").slice(0, REASON_MAX);

/**
 * Notes why a sign-in has failed, for the tenant's administrators. Failures alike are one row, and so are
 * those whose reasons differ by what a browser has brought: anybody pushes no others out by that.
 */
const noteFailure = async (work: Work, { tenantId, failure, email }: SsoFailure): Promise<void> => {
  const { code, message, reason } = failure;
  const at = work.serverNow;
  const text = reason === undefined ? null : plain(reason.text);
  const alike = [code, message, email, reason?.isAnybodys === true || text];
  const digest = hashRandomSecret(JSON.stringify(alike));
  const expiresAt = new Date(at.getTime() + FAILURE_DAYS * DAY_MS);
  const now = sql`${at.toISOString()}::timestamptz`;
  await sql`
    with noted as (
      insert into sso_failures (tenant_id, digest, error, message, reason, email, request_id, times, first_at,
        last_at, expires_at)
      values (${tenantId}::uuid, ${digest}, ${code}, ${message}, ${text}, ${email ?? null},
        ${work.by?.requestId ?? ""}, 1, ${now}, ${now}, ${expiresAt.toISOString()}::timestamptz)
      on conflict (tenant_id, digest) do update set
        request_id = excluded.request_id, reason = excluded.reason,
        times = sso_failures.times + 1, last_at = excluded.last_at, expires_at = excluded.expires_at)
    delete from sso_failures where tenant_id = ${tenantId}::uuid and digest in (
      select digest from sso_failures where tenant_id = ${tenantId}::uuid and digest <> ${digest}
      order by last_at desc offset ${sql.lit(FAILURES_KEPT - 1)} for update skip locked)`.execute(work.db);
};

type Kept = {
  error: string;
  message: string;
  reason: string | null;
  email: string | null;
  requestId: string;
  times: number;
  firstAt: Date;
  lastAt: Date;
};

/** Returns a tenant's failures, the latest first: at most 50. */
export const listFailures = async ({ db, serverNow }: Work, tenantId: string) => {
  const { rows } = await sql<Kept>`
    select error, message, reason, email, request_id as "requestId", times, first_at as "firstAt",
      last_at as "lastAt"
    from sso_failures
    where tenant_id = ${tenantId}::uuid and expires_at > ${serverNow.toISOString()}::timestamptz
    order by last_at desc, digest limit ${sql.lit(FAILURES_KEPT)}`.execute(db);
  return rows.map((row) => ({ ...row, ...shown(row, ["firstAt", "lastAt"]) }));
};

export const SSO_FLOW_SECONDS = 600;

/** A sign-in in progress. */
export type SsoFlow = {
  tenantId: string;
  /** Of the configuration when it began: another identity provider cannot complete it. */
  idpChangedAt: Date;
  /** The custom domain that it began at, where alone it ends; null for PUBLIC_URL. */
  domain: string | null;
  redirectUri: string;
  responseMode: ResponseMode;
};

/** What only this server knows of a flow; `requestId` is for SAML. */
export type SsoHandshake = Handshake & { requestId: string };

type Secrets = Omit<SsoHandshake, "state">;

const contextOf = (stateHash: string): string => `sso_flows:${stateHash}`;

/** Stores a flow until the browser with the cookie `browser` comes back with the state. */
const storeSsoFlow = async (
  { db, now }: Work,
  secretBox: SecretBox,
  flow: SsoFlow,
  { handshake: { state, ...kept }, browser }: { handshake: SsoHandshake; browser: string },
): Promise<void> => {
  const stateHash = hashRandomSecret(state);
  const secrets = secretBox.seal(JSON.stringify(kept satisfies Secrets), contextOf(stateHash));
  const expiresAt = new Date(now.getTime() + SSO_FLOW_SECONDS * 1_000).toISOString();
  await sql`
    insert into sso_flows (state_hash, browser_hash, tenant_id, idp_changed_at, domain,
      redirect_uri, response_mode, secrets, expires_at)
    values (${stateHash}, ${hashRandomSecret(browser)}, ${flow.tenantId}::uuid,
      ${flow.idpChangedAt.toISOString()}::timestamptz, ${flow.domain}, ${flow.redirectUri},
      ${flow.responseMode}, ${secrets}, ${expiresAt}::timestamptz)`.execute(db);
};

/** State, browser and host of an answer, which belong to one flow of one tenant. */
type SsoReturn = { tenantId: string; domain: string | null; state: string; browser: string };

/**
 * Consumes a flow: once, in time, of this tenant, and only in the browser and at the host that began it.
 * Other requests leave it unchanged. @returns undefined where there is none
 */
export const takeSsoFlow = async (
  { db, now }: Work,
  secretBox: SecretBox,
  { tenantId, domain, state, browser }: SsoReturn,
): Promise<{ flow: SsoFlow; handshake: SsoHandshake } | undefined> => {
  const stateHash = hashRandomSecret(state);
  const { rows } = await sql<SsoFlow & { secrets: string }>`
    delete from sso_flows
    where state_hash = ${stateHash} and browser_hash = ${hashRandomSecret(browser)}
      and tenant_id = ${tenantId}::uuid and domain is not distinct from ${domain}
      and expires_at > ${now.toISOString()}::timestamptz
    returning tenant_id as "tenantId", idp_changed_at as "idpChangedAt", domain,
      redirect_uri as "redirectUri", response_mode as "responseMode", secrets`.execute(db);
  if (!rows[0]) return undefined;
  const { secrets, ...flow } = rows[0];
  const kept = JSON.parse(secretBox.open(secrets, contextOf(stateHash))) as Secrets;
  return { flow, handshake: { state, ...kept } };
};

/** Builds the error for a sign-in that began at the provider, where the tenant does not take those. */
export const unasked = () =>
  invalid(
    "state",
    "is missing: this sign-in began at the identity provider, which counts only if samlIdpInitiated is on " +
      "and the tenant has a URL to return to; start it at this server",
    "OAUTH_STATE_INVALID",
  );

/** Builds the error for a browser that comes back without having begun. */
export const stateInvalid = () =>
  invalid(
    "state",
    "is unknown, used, older than 10 minutes, or of another browser, host or tenant; start again",
    "OAUTH_STATE_INVALID",
  );

/** An OpenID provider as a tenant has configured it. `redirectUri`: where it sends browsers back to. */
export type OidcSettings = {
  tenantId: string;
  provider: Exclude<SsoProvider, "SAML">;
  issuer: string;
  clientId: string;
  clientSecret: string;
  scopes: readonly string[];
  redirectUri: string;
};

/** A SAML identity provider, and this server as the tenant's service provider. */
export type SamlSettings = {
  tenantId: string;
  entityId: string;
  ssoUrl: string;
  /** PEM; valid now. */
  certificates: readonly string[];
  spEntityId: string;
  acsUrl: string;
};

/** What an identity provider says of a person, verified to come from it and to be meant for us, now. */
export type SsoClaims = {
  issuer: string;
  /** Names the person at this issuer. */
  subject: string;
  email: string | undefined;
  /** Whether the provider says that it has verified the address; false where its word does not count. */
  isEmailVerified: boolean;
  /** Whether it says that it has not: then nothing vouches for what the person may have chosen. */
  isEmailUnproved: boolean;
  name: string | undefined;
  /** GOOGLE_WORKSPACE: the organisation of the account. */
  hostedDomain?: string | undefined;
};

/** The claims of a SAML assertion, which may be used once until `validUntil`. */
export type SamlClaims = SsoClaims & { assertionId: string; validUntil: Date };

/** One thing that a test of a configuration has looked at. */
export type SsoCheck = { name: string; ok: boolean; message: string };

/** A SAML response as the browser brings it. `requestId`: of our request; undefined for none. */
export type SamlArrival = { response: string; requestId: string | undefined; now: Date };

/** What speaks to identity providers; all network access of single sign-on. */
export type SsoClients = {
  oidc: {
    /** Reads the provider's metadata and keys. Never throws. */
    probe(settings: OidcSettings): Promise<SsoCheck[]>;
    /** Returns where the browser signs in, as whom the page takes its user for. @throws OAuthError */
    authorizationUrl(settings: OidcSettings, handshake: Handshake, loginHint?: string): Promise<string>;
    /** Verifies what the browser came back with. @throws OAuthError */
    claimsOf(settings: OidcSettings, answer: URLSearchParams, handshake: Handshake): Promise<SsoClaims>;
  };
  saml: {
    /** Asks the sign-on address for a page. Never throws. */
    probe(settings: Pick<SamlSettings, "tenantId" | "ssoUrl">): Promise<SsoCheck>;
    /** Returns where the browser signs in. */
    authorizationUrl(
      settings: SamlSettings,
      request: { requestId: string; relayState: string },
    ): Promise<string>;
    /** Verifies a response. @throws OAuthError */
    claimsOf(settings: SamlSettings, arrival: SamlArrival): Promise<SamlClaims>;
    /** Returns the metadata of this server as a tenant's service provider; the first ACS is the default. */
    metadata(settings: { spEntityId: string; acsUrls: readonly string[] }): string;
  };
  /** Whether identity providers may be on this machine, without TLS: in development. */
  isLocal: boolean;
};

/**
 * What clients of identity providers need of a configuration. `host`: the custom domain at which the sign-in
 * takes place.
 */
export type SettingsParts = { secretBox: SecretBox; publicUrl: string; host?: CustomHost | undefined };

export const samlSettingsOf = (
  sso: SsoConfiguration,
  { publicUrl, host }: Pick<SettingsParts, "publicUrl" | "host">,
  now: Date,
): SamlSettings => {
  const { spEntityId, acsUrl } = addressesOf(publicUrl, sso.tenantId, host?.domain);
  return {
    tenantId: sso.tenantId,
    entityId: sso.samlEntityId ?? "",
    ssoUrl: sso.samlSsoUrl ?? "",
    certificates: validCertificates(sso.samlCertificate ?? "", now),
    spEntityId,
    acsUrl,
  };
};

export const oidcSettingsOf = (
  sso: SsoConfiguration,
  { secretBox, publicUrl, host }: SettingsParts,
): OidcSettings => ({
  tenantId: sso.tenantId,
  provider: sso.provider === "SAML" ? "OIDC" : sso.provider,
  issuer: sso.oidcIssuer ?? "",
  clientId: sso.oidcClientId ?? "",
  clientSecret: sso.oidcClientSecret == null ? "" : secretBox.open(sso.oidcClientSecret, secretContext(sso)),
  scopes: sso.oidcScopes,
  redirectUri: addressesOf(publicUrl, sso.tenantId, host?.domain).oidcRedirectUri,
});

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
type SsoStart = {
  tenantId: string;
  redirectUri: string | undefined;
  responseMode: ResponseMode;
  /** The secret that the browser has already. */
  browser?: string | undefined;
  loginHint?: string | undefined;
};

/**
 * Starts a sign-in through a tenant's identity provider.
 * @returns where the browser goes, and the cookie that it must come back with; none on an immediate error
 * @throws NOT_FOUND, VALIDATION_ERROR REDIRECT_URI_NOT_ALLOWED
 */
export const startSso = async (
  parts: SsoParts,
  { tenantId, redirectUri: wanted, responseMode, browser = newRandomSecret(), loginHint }: SsoStart,
): Promise<Started> => {
  const { host } = parts;
  const { sso, tenant } = await parts.transact((work) => findOpenSso(work, tenantId, host));
  const registered = [...parts.redirectUris, ...tenant.redirectUris];
  const redirectUri = requireRedirectUri(wanted, registered, parts.isProduction);
  // An XML id starts with no digit.
  const handshake: SsoHandshake = { ...newHandshake(), requestId: `_${newRandomSecret()}` };
  try {
    const location = await authorizationUrl(parts, sso, handshake, loginHint);
    const { tenantId: id, idpChangedAt } = sso;
    const flow = { tenantId: id, idpChangedAt, domain: host?.domain ?? null, redirectUri, responseMode };
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
  loginHint: string | undefined,
): Promise<string> => {
  if (sso.provider !== "SAML")
    return parts.sso.oidc.authorizationUrl(oidcSettingsOf(sso, parts), handshake, loginHint);
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
