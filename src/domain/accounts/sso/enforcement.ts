import { sql } from "kysely";
import { audit, ofUser } from "../audit/audit.ts";
import type { SignInMethod } from "../auth/tokens.ts";
import type { User } from "../auth/user.ts";
import type { CustomHost } from "../domains/known.ts";
import { normaliseEmail } from "../email/address.ts";
import type { Mail } from "../email/mail.ts";
import { SsoConfiguration } from "./configuration.ts";
import { domainOf } from "./domain-name.ts";
import { notifyOwners } from "../tenants/notify-owners.ts";
import { PLAN_FEATURES, PLANS, type Role } from "../../kernel/caller.ts";
import { conflict, type DomainError, forbidden } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";

/** Plans with single sign-on. A tenant that loses it is not locked out: nothing is enforced then. */
const SSO_PLANS = PLANS.filter((plan) => PLAN_FEATURES[plan].includes("sso"));
const IN_PLANS = sql.join(SSO_PLANS.map((plan) => sql.lit(plan)));

type Enforced = { breakGlassUserId: string | null };

/**
 * Returns what a tenant enforces now; undefined for nothing.
 * @param isHeld it stays so until the commit: who changes it waits, and sees the session that begins here
 */
const enforcedIn = async (
  { db }: Work,
  tenantId: string,
  { isHeld = false }: { isHeld?: boolean } = {},
): Promise<Enforced | undefined> => {
  if (isHeld && !(await hold(db, tenantId))) return undefined;
  const { rows } = await sql<Enforced>`
    select c.break_glass_user_id as "breakGlassUserId"
    from sso_configurations c join tenants t on t.id = c.tenant_id
    where c.tenant_id = ${tenantId}::uuid and c.enforce_sso and c.status = 'ACTIVE'
      and t.plan in (${IN_PLANS})`.execute(db);
  return rows[0];
};

/**
 * Holds the row, whatever it says: what it is changed to counts as well. Only a statement after this one sees
 * also the plan as it is then. @returns false where there is none
 */
const hold = async (db: Work["db"], tenantId: string): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from sso_configurations where tenant_id = ${tenantId}::uuid for share`.execute(db);
  return rows.length > 0;
};

/** An invitation that is refused for this counts at the sign-in that it names. */
const ssoRequired = (tenantId: string): DomainError =>
  forbidden(
    "SSO_REQUIRED",
    `This tenant requires single sign-on: open /api/v1/auth/sso/${tenantId} with redirect_uri in a ` +
      "browser. An invitation counts there too",
  );

/** Ways that prove a break-glass user, with their second factor. */
const BREAK_GLASS_METHODS: ReadonlySet<SignInMethod> = new Set(["PASSWORD", "PASSKEY"]);

type SignIn = { method: SignInMethod; mfaAt?: Date | undefined };
type Member = { id: string; tenantId: string };

/**
 * Refuses a sign-in that is none through the identity provider, where the tenant enforces that: but for the
 * break-glass user, with a second factor. @throws FORBIDDEN SSO_REQUIRED
 */
export const requireSso = async (
  work: Work,
  { id, tenantId }: Member,
  { method, mfaAt }: SignIn,
): Promise<void> => {
  if (method === "SSO") return;
  const enforced = await enforcedIn(work, tenantId, { isHeld: true });
  if (!enforced) return;
  const isBreakGlass = enforced.breakGlassUserId === id && BREAK_GLASS_METHODS.has(method);
  if (!isBreakGlass || mfaAt === undefined) throw ssoRequired(tenantId);
};

type Standing = { id: string; idpChangedAt: Date };

/** Tells an identity provider of a tenant from the one before it. */
export const idpMark = ({ id, idpChangedAt }: Standing): string => `${id} ${idpChangedAt.toISOString()}`;

/**
 * Returns the mark of the identity provider through which a tenant's people sign in; undefined for none. It
 * stays so until the commit: who changes it waits, and ends the session that begins here.
 */
export const holdIdp = async ({ db }: Work, tenantId: string): Promise<string | undefined> => {
  const { rows } = await sql<Standing>`
    select c.id::text as id, c.idp_changed_at as "idpChangedAt" from sso_configurations c join tenants t on t.id = c.tenant_id
    where c.tenant_id = ${tenantId}::uuid and c.status = 'ACTIVE' and t.plan in (${IN_PLANS})
    for share of c`.execute(db);
  return rows[0] && idpMark(rows[0]);
};

/** Whether the user is the one who may still sign in by a password while single sign-on is enforced. */
export const isBreakGlass = async (work: Work, { id, tenantId }: Member): Promise<boolean> =>
  (await enforcedIn(work, tenantId))?.breakGlassUserId === id;

/** Whether the user can sign in with a password at all. */
export const hasPasswords = async (work: Work, { id, tenantId }: Member): Promise<boolean> => {
  const enforced = await enforcedIn(work, tenantId);
  return enforced === undefined || enforced.breakGlassUserId === id;
};

/** Refuses a new password where nobody could sign in with it. @throws FORBIDDEN SSO_REQUIRED */
export const requirePasswords = async (work: Work, member: Member): Promise<void> => {
  if (!(await hasPasswords(work, member))) throw ssoRequired(member.tenantId);
};

/**
 * Refuses what would leave nobody to sign in without the identity provider.
 * @throws CONFLICT INVALID_STATE
 */
export const refuseForBreakGlass = async (work: Work, member: Member & { role: Role }): Promise<void> => {
  if (member.role !== "OWNER" || !(await isBreakGlass(work, member))) return;
  const message =
    "They are breakGlassUserId of single sign-on: name another one by PUT /enterprise/sso first";
  throw conflict("INVALID_STATE", message);
};

/** Tells all OWNERs, and the audit log, that the break-glass user signs in past single sign-on. */
export const tellOfBreakGlass = async (
  work: Work,
  mail: Mail,
  user: User,
  method: SignInMethod,
): Promise<void> => {
  if (method === "SSO") return;
  const { id, tenantId, email } = user;
  // Held before the mails are written, in the order of those who change it.
  if ((await enforcedIn(work, tenantId, { isHeld: true }))?.breakGlassUserId !== id) return;
  await audit(work, { ...ofUser(user), action: "sso.break_glass_used", data: { method } });
  const values = { email, at: work.now.toISOString() };
  await notifyOwners(mail, work, tenantId, { template: "sso-break-glass-used", values });
};

/** Path at which people of a tenant begin to sign in, if nothing else signs them in; otherwise null. */
export const enforcedUrl = async (work: Work, tenantId: string): Promise<string | null> =>
  (await enforcedIn(work, tenantId)) === undefined ? null : authUrlOf(tenantId);

const authUrlOf = (tenantId: string): string => `/auth/sso/${tenantId}`;

/** Returns the configuration of the tenant that has verified the domain of an address, if it is in use. */
const findClaimant = async (work: Work, email: string): Promise<SsoConfiguration | undefined> => {
  const { rows } = await sql<{ tenant_id: string }>`
    select d.tenant_id from sso_domains d join tenants t on t.id = d.tenant_id
    where d.domain = ${domainOf(normaliseEmail(email))} and d.verified_at is not null
      and t.deleted_at is null and t.plan in (${IN_PLANS})`.execute(work.db);
  const where = rows[0] && ({ tenantId: rows[0].tenant_id, status: "ACTIVE" } as const);
  return (where && (await work.em.findOne(SsoConfiguration, where))) ?? undefined;
};

/**
 * Returns where people with addresses of a domain sign in: through the tenant that has verified it. It
 * depends on the domain alone, so it tells nobody which addresses have accounts. At a custom domain only
 * its tenant is found.
 */
export const discoverSso = async (work: Work, email: string, host: CustomHost | undefined) => {
  const sso = await findClaimant(work, email);
  const isElsewhere = host !== undefined && host.tenantId !== sso?.tenantId;
  if (!sso || isElsewhere) return { ssoRequired: false, authUrl: null, displayName: null };
  const { tenantId, displayName } = sso;
  return {
    ssoRequired: (await enforcedIn(work, tenantId)) !== undefined,
    authUrl: authUrlOf(tenantId),
    displayName,
  };
};

/** Whether people with addresses of this domain sign in through another tenant than that. */
export const isClaimed = async (
  work: Work,
  email: string,
  tenantId: string | undefined,
): Promise<boolean> => {
  const sso = await findClaimant(work, email);
  return sso !== undefined && sso.tenantId !== tenantId;
};

/**
 * Refuses an account that nobody has invited, under an address of a domain whose people sign in through
 * another tenant: it would shut them out there, since an address has one account.
 *
 * @param tenantId the tenant that the account is for; undefined for a new one
 * @throws FORBIDDEN EMAIL_DOMAIN_CLAIMED
 */
export const requireUnclaimed = async (
  work: Work,
  email: string,
  tenantId: string | undefined,
): Promise<void> => {
  if (!(await isClaimed(work, email, tenantId))) return;
  throw forbidden(
    "EMAIL_DOMAIN_CLAIMED",
    "People with addresses of this domain sign in through their company: POST /auth/sso/discover tells " +
      "where. To join another tenant, ask it for an invitation",
  );
};
