import { sql } from "kysely";
import { CLAIM_MS, cnameTargetOf, TOGETHER, TOGETHER_OF_TENANT, txtNameOf, txtValueOf } from "./known.ts";
import {
  afterCheck,
  type CheckResult,
  type DnsRecords,
  type DomainRow,
  type DomainWithCertificate,
  type Entitlement,
  HELD,
  lockDomain,
  lookForCaa,
  recordAct,
  type Seen,
  shredCertificate,
  type Step,
  suspended,
} from "./states.ts";
import type { Mail } from "../email/mail.ts";
import { canonicalAddress } from "../../kernel/networks.ts";
import { notifyAdmins } from "../tenants/notify-owners.ts";
import { hasFeature, limitsOf, type Plan, type PlanLimits } from "../../kernel/caller.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import type { Transact, Work } from "../../kernel/work.ts";

/**
 * Where custom domains must point. `caaNames`: what CAA records call the authority of this server; none where
 * it has no authority, or nobody has said.
 */
type Ingress = { suffix: string; ingressIps: readonly string[]; caaNames: readonly string[] };

type One = { result: CheckResult; error?: string };

const OK: One = { result: "OK" };
const missing = (error: string): One => ({ result: "MISSING", error });
const silent = (name: string): One => ({
  result: "UNKNOWN",
  error: `the DNS servers of ${name} give no answer`,
});

const lookForTxt = async (dns: DnsRecords, { domain, token }: DomainRow): Promise<One> => {
  const name = txtNameOf(domain);
  try {
    const found = await dns.txt(name);
    if (found.includes(txtValueOf(token))) return OK;
    return missing(`${name} has ${found.length === 0 ? "no TXT record" : "only other TXT records"}`);
  } catch {
    return silent(name);
  }
};

const sameName = (a: string, b: string): boolean => a.replace(/\.$/, "").toLowerCase() === b;

/** Addresses are compared as numbers: IPv6 has many spellings. */
const addressKey = (text: string): string => canonicalAddress(text) ?? text;

const lookForRouting = async (
  dns: DnsRecords,
  { domain, label }: DomainRow,
  { suffix, ingressIps }: Ingress,
): Promise<One> => {
  const target = cnameTargetOf(label, suffix);
  try {
    const names = await dns.cname(domain);
    if (names.length === 1 && sameName(names[0]!, target)) return OK;
    // A name that is another one's leads wherever that one does.
    if (names.length > 0) return missing(`${domain} is a CNAME of another name than ${target}`);
    if (ingressIps.length === 0) return missing(`${domain} has no CNAME record`);
    const ours = new Set(ingressIps.map(addressKey));
    const found = await dns.addresses(domain);
    if (found.length > 0 && found.every((address) => ours.has(addressKey(address)))) return OK;
    return missing(
      found.length === 0
        ? `${domain} has neither a CNAME record nor addresses`
        : `${domain} has addresses that are none of this server`,
    );
  } catch {
    return silent(domain);
  }
};

/** Looks whether a domain's records are there. Not to be called in a transaction; never throws. */
const lookAtDomain = async (dns: DnsRecords, domain: DomainRow, ingress: Ingress): Promise<Seen> => {
  const [txt, routing, { caa, caaError }] = await Promise.all([
    lookForTxt(dns, domain),
    lookForRouting(dns, domain, ingress),
    lookForCaa(dns, domain.domain, ingress.caaNames),
  ]);
  const error = txt.error ?? routing.error ?? (caa === "REFUSED" ? caaError : null);
  return { txt: txt.result, routing: routing.result, caa, error };
};

/** What looks at the records of domains. */
export type CheckParts = {
  transact: Transact;
  dns: DnsRecords;
  ingress: Ingress;
  mail: Mail;
  /** Whether this server itself gets certificates. */
  hasOwnCertificates: boolean;
};

const CLAIMED = "another tenant of this server has this domain";
const LOST = "its DNS records proved it another tenant's of this server";

type TenantRow = {
  plan: Plan;
  planOverrides: Partial<PlanLimits>;
  isGone: boolean;
  isSuspended: boolean;
  older: number;
};

/** Returns whether the tenant may have the domain. The oldest ones of a tenant have the plan's room first. */
const entitlementOf = async (
  { db }: Work,
  { id, tenantId, createdAt }: DomainWithCertificate,
): Promise<Entitlement> => {
  const { rows } = await sql<TenantRow>`
    select t.plan, t.plan_overrides as "planOverrides", t.deleted_at is not null as "isGone",
      t.approval_status in ('SUSPENDED', 'REJECTED') as "isSuspended",
      (select count(*) from custom_domains d where d.tenant_id = t.id
        and (d.created_at, d.id) < (${createdAt.toISOString()}::timestamptz, ${id}::uuid)) as older
    from tenants t where t.id = ${tenantId}::uuid`.execute(db);
  const [tenant] = rows;
  if (!tenant || tenant.isGone) return "PLAN_LOST";
  if (tenant.isSuspended) return "TENANT_SUSPENDED";
  const { customDomains } = limitsOf(tenant);
  const hasRoom = customDomains === null || tenant.older < customDomains;
  return hasFeature(tenant, "customDomains") && hasRoom ? "ENTITLED" : "PLAN_LOST";
};

/** Returns the domain of another tenant that holds the name of this one. */
const holderOf = async ({ db }: Work, { id, domain }: DomainWithCertificate): Promise<string | undefined> => {
  const { rows } = await sql<{ id: string }>`
    select id from custom_domains where domain = ${domain} and id <> ${id}::uuid
      and status in ('VERIFIED', 'ACTIVE', 'DEGRADED')`.execute(db);
  return rows[0]?.id;
};

/** Only who makes the records learns that the name is another tenant's. */
const mayBegin = ({ status }: DomainWithCertificate, { txt, routing }: Seen): boolean =>
  !HELD.has(status) && txt === "OK" && routing === "OK";

/** What DNS said of a domain. `isTaken`: while that was stored another tenant got the name. */
type Looked = { id: string; seen: Seen; isTaken?: boolean };

/**
 * Stores what was seen of a domain, and all that follows from it.
 * @throws an error that names custom_domains_held_key where another tenant gets the name at the same time
 */
const applySeen = async (
  work: Work,
  parts: CheckParts,
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

const apply = async (
  work: Work,
  parts: CheckParts,
  domain: DomainWithCertificate,
  { step, seen }: { step: Step; seen: Seen },
): Promise<void> => {
  await store(work, domain, step, seen);
  await follow(work, parts, domain, step);
  if (step.status !== domain.status)
    await recordAct(work, domain, step.status.toLowerCase(), {
      from: domain.status,
      ...(step.notice && { change: step.notice.change }),
    });
  if (!step.notice) return;
  const { change, until } = step.notice;
  const values = { domain: domain.domain, change, until: isoOf(until) ?? "" };
  await notifyAdmins(parts.mail, work, domain.tenantId, { template: "custom-domain", values });
};

const follow = async (
  work: Work,
  { hasOwnCertificates }: CheckParts,
  domain: DomainWithCertificate,
  step: Step,
): Promise<void> => {
  const { id, status, certificate, sslStatus } = domain;
  if (step.status === "SUSPENDED") await shredCertificate(work, id);
  if (!hasOwnCertificates || !HELD.has(step.status)) return;
  // Held since a proxy had the certificates, until this server came to have its own.
  const isWithout = !certificate && sslStatus === "NONE";
  if (!HELD.has(status) || isWithout) await beginToOrder(work, id);
  else if (status === "DEGRADED" && step.status !== "DEGRADED") await orderAgain(work, domain);
};

const store = async (
  { db, serverNow: now }: Work,
  { id }: DomainWithCertificate,
  step: Step,
  seen: Seen,
): Promise<void> => {
  await sql`
    update custom_domains set status = ${step.status}, txt = ${seen.txt}, routing = ${seen.routing},
      caa = ${seen.caa}, check_error = ${seen.error}, checked_at = ${now.toISOString()}::timestamptz,
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
const orderAgain = async (
  { db, serverNow }: Work,
  { id, certificate }: DomainWithCertificate,
): Promise<void> => {
  await sql`
    update custom_domains set next_order_at = ${isoOf(certificate?.renewAt ?? serverNow)}::timestamptz
    where id = ${id}::uuid and ssl_status <> 'NONE'`.execute(db);
};

/**
 * Records of a holder are missing by two looks so far apart, in ms, that no resolver answers both from one
 * cached answer: one that lies takes no name.
 */
const CONFIRMED_MS = 3_600_000;

const isGone = ({ txt, routing }: Seen): boolean =>
  txt !== "UNKNOWN" && routing !== "UNKNOWN" && (txt === "MISSING" || routing === "MISSING");

/**
 * Has the holder of a name looked at where DNS proves it another tenant's: the holder gives it up if its own
 * records are missing, now and by a look before, and the other one may have it. While both are proved, as by
 * addresses and two TXT records, it stays where it is. Not to be called in a transaction.
 */
const lookAtHolder = async (parts: CheckParts, claim: DomainWithCertificate, seen: Seen): Promise<void> => {
  if (!mayBegin(claim, seen)) return;
  const holder = await parts.transact(async (work) => {
    const id = await holderOf(work, claim);
    return id === undefined ? undefined : lockDomain(work, id);
  });
  if (!holder) return;
  const seenOfHolder = await lookAtDomain(parts.dns, holder, parts.ingress);
  await parts.transact((work) => settle(work, parts, { claim, id: holder.id, seen: seenOfHolder }));
};

type Settled = { claim: DomainWithCertificate; id: string; seen: Seen };

const settle = async (work: Work, parts: CheckParts, { claim, id, seen }: Settled): Promise<void> => {
  const holder = await lockDomain(work, id);
  if (!holder || !HELD.has(holder.status)) return;
  const failedBefore = holder.failingSince?.getTime() ?? Infinity;
  const isConfirmed = isGone(seen) && work.serverNow.getTime() - failedBefore >= CONFIRMED_MS;
  if (!isConfirmed || (await entitlementOf(work, claim)) !== "ENTITLED")
    return applySeen(work, parts, { id, seen });
  const step = suspended(work.serverNow, "LOST");
  return apply(work, parts, holder, { step, seen: { ...seen, error: LOST } });
};

/** Takes domains whose records are to be looked at; no other worker gets them meanwhile. */
const claimDue = async ({ db, serverNow }: Work): Promise<string[]> => {
  const [at, until] = [0, CLAIM_MS].map((ms) => new Date(serverNow.getTime() + ms).toISOString());
  const { rows } = await sql<{ id: string }>`
    update custom_domains set next_check_at = ${until}::timestamptz
    where id in (
      select id from custom_domains where id in (
        select id from (
          select id, next_check_at,
            row_number() over (partition by tenant_id order by next_check_at) as nth
          from custom_domains where next_check_at <= ${at}::timestamptz) due
        where nth <= ${TOGETHER_OF_TENANT} order by next_check_at limit ${TOGETHER})
      and next_check_at <= ${at}::timestamptz
      for update skip locked)
    returning id`.execute(db);
  return rows.map(({ id }) => id);
};

/** Whether some domain waits to be looked at. */
export const isCheckDue = (at: Date) =>
  sql`exists (select from custom_domains where next_check_at <= ${at.toISOString()}::timestamptz)`;

/** Looks at all domains that are due. May run several times at once, and twice for one domain. */
export const checkDueDomains = async (parts: CheckParts): Promise<void> => {
  for (;;) {
    const ids = await parts.transact(claimDue);
    if (ids.length === 0) return;
    await Promise.all(ids.map((id) => checkOne(parts, id)));
  }
};

/** Looks at the records of a domain, also one that is not due. Not to be called in a transaction. */
export const checkOne = async (parts: CheckParts, id: string): Promise<void> => {
  const domain = await parts.transact((work) => lockDomain(work, id));
  if (!domain) return;
  const seen = await lookAtDomain(parts.dns, domain, parts.ingress);
  await lookAtHolder(parts, domain, seen);
  try {
    await parts.transact((work) => applySeen(work, parts, { id, seen }));
  } catch (error) {
    if (!isTaken(error)) throw error;
    await parts.transact((work) => applySeen(work, parts, { id, seen, isTaken: true }));
  }
};

/** Whether another tenant holds the name; two that prove it at once meet in the index. */
const isTaken = (error: unknown): boolean => String(error).includes("custom_domains_held_key");
