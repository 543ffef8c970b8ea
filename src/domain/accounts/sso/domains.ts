import { defineEntity, p, UniqueConstraintViolationException } from "@mikro-orm/core";
import { sql } from "kysely";
import { audit, ofUser } from "../audit/audit.ts";
import { endUserTokens, newRandomSecret } from "../auth/one-time-secrets.ts";
import { forgetSessions } from "../auth/sessions.ts";
import { User } from "../auth/user.ts";
import { txtNameOf } from "../domains/known.ts";
import type { DnsRecords } from "../domains/states.ts";
import { releasedAddress } from "../email/address.ts";
import { type Mail, mailUser } from "../email/mail.ts";
import { lockTenant } from "../tenants/tenant.ts";
import { conflict, DomainError, invalid } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import { shown } from "../../kernel/json.ts";
import { getRow, LOCKED, type Transact, type Work } from "../../kernel/work.ts";
import { notifyAdmins } from "../tenants/notify-owners.ts";
import { showCertificates, SSO_DOMAINS_MAX, SsoConfiguration } from "./configuration.ts";
import { domainOf, domainProblem, normaliseDomain } from "./domain-name.ts";

const SsoDomainSchema = defineEntity({
  name: "SsoDomain",
  tableName: "sso_domains",
  properties: {
    id: p.uuid().primary(),
    tenantId: p.uuid(),
    /** ASCII, lower case. Several tenants may claim a domain; one can have proved it. */
    domain: p.text(),
    /** What the TXT record must hold; not a secret. */
    token: p.text(),
    verifiedAt: p.datetime(3).nullable(),
    /** When another tenant that proved the domain first found the record of this one missing. */
    missingSince: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
  },
});
/** A domain of email addresses that a tenant claims. */
export class SsoDomain extends SsoDomainSchema.class {}
SsoDomainSchema.setClass(SsoDomain);

const DAY_MS = 86_400_000;

const txtValueOf = ({ token }: SsoDomain): string => `laurel-domain-verification=${token}`;

/** Converts a domain to the API representation, with the TXT record that proves it. */
export const showDomain = (domain: SsoDomain) => ({
  ...shown(domain, ["id", "domain", "verifiedAt", "createdAt"]),
  status: domain.verifiedAt ? ("VERIFIED" as const) : ("PENDING" as const),
  txtName: txtNameOf(domain.domain),
  txtValue: txtValueOf(domain),
});

/** Returns all domains that a tenant claims, in alphabetical order: at most SSO_DOMAINS_MAX. */
export const listDomains = ({ em }: Work, tenantId: string): Promise<SsoDomain[]> =>
  em.find(SsoDomain, { tenantId }, { orderBy: { domain: "asc" } });

/**
 * Claims a domain of email addresses, which counts once it is verified.
 * @throws VALIDATION_ERROR, CONFLICT DOMAIN_ALREADY_CLAIMED for one that the tenant has, INVALID_STATE for
 * too many
 */
export const addDomain = async (work: Work, tenantId: string, text: string): Promise<SsoDomain> => {
  const { em, now } = work;
  const domain = normaliseDomain(text);
  const problem = domainProblem(domain);
  if (problem !== undefined) throw invalid("domain", problem);
  await lockTenant(work, tenantId);
  const known = await em.find(SsoDomain, { tenantId });
  if (known.some((one) => one.domain === domain))
    throw conflict("DOMAIN_ALREADY_CLAIMED", "The tenant has this domain already");
  if (known.length >= SSO_DOMAINS_MAX)
    throw conflict("INVALID_STATE", `A tenant has at most ${SSO_DOMAINS_MAX} domains; remove one first`);
  const made = em.create(SsoDomain, {
    id: newId(),
    tenantId,
    domain,
    token: newRandomSecret(),
    verifiedAt: null,
    missingSince: null,
    createdAt: now,
  });
  await em.flush();
  await record(work, made, "sso_domain.added");
  return made;
};

const record = (work: Work, { id, tenantId, domain }: SsoDomain, action: string): Promise<void> =>
  audit(work, { action, target: { type: "sso_domain", id }, tenantId, data: { domain } });

const findDomain = (work: Work, tenantId: string, id: string): Promise<SsoDomain> =>
  getRow(work, SsoDomain, "Domain", { id, tenantId });

/** How long the record of a holder is missing before another tenant that proves the domain has it, in ms. */
const MISSING_MS = 3 * DAY_MS;
/** After this time, in ms, the holder is told anew first. */
const MISSING_MAX_MS = 30 * DAY_MS;

/**
 * Looks after the tenant that holds a domain which one has just proved, at the only place where both have
 * their records: it is told that its own is missing, and gives the domain up if a later look says so too.
 */
const lookAtHolder = async (
  work: Work,
  mail: Mail,
  { domain }: SsoDomain,
  found: readonly string[],
): Promise<void> => {
  const holder = await work.em.findOne(SsoDomain, { domain, verifiedAt: { $ne: null } }, LOCKED);
  if (!holder) return;
  if (found.includes(txtValueOf(holder))) {
    holder.missingSince = null;
    return;
  }
  const missingMs = work.now.getTime() - (holder.missingSince?.getTime() ?? -Infinity);
  if (missingMs < MISSING_MS) return;
  const isLost = missingMs <= MISSING_MAX_MS;
  Object.assign(holder, isLost ? { verifiedAt: null, missingSince: null } : { missingSince: work.now });
  await record({ ...work, by: undefined }, holder, isLost ? "sso_domain.lost" : "sso_domain.missing");
  const until = isLost ? "" : new Date(work.now.getTime() + MISSING_MS).toISOString();
  await notifyAdmins(mail, work, holder.tenantId, { template: "sso-domain", values: { domain, until } });
};

type CheckParts = {
  transact: Transact;
  accounts: Transact;
  dns: Pick<DnsRecords, "txt">;
  mail: Mail;
  /** Counts a look at a domain of the tenant. @throws RateLimited */
  count: (domain: string) => Promise<void>;
};

/**
 * Looks for a domain's TXT record, and for that of the tenant that holds the domain. Not to be called in a
 * transaction. `accounts` sees all tenants.
 * @throws NOT_FOUND, RateLimited, UNPROCESSABLE_ENTITY DNS_NOT_READY
 */
export const checkDomain = async (
  { transact, accounts, dns, mail, count }: CheckParts,
  tenantId: string,
  id: string,
): Promise<void> => {
  const domain = await transact((work) => findDomain(work, tenantId, id));
  await count(domain.domain);
  const [name, value] = [txtNameOf(domain.domain), txtValueOf(domain)];
  const found = await dns.txt(name).catch(() => {
    throw notReady(`The DNS servers of ${name} give no answer; try again`);
  });
  if (found.includes(value)) return accounts((work) => lookAtHolder(work, mail, domain, found));
  const seen = found.length === 0 ? "has no TXT record" : "has only other TXT records";
  throw notReady(`${name} ${seen} so far: it must be ${value}. New records can take an hour to be seen.`);
};

const notReady = (message: string): DomainError =>
  new DomainError("UNPROCESSABLE_ENTITY", message, { reason: "DNS_NOT_READY" });

const CLAIMED =
  "Another tenant of this server has verified this domain. If its TXT record is gone, verify again in three days";

/**
 * Marks a domain as verified; `checkDomain` has just found its record.
 * @throws NOT_FOUND, CONFLICT DOMAIN_ALREADY_CLAIMED when another tenant has verified it
 */
export const verifyDomain = async (work: Work, tenantId: string, id: string): Promise<SsoDomain> => {
  await lockTenant(work, tenantId);
  const domain = await findDomain(work, tenantId, id);
  if (domain.verifiedAt) return domain;
  domain.verifiedAt = work.now;
  try {
    await work.em.flush();
  } catch (error) {
    if (!(error instanceof UniqueConstraintViolationException)) throw error;
    throw conflict("DOMAIN_ALREADY_CLAIMED", CLAIMED);
  }
  await record(work, domain, "sso_domain.verified");
  return domain;
};

/**
 * Gives a domain up. @throws NOT_FOUND, CONFLICT INVALID_STATE for the last verified one of a tenant that
 * makes accounts for its addresses
 */
export const removeDomain = async (work: Work, tenantId: string, id: string): Promise<void> => {
  await lockTenant(work, tenantId);
  const domain = await findDomain(work, tenantId, id);
  const others = await work.em.count(SsoDomain, { tenantId, verifiedAt: { $ne: null }, id: { $ne: id } });
  const needed = { tenantId, autoProvision: true, status: "ACTIVE" as const };
  if (domain.verifiedAt && others === 0 && (await work.em.count(SsoConfiguration, needed)) > 0)
    throw conflict("INVALID_STATE", "autoProvision needs a verified domain: switch it off first");
  await record(work, domain, "sso_domain.removed");
  work.em.remove(domain);
};

/** Whether the tenant has proved that a domain is its own. */
export const isVerified = async ({ em }: Work, tenantId: string, domain: string): Promise<boolean> =>
  (await em.count(SsoDomain, { tenantId, domain, verifiedAt: { $ne: null } })) > 0;

/** An email address, for a person of this tenant. */
type Wanted = { tenantId: string; email: string };

/**
 * Returns whether an account of another tenant has the address of a domain that this tenant has proved, and
 * nobody has ever proved that the address is the account's: anybody can register under any address. Where no
 * mail is sent nobody could have proved it, so there it says nothing.
 */
export const isUnproved = async (work: Work, mail: Mail, wanted: Wanted): Promise<boolean> =>
  (await findUnproved(work, mail, wanted)) !== null;

const findUnproved = async (
  work: Work,
  mail: Mail,
  { tenantId, email }: Wanted,
  isLocked = false,
): Promise<User | null> => {
  if (mail.isOff || !(await isVerified(work, tenantId, domainOf(email)))) return null;
  const lock = isLocked ? LOCKED : { refresh: true };
  return work.em.findOne(User, { email, emailVerified: false, tenantId: { $ne: tenantId } }, lock);
};

/**
 * Has such an account give the address up, so that no stranger keeps a person out of the tenant that owns
 * their domain. It stays its own tenant's with all that it has: sessions and password go on under another
 * address, to which no mail is sent. Links that were mailed to the address end. Whoever reads its mail is
 * told, and so is the audit log of the account's tenant, which learns nothing of the other one. To be called
 * where all tenants are seen, in the commit that gives the address to somebody.
 * @returns whether the address was such an account's
 */
export const releaseUnproved = async (work: Work, mail: Mail, wanted: Wanted): Promise<boolean> => {
  const user = await findUnproved(work, mail, wanted, true);
  if (!user) return false;
  const { email: oldEmail } = user;
  const newEmail = releasedAddress();
  Object.assign(user, { email: newEmail, updatedAt: work.now });
  await work.em.flush();
  await endUserTokens(work, user.id, ["VERIFY_EMAIL", "RESET_PASSWORD"]);
  work.afterCommit(forgetSessions);
  const values = { loginName: newEmail };
  await mailUser(work, mail, user, { template: "email-released", to: oldEmail, values });
  const data = { oldEmail, newEmail };
  await audit({ ...work, by: undefined }, { ...ofUser(user), action: "user.email_released", data });
  return true;
};

/** Days before a certificate expires at which its tenant is mailed, once each. */
const NOTICE_DAYS = [1, 7, 30] as const;

type Row = { tenant_id: string; display_name: string; saml_certificate: string };

/** Returns the smallest number of days that a certificate's rest is within; undefined outside all. */
const noticeOf = (notAfter: string, now: Date): number | undefined => {
  const leftMs = Date.parse(notAfter) - now.getTime();
  return leftMs <= 0 ? undefined : NOTICE_DAYS.find((days) => leftMs <= days * DAY_MS);
};

/** Records a notice; false if it was sent before. */
const isFirst = async (
  { db, now }: Work,
  tenantId: string,
  { fingerprint, days }: { fingerprint: string; days: number },
): Promise<boolean> => {
  const { rows } = await sql`
    insert into sso_certificate_notices (tenant_id, fingerprint, days, sent_at)
    values (${tenantId}::uuid, ${fingerprint}, ${days}, ${now.toISOString()}::timestamptz)
    on conflict do nothing returning 1`.execute(db);
  return rows.length === 1;
};

/**
 * Mails the OWNERs and ADMINs of tenants whose identity provider's certificates expire in 30, 7 or 1 days:
 * once each, however often it runs. Who was not told of 30 days in time is told of 7 alone.
 */
export const tellOfCertificates = async (work: Work, mail: Mail): Promise<void> => {
  const { rows } = await sql<Row>`
    select c.tenant_id, c.display_name, c.saml_certificate
    from sso_configurations c join tenants t on t.id = c.tenant_id
    where c.status = 'ACTIVE' and c.saml_certificate is not null and t.deleted_at is null`.execute(work.db);
  for (const row of rows) await tellOne(work, mail, row);
};

const tellOne = async (work: Work, mail: Mail, row: Row): Promise<void> => {
  const certificates = showCertificates(row.saml_certificate);
  const last =
    certificates
      .map(({ notAfter }) => notAfter)
      .toSorted()
      .at(-1) ?? "";
  for (const { fingerprint, notAfter: expiresAt } of certificates) {
    const days = noticeOf(expiresAt, work.now);
    if (days === undefined || !(await isFirst(work, row.tenant_id, { fingerprint, days }))) continue;
    const otherUntil = last > expiresAt ? last : "";
    const values = { displayName: row.display_name, fingerprint, expiresAt, otherUntil };
    await notifyAdmins(mail, work, row.tenant_id, { template: "sso-certificate-expiring", values });
  }
};
