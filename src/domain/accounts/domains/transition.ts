import { sql } from "kysely";
import { audit } from "../audit/audit.ts";
import type { Mail } from "../email/mail.ts";
import { notifyAdmins } from "../tenants/notify-owners.ts";
import { hasFeature, limitsOf, type Plan, type PlanLimits } from "../../kernel/plans.ts";
import type { Work } from "../../kernel/work.ts";
import { type DomainWithCertificate, lockDomain, shredCertificate } from "./row.ts";
import {
  afterCheck,
  type DomainNotice,
  type Entitlement,
  HELD,
  type Seen,
  type Step,
  suspended,
} from "./states.ts";

export type TransitionParts = {
  mail: Mail;
  /** Whether this server itself gets certificates. */
  hasOwnCertificates: boolean;
};

const CLAIMED = "another tenant of this server has this domain";
const LOST = "its DNS records proved it another tenant's of this server";

type TenantRow = {
  plan: Plan;
  plan_overrides: Partial<PlanLimits>;
  is_gone: boolean;
  is_suspended: boolean;
  older: number | string;
};

/** Returns whether the tenant may have the domain. The oldest ones of a tenant have the plan's room first. */
export const entitlementOf = async (
  { db }: Work,
  { id, tenantId, createdAt }: DomainWithCertificate,
): Promise<Entitlement> => {
  const { rows } = await sql<TenantRow>`
    select t.plan, t.plan_overrides, t.deleted_at is not null as is_gone,
      t.approval_status in ('SUSPENDED', 'REJECTED') as is_suspended,
      (select count(*) from custom_domains d where d.tenant_id = t.id
        and (d.created_at, d.id) < (${createdAt.toISOString()}::timestamptz, ${id}::uuid)) as older
    from tenants t where t.id = ${tenantId}::uuid`.execute(db);
  const [tenant] = rows;
  if (!tenant || tenant.is_gone) return "PLAN_LOST";
  if (tenant.is_suspended) return "TENANT_SUSPENDED";
  const planOverrides = tenant.plan_overrides;
  const { customDomains } = limitsOf({ plan: tenant.plan, planOverrides });
  const hasRoom = customDomains === null || Number(tenant.older) < customDomains;
  return hasFeature(tenant, "customDomains") && hasRoom ? "ENTITLED" : "PLAN_LOST";
};

/** Returns the domain of another tenant that holds the name of this one. */
export const holderOf = async (
  { db }: Work,
  { id, domain }: DomainWithCertificate,
): Promise<string | undefined> => {
  const { rows } = await sql<{ id: string }>`
    select id from custom_domains where domain = ${domain} and id <> ${id}::uuid
      and status in ('VERIFIED', 'ACTIVE', 'DEGRADED')`.execute(db);
  return rows[0]?.id;
};

/** Only who makes the records learns that the name is another tenant's. */
export const mayBegin = ({ status }: DomainWithCertificate, { txt, routing }: Seen): boolean =>
  !HELD.has(status) && txt === "OK" && routing === "OK";

/** What DNS said of a domain. `isTaken`: while that was stored another tenant got the name. */
export type Looked = { id: string; seen: Seen; isTaken?: boolean };

/**
 * Stores what was seen of a domain, and all that follows from it.
 * @throws an error that names custom_domains_held_key where another tenant gets the name at the same time
 */
export const applySeen = async (
  work: Work,
  parts: TransitionParts,
  { id, seen, isTaken = false }: Looked,
): Promise<void> => {
  const domain = await lockDomain(work, id);
  if (!domain) return;
  const isOthers = mayBegin(domain, seen) && (isTaken || (await holderOf(work, domain)) !== undefined);
  const step = afterCheck(domain, seen, {
    now: work.serverNow,
    entitlement: isOthers ? "PLAN_LOST" : await entitlementOf(work, domain),
    hasOwnCertificate: parts.hasOwnCertificates,
  });
  await apply(work, parts, domain, { step, seen: { ...seen, error: isOthers ? CLAIMED : seen.error } });
};

/** Takes a name from a tenant, as DNS proves it another one's. */
export const loseName = (
  work: Work,
  parts: TransitionParts,
  holder: DomainWithCertificate,
  seen: Seen,
): Promise<void> => {
  const step = suspended(work.serverNow, "LOST");
  return apply(work, parts, holder, { step, seen: { ...seen, error: LOST } });
};

const apply = async (
  work: Work,
  parts: TransitionParts,
  domain: DomainWithCertificate,
  { step, seen }: { step: Step; seen: Seen },
): Promise<void> => {
  await store(work, domain, step, seen);
  await follow(work, parts, domain, step);
  if (step.status !== domain.status) await recordStep(work, domain, step);
  if (step.notice) await tell(work, parts.mail, domain, step.notice);
};

const follow = async (
  work: Work,
  { hasOwnCertificates }: TransitionParts,
  { id, status, certificate, sslStatus }: DomainWithCertificate,
  step: Step,
): Promise<void> => {
  if (step.status === "SUSPENDED") await shredCertificate(work, id);
  if (!hasOwnCertificates || !HELD.has(step.status)) return;
  // Held since a proxy had the certificates, until this server came to have its own.
  const isWithout = !certificate && sslStatus === "NONE";
  if (!HELD.has(status) || isWithout) await beginToOrder(work, id);
  else if (status === "DEGRADED" && step.status !== "DEGRADED") await orderAgain(work, id);
};

const isoOf = (at: Date | null): string | null => at?.toISOString() ?? null;

const store = async (
  { db, serverNow: now }: Work,
  { id }: DomainWithCertificate,
  step: Step,
  seen: Seen,
): Promise<void> => {
  await sql`
    update custom_domains set status = ${step.status}, txt = ${seen.txt}, routing = ${seen.routing},
      caa = ${seen.caa},
      check_error = ${seen.error}, checked_at = ${now.toISOString()}::timestamptz,
      next_check_at = ${isoOf(step.nextCheckAt)}::timestamptz,
      failing_since = ${isoOf(step.failingSince)}::timestamptz,
      degraded_at = ${isoOf(step.degradedAt)}::timestamptz,
      plan_lost_at = ${isoOf(step.planLostAt)}::timestamptz,
      tenant_suspended_at = ${isoOf(step.tenantSuspendedAt)}::timestamptz,
      unknown_since = ${isoOf(step.unknownSince)}::timestamptz,
      updated_at = ${now.toISOString()}::timestamptz,
      ssl_status = ${step.status === "SUSPENDED" ? sql`'NONE'` : sql`ssl_status`},
      lease = ${step.status === "SUSPENDED" ? sql`null` : sql`lease`},
      next_order_at = ${step.status === "SUSPENDED" ? sql`null` : sql`next_order_at`}
    where id = ${id}::uuid`.execute(db);
};

/** From now on the name is the tenant's, and gets its certificate. */
const beginToOrder = async ({ db, serverNow }: Work, id: string): Promise<void> => {
  await sql`
    update custom_domains set ssl_status = 'PROVISIONING', order_failures = 0, ssl_error = null,
      next_order_at = ${serverNow.toISOString()}::timestamptz
    where id = ${id}::uuid`.execute(db);
};

/** Renewals rest while records are missing. */
const orderAgain = async ({ db, serverNow }: Work, id: string): Promise<void> => {
  await sql`
    update custom_domains d set next_order_at = coalesce(
      (select renew_at from custom_domain_certificates c where c.domain_id = d.id),
      ${serverNow.toISOString()}::timestamptz)
    where id = ${id}::uuid and ssl_status <> 'NONE'`.execute(db);
};

const recordStep = (work: Work, { id, tenantId, domain, status }: DomainWithCertificate, step: Step) =>
  audit(work, {
    action: `custom_domain.${step.status.toLowerCase()}`,
    target: { type: "custom_domain", id },
    tenantId,
    data: { domain, from: status, ...(step.notice ? { change: step.notice.change } : {}) },
  });

const tell = async (
  work: Work,
  mail: Mail,
  { tenantId, domain }: DomainWithCertificate,
  { change, until }: DomainNotice,
): Promise<void> => {
  const values = { domain, change, until: isoOf(until) ?? "" };
  await notifyAdmins(mail, work, tenantId, { template: "custom-domain", values });
};
