import { randomBytes } from "node:crypto";
import { sql } from "kysely";
import { audit } from "../audit/audit.ts";
import { normaliseDomain } from "../sso/domain-name.ts";
import { lockTenant } from "../tenants/lock-tenant.ts";
import { conflict, DomainError, invalid, notFound } from "../../kernel/errors.ts";
import { isId, newId } from "../../kernel/ids.ts";
import { limitsOf, planLimitExceeded } from "../../kernel/plans.ts";
import type { Work } from "../../kernel/work.ts";
import { CLAIM_MS } from "./looks.ts";
import { cnameTargetOf, customDomainProblem, txtNameOf, txtValueOf } from "./names.ts";
import { type DomainWithCertificate, lockDomain, readDomains } from "./row.ts";
import { shownSslStatus } from "./states.ts";

/** Custom domains of a tenant, whatever its plan or a super-admin says. */
export const CUSTOM_DOMAINS_MAX = 100;
const LABEL_BYTES = 6;
const TOKEN_BYTES = 24;

/** What this server says of its own names and addresses. */
export type DomainRules = { suffix: string; ingressIps: readonly string[]; ownHosts: readonly string[] };

/** @throws SERVICE_UNAVAILABLE DOMAINS_NOT_CONFIGURED where this server has no custom domains */
export const requireDomains = <T extends DomainRules>(settings: T | undefined): T => {
  if (settings) return settings;
  throw new DomainError("SERVICE_UNAVAILABLE", "This server has no custom domains; ask its operator", {
    reason: "DOMAINS_NOT_CONFIGURED",
  });
};

const isoOf = (at: Date | null): string | null => at?.toISOString() ?? null;

/** Converts a domain to the API representation, with the records that its owner makes. */
export const showCustomDomain = (row: DomainWithCertificate, rules: DomainRules | undefined, now: Date) => ({
  id: row.id,
  domain: row.domain,
  status: row.status,
  sslStatus: shownSslStatus(row, now),
  verification: {
    txtName: txtNameOf(row.domain),
    txtValue: txtValueOf(row.token),
    cnameTarget: rules ? cnameTargetOf(row.label, rules.suffix) : null,
    aRecords: [...(rules?.ingressIps ?? [])],
  },
  checks: {
    txt: row.txt,
    routing: row.routing,
    caa: row.caa,
    checkedAt: isoOf(row.checkedAt),
    error: row.checkError,
  },
  certificate: row.certificate && {
    issuer: row.certificate.issuer,
    notBefore: row.certificate.notBefore.toISOString(),
    notAfter: row.certificate.notAfter.toISOString(),
    renewAt: row.certificate.renewAt.toISOString(),
  },
  sslError: row.sslError,
  createdAt: row.createdAt.toISOString(),
  updatedAt: row.updatedAt.toISOString(),
});

/** Returns one domain of a tenant. @throws NOT_FOUND */
export const getCustomDomain = async (
  work: Work,
  tenantId: string,
  id: string,
): Promise<DomainWithCertificate> => {
  const [found] = isId(id) ? await readDomains(work, tenantId, id) : [];
  if (!found) throw notFound("Domain");
  return found;
};

const record = (work: Work, tenantId: string, { id, domain }: { id: string; domain: string }, act: string) =>
  audit(work, {
    action: `custom_domain.${act}`,
    target: { type: "custom_domain", id },
    tenantId,
    data: { domain },
  });

/**
 * Adds a name that shall lead to this server. It counts once its records are seen.
 * @throws VALIDATION_ERROR, CONFLICT DOMAIN_ALREADY_CLAIMED for one that the tenant has, PAYMENT_REQUIRED
 * PLAN_LIMIT_EXCEEDED
 */
export const addCustomDomain = async (
  work: Work,
  rules: DomainRules,
  tenantId: string,
  text: string,
): Promise<DomainWithCertificate> => {
  const { db, now } = work;
  const domain = normaliseDomain(text);
  const problem = customDomainProblem(domain, rules.ownHosts);
  if (problem !== undefined) throw invalid("domain", problem);
  const tenant = await lockTenant(work, tenantId);
  const known = await readDomains(work, tenantId);
  if (known.some((one) => one.domain === domain))
    throw conflict("DOMAIN_ALREADY_CLAIMED", "The tenant has this domain already");
  const max = Math.min(limitsOf(tenant).customDomains ?? CUSTOM_DOMAINS_MAX, CUSTOM_DOMAINS_MAX);
  if (known.length >= max)
    throw planLimitExceeded(`The plan ${tenant.plan} has room for ${max} custom domains; remove one first`);
  const [id, at] = [newId(), now.toISOString()];
  await sql`
    insert into custom_domains (id, tenant_id, domain, label, token, status, ssl_status, txt, routing,
      next_check_at, pending_since, created_at, updated_at)
    values (${id}::uuid, ${tenantId}::uuid, ${domain}, ${randomBytes(LABEL_BYTES).toString("hex")},
      ${randomBytes(TOKEN_BYTES).toString("base64url")}, 'PENDING', 'NONE', 'UNKNOWN', 'UNKNOWN',
      ${at}::timestamptz, ${at}::timestamptz, ${at}::timestamptz, ${at}::timestamptz)`.execute(db);
  await record(work, tenantId, { id, domain }, "added");
  return getCustomDomain(work, tenantId, id);
};

/** Orders that failed more often wait for their time, whoever asks. */
const FAILURES_ASKED = 3;

/**
 * Claims a domain, whose records whoever asks is to look for now. One that was given up begins anew, and a
 * certificate that failed is ordered again. @throws NOT_FOUND
 */
export const recheckCustomDomain = async (
  work: Work,
  tenantId: string,
  id: string,
): Promise<DomainWithCertificate> => {
  const { id: own } = await getCustomDomain(work, tenantId, id);
  const row = await lockDomain(work, own);
  if (!row) throw notFound("Domain");
  const at = work.now.toISOString();
  // As a worker claims it: if nobody has looked by then, a worker does.
  const dueAt = new Date(work.now.getTime() + CLAIM_MS).toISOString();
  const begins = row.status === "FAILED" || row.status === "SUSPENDED";
  await sql`
    update custom_domains set next_check_at = ${dueAt}::timestamptz, updated_at = ${at}::timestamptz,
      status = ${begins ? "PENDING" : row.status},
      pending_since = ${(begins ? work.now : row.pendingSince).toISOString()}::timestamptz,
      next_order_at = case
        when (ssl_status = 'FAILED' or ssl_status = 'RENEWING' and ssl_error is not null and lease is null)
          and order_failures < ${FAILURES_ASKED} and status in ('VERIFIED', 'ACTIVE')
        then ${at}::timestamptz else next_order_at end
    where id = ${own}::uuid`.execute(work.db);
  await record(work, tenantId, row, "recheck_requested");
  return getCustomDomain(work, tenantId, own);
};

/** Has workers look at a domain at once. */
export const leaveToWorkers = async ({ db, now }: Work, tenantId: string, id: string): Promise<void> => {
  await sql`
    update custom_domains set next_check_at = ${now.toISOString()}::timestamptz
    where id = ${id}::uuid and tenant_id = ${tenantId}::uuid`.execute(db);
};

/** Removes a domain; its certificate, and the key of that, go with the row. @throws NOT_FOUND */
export const removeCustomDomain = async (work: Work, tenantId: string, id: string): Promise<void> => {
  const { id: own, domain } = await getCustomDomain(work, tenantId, id);
  // Before the domain, as whoever locks both does.
  await sql`
    update tenants set link_domain = null
    where id = ${tenantId}::uuid and link_domain = ${domain}`.execute(work.db);
  const row = await lockDomain(work, own);
  if (!row) throw notFound("Domain");
  await sql`delete from custom_domains where id = ${own}::uuid`.execute(work.db);
  await record(work, tenantId, row, "removed");
};

/** Removes all domains of a tenant that is gone. */
export const removeDomainsOf = async ({ db }: Work, tenantId: string): Promise<void> => {
  await sql`delete from custom_domains where tenant_id = ${tenantId}::uuid`.execute(db);
};
