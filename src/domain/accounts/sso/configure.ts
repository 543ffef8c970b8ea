import { sql } from "kysely";
import { audit } from "../audit/audit.ts";
import { forgetSessions } from "../auth/sessions.ts";
import { User } from "../auth/user.ts";
import type { Mail } from "../email/mail.ts";
import { RECENT_MINUTES } from "../mfa/step-up.ts";
import { type CountingParts, countUse, LIMITS } from "../rate-limits/limiter.ts";
import {
  addressesOf,
  customHostAddresses,
  oidcSettingsOf,
  samlSettingsOf,
  type ServerAddresses,
  type SettingsParts,
  type SsoCheck,
  type SsoClients,
} from "./clients.ts";
import {
  secretContext,
  SsoConfiguration,
  configInvalid,
  domainsOf,
  type IdpFields,
  idpOf,
  showCertificates,
  type SsoInput,
} from "./configuration.ts";
import { SsoDomain } from "./domains.ts";
import { isActiveOwner, requireOwner, type TeamActor } from "../team/accept.ts";
import { notifyOwners } from "../tenants/notify-owners.ts";
import { lockTenant } from "../tenants/tenant.ts";
import { conflict, DomainError, forbidden, notFound } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import { shown } from "../../kernel/json.ts";
import type { SecretBox } from "../../kernel/secret-box.ts";
import { LOCKED, type Transact, type Work } from "../../kernel/work.ts";

/** Ends a tenant's sessions that began by single sign-on, or all others. */
const endTenantSessions = async (
  { db, now, afterCommit }: Work,
  tenantId: string,
  which: "SSO" | "OTHERS",
): Promise<void> => {
  await sql`
    update sessions set revoked_at = ${now.toISOString()}::timestamptz, revoked_for = 'SSO_CHANGED'
    where tenant_id = ${tenantId}::uuid and revoked_at is null
      and (method = 'SSO') = ${which === "SSO"}`.execute(db);
  afterCommit(forgetSessions);
};

/**
 * Ends the sessions that a tenant's enforcement allows nobody, now that its plan has single sign-on again:
 * while it had not, everybody could sign in otherwise. The plan is stored. Sign-ins hold the row of the
 * configuration: those that began before have ended once it is locked, and are seen.
 */
export const endUnenforced = async (work: Work, tenantId: string): Promise<void> => {
  const { rows } = await sql`
    select 1 from sso_configurations
    where tenant_id = ${tenantId}::uuid and enforce_sso and status = 'ACTIVE' for update`.execute(work.db);
  if (rows.length > 0) await endTenantSessions(work, tenantId, "OTHERS");
};

/** The OWNER who configures, by which session. */
export type SsoActor = TeamActor & { sessionId: string };

const NOT_OWNER = "This operation needs one of the roles OWNER";

type ConfigureParts = { mail: Mail; secretBox: SecretBox; sso: Pick<SsoClients, "isLocal"> };

/** @throws NOT_FOUND */
export const getSso = async ({ em }: Work, tenantId: string): Promise<SsoConfiguration> => {
  const found = await em.findOne(SsoConfiguration, { tenantId });
  if (!found) throw notFound("SSO configuration");
  return found;
};

/** Fields whose change makes it another identity provider, for whom nothing of the old one counts. */
const IDENTITY = ["provider", "samlEntityId", "oidcIssuer", "oidcClientId"] as const;

const isOther = (known: IdpFields, next: IdpFields): boolean =>
  IDENTITY.some((field) => (known[field] ?? null) !== (next[field] ?? null));

/**
 * Creates or replaces a tenant's configuration. What the input leaves out has its default, but for the
 * client secret, which stays as long as issuer and client do: so a stored secret is never sent elsewhere.
 *
 * @throws UNPROCESSABLE_ENTITY SSO_CONFIG_INVALID, CERTIFICATE_INVALID; CONFLICT INVALID_STATE; FORBIDDEN
 * REAUTHENTICATION_REQUIRED, INSUFFICIENT_ROLE
 */
export const putSso = async (
  work: Work,
  parts: ConfigureParts,
  actor: SsoActor,
  input: SsoInput,
): Promise<SsoConfiguration> => {
  const { em, now } = work;
  const idp = idpOf(input, parts.sso.isLocal, now);
  const allowedDomains = domainsOf(input);
  await lockTenant(work, actor.tenantId);
  await requireOwner(work, actor, NOT_OWNER);
  const known = await em.findOne(SsoConfiguration, { tenantId: actor.tenantId }, { refresh: true });
  const isNew = !known || isOther(known, idp);
  await checkProvisioning(work, actor.tenantId, input);
  const breakGlassUserId = await checkEnforcement(work, actor, { input, known, isNew });
  const id = known?.id ?? newId();
  const oidcClientSecret = secretOf(parts.secretBox, { id, input, known, isNew });
  const checked = { ...idp, allowedDomains, breakGlassUserId, oidcClientSecret };
  const values = { ...input, ...checked, updatedAt: now };
  const isEnforcedAnew = allowsOthers(known, values);
  const made = { id, tenantId: actor.tenantId, idpChangedAt: now, lastTestedAt: null, createdAt: now };
  // What began through it before it was disabled stays ended when it is enabled again.
  const isClosed = known?.status === "ACTIVE" && input.status === "DISABLED";
  const sso = known ? Object.assign(known, values) : em.create(SsoConfiguration, { ...values, ...made });
  if (isNew || isClosed) sso.idpChangedAt = now;
  await em.flush();
  await endSessions(work, sso, { isNew, isEnforcedAnew });
  await record(work, parts.mail, sso, "UPDATED");
  return sso;
};

/** Whether others than before may sign in by a password from now on. */
const allowsOthers = (
  before: SsoConfiguration | null,
  { enforceSso, breakGlassUserId }: { enforceSso: boolean; breakGlassUserId: string | null },
): boolean =>
  enforceSso && !(before?.enforceSso === true && (before.breakGlassUserId ?? null) === breakGlassUserId);

type Known = { input: SsoInput; known: SsoConfiguration | null; isNew: boolean };

const secretOf = (
  secretBox: SecretBox,
  { id, input, known, isNew }: Known & { id: string },
): string | null => {
  if (input.provider === "SAML") return null;
  if (input.oidcClientSecret !== undefined)
    return secretBox.seal(input.oidcClientSecret, secretContext({ id }));
  const kept = isNew ? null : known?.oidcClientSecret;
  if (kept != null) return kept;
  throw configInvalid("oidcClientSecret", "is needed for a new issuer or client");
};

const checkProvisioning = async (
  { em }: Work,
  tenantId: string,
  { autoProvision, defaultRole }: SsoInput,
): Promise<void> => {
  if (defaultRole === "OWNER")
    throw configInvalid("defaultRole", "must not be OWNER: nobody becomes one by signing in");
  if (!autoProvision) return;
  if ((await em.count(SsoDomain, { tenantId, verifiedAt: { $ne: null } })) > 0) return;
  throw configInvalid(
    "autoProvision",
    "needs a verified domain, else the provider could make accounts for any address: see " +
      "POST /enterprise/sso/domains",
  );
};

/**
 * Checks that nobody is locked out: the break-glass OWNER can sign in, and the provider has just proved to
 * work. @returns the id of the break-glass user
 */
const checkEnforcement = async (
  work: Work,
  actor: SsoActor,
  { input, known, isNew }: Known,
): Promise<string | null> => {
  const { enforceSso, breakGlassUserId = null } = input;
  const breakGlass = breakGlassUserId === null ? null : await readBreakGlass(work, actor, breakGlassUserId);
  if (!enforceSso) return breakGlassUserId;
  requireWayIn(input, breakGlass);
  if (known?.enforceSso === true) {
    if (!isNew) return breakGlassUserId;
    const message =
      "Set enforceSso to false before you change the identity provider; sign in through the new one, then " +
      "enforce it again";
    throw conflict("INVALID_STATE", message);
  }
  if (isNew || !(await hasJustSignedIn(work, actor, known!))) throw signInFirst();
  return breakGlassUserId;
};

const requireWayIn = ({ status }: SsoInput, breakGlass: User | null): void => {
  if (status !== "ACTIVE") throw configInvalid("enforceSso", "needs the status ACTIVE");
  if (!breakGlass) throw configInvalid("breakGlassUserId", "is needed to enforce single sign-on");
  if (!breakGlass.mfaEnabled)
    throw configInvalid("breakGlassUserId", "must have a second factor: POST /auth/mfa/totp/setup");
};

const signInFirst = () =>
  forbidden(
    "REAUTHENTICATION_REQUIRED",
    "Sign in through this identity provider first, then enforce it in that session within " +
      `${RECENT_MINUTES} minutes`,
  );

const readBreakGlass = async ({ em }: Work, { tenantId }: SsoActor, id: string): Promise<User> => {
  // Who takes their second factor away holds the row too.
  const user = await em.findOne(User, { id, tenantId }, LOCKED);
  if (!user) throw notFound("breakGlassUserId");
  if (!isActiveOwner(user)) throw configInvalid("breakGlassUserId", "must be an active OWNER");
  return user;
};

/** Whether the session began through this very provider a short while ago. */
const hasJustSignedIn = async (
  { db, now }: Work,
  { sessionId, userId }: SsoActor,
  { idpChangedAt }: SsoConfiguration,
): Promise<boolean> => {
  const since = new Date(Math.max(now.getTime() - RECENT_MINUTES * 60_000, idpChangedAt.getTime()));
  const { rows } = await sql`
    select 1 from sessions where id = ${sessionId}::uuid and user_id = ${userId}::uuid and method = 'SSO'
      and revoked_at is null and created_at >= ${since.toISOString()}::timestamptz`.execute(db);
  return rows.length === 1;
};

/**
 * Ends the sessions that could not begin any more. Sign-ins hold the row of the configuration: those that
 * began before it was written have ended by now, and are seen.
 */
const endSessions = async (
  work: Work,
  { tenantId, status }: SsoConfiguration,
  { isNew, isEnforcedAnew }: { isNew: boolean; isEnforcedAnew: boolean },
): Promise<void> => {
  if (isEnforcedAnew) await endTenantSessions(work, tenantId, "OTHERS");
  if (isNew || status === "DISABLED") await endTenantSessions(work, tenantId, "SSO");
  if (isNew) await forgetIdentities(work, tenantId);
};

/** Forgets who signed in as whom, and sign-ins in progress. */
const forgetIdentities = async ({ db }: Work, tenantId: string): Promise<void> => {
  await sql`delete from sso_identities where tenant_id = ${tenantId}::uuid`.execute(db);
  await sql`delete from sso_flows where tenant_id = ${tenantId}::uuid`.execute(db);
};

const record = async (
  work: Work,
  mail: Mail,
  sso: SsoConfiguration,
  change: "UPDATED" | "DELETED",
): Promise<void> => {
  const { id, tenantId, provider, displayName, enforceSso, autoProvision, defaultRole, status } = sso;
  await audit(work, {
    action: change === "UPDATED" ? "sso.updated" : "sso.deleted",
    target: { type: "sso_configuration", id },
    tenantId,
    data: { provider, displayName, enforceSso, autoProvision, defaultRole, status },
  });
  const told = change === "UPDATED" && enforceSso ? "ENFORCED" : change;
  const values = { displayName, change: told } as const;
  await notifyOwners(mail, work, tenantId, { template: "sso-changed", values });
};

/**
 * Removes the configuration, and with it who signed in as whom; sessions that began through it end. Accounts
 * stay, and their people sign in by a password that they set by mail.
 *
 * @throws NOT_FOUND, FORBIDDEN INSUFFICIENT_ROLE
 */
export const deleteSso = async (work: Work, { mail }: { mail: Mail }, actor: SsoActor): Promise<void> => {
  const { tenantId } = actor;
  await lockTenant(work, tenantId);
  await requireOwner(work, actor, NOT_OWNER);
  const sso = await getSso(work, tenantId);
  await work.em.remove(sso).flush();
  await endTenantSessions(work, tenantId, "SSO");
  await forgetIdentities(work, tenantId);
  await record(work, mail, sso, "DELETED");
};

/**
 * Ends the enforcement of a tenant that has lost its identity provider and its break-glass OWNER: its people
 * sign in by passwords, which they set by mail. For the operator, whose command sends no mail. The rest of
 * the configuration stays.
 *
 * @returns the name of the tenant
 * @throws NOT_FOUND, CONFLICT INVALID_STATE where nothing is enforced
 */
export const endEnforcement = async (work: Work, tenantId: string): Promise<string> => {
  const { name } = await lockTenant(work, tenantId);
  const sso = await getSso(work, tenantId);
  if (!sso.enforceSso) throw conflict("INVALID_STATE", "The tenant does not enforce single sign-on");
  const { id, displayName, breakGlassUserId } = sso;
  Object.assign(sso, { enforceSso: false, updatedAt: work.now });
  await audit(work, {
    action: "sso.enforcement_ended",
    target: { type: "sso_configuration", id },
    tenantId,
    data: { displayName, breakGlassUserId: breakGlassUserId ?? null },
  });
  return name;
};

type TestParts = SettingsParts & CountingParts & { transact: Transact; sso: SsoClients };

const certificateChecks = ({ samlCertificate }: SsoConfiguration, now: Date): SsoCheck[] =>
  showCertificates(samlCertificate ?? "").map(({ fingerprint, notBefore, notAfter }) => ({
    name: "certificate",
    ok: notBefore <= now.toISOString() && now.toISOString() < notAfter,
    message: `${fingerprint.slice(0, 16)} is valid from ${notBefore} to ${notAfter}`,
  }));

/**
 * Looks at what can be seen of a tenant's identity provider without signing in. Not to be called in a
 * transaction. @throws NOT_FOUND, RateLimited SSO_TEST_RATE
 */
export const testSso = async (parts: TestParts, tenantId: string): Promise<SsoCheck[]> => {
  const sso = await parts.transact((work) => getSso(work, tenantId));
  const message = "An identity provider may be tested 10 times an hour";
  await countUse(parts, { bucket: LIMITS.ssoTest, key: tenantId }, "SSO_TEST_RATE", message);
  const now = parts.clock();
  if (sso.provider !== "SAML") return parts.sso.oidc.probe(oidcSettingsOf(sso, parts));
  return [...certificateChecks(sso, now), await parts.sso.saml.probe(samlSettingsOf(sso, parts, now))];
};

/**
 * Requires that the metadata of a provider that is new, or whose secret is, can be read before it is stored: a
 * typing error shows at once. Not to be called in a transaction. @throws UNPROCESSABLE_ENTITY
 * SSO_DISCOVERY_FAILED
 */
export const requireDiscovery = async (
  { sso, publicUrl, clock }: { sso: SsoClients; publicUrl: string; clock: () => Date },
  tenantId: string,
  input: SsoInput,
): Promise<void> => {
  const { oidcIssuer, oidcClientId, oidcScopes } = idpOf(input, sso.isLocal, clock());
  // Without a secret it is the one that is known, or refused.
  if (input.provider === "SAML" || input.oidcClientSecret === undefined) return;
  const checks = await sso.oidc.probe({
    tenantId,
    provider: input.provider,
    issuer: oidcIssuer ?? "",
    clientId: oidcClientId ?? "",
    clientSecret: input.oidcClientSecret,
    scopes: oidcScopes,
    redirectUri: addressesOf(publicUrl, tenantId).oidcRedirectUri,
  });
  const failed = checks.find(({ ok }) => !ok);
  if (!failed) return;
  throw new DomainError("UNPROCESSABLE_ENTITY", `oidcIssuer: ${failed.name}: ${failed.message}`, {
    reason: "SSO_DISCOVERY_FAILED",
    details: [{ field: "oidcIssuer", message: failed.message }],
  });
};

const SHOWN = [
  "id",
  "provider",
  "displayName",
  "samlEntityId",
  "samlSsoUrl",
  "samlCertificate",
  "samlIdpInitiated",
  "oidcIssuer",
  "oidcClientId",
  "oidcScopes",
  "autoProvision",
  "defaultRole",
  "allowedDomains",
  "enforceSso",
  "breakGlassUserId",
  "status",
  "lastTestedAt",
  "createdAt",
  "updatedAt",
] as const;

/** Converts a configuration to the API representation, which never has the client secret. */
export const showSso = async (work: Work, server: ServerAddresses, sso: SsoConfiguration) => {
  const certificates = showCertificates(sso.samlCertificate ?? "");
  const expiries = certificates.map(({ notAfter }) => notAfter).toSorted();
  return {
    ...shown(sso, SHOWN),
    oidcClientSecretSet: sso.oidcClientSecret != null,
    samlCertificates: certificates,
    samlCertificateExpiresAt: expiries[0] ?? null,
    ...addressesOf(server.publicUrl, sso.tenantId),
    customDomains: await customHostAddresses(work, server, sso.tenantId),
  };
};
