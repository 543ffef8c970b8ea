import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import type { CaaResult } from "./caa.ts";

export const DOMAIN_STATUSES = ["PENDING", "VERIFIED", "ACTIVE", "DEGRADED", "SUSPENDED", "FAILED"] as const;
export type DomainStatus = (typeof DOMAIN_STATUSES)[number];

export const SSL_STATUSES = ["NONE", "PROVISIONING", "ISSUED", "RENEWING", "FAILED", "EXPIRED"] as const;
export type SslStatus = (typeof SSL_STATUSES)[number];

/** OK: the record is as it must be; UNKNOWN: not looked at yet, or its servers gave no answer. */
export const CHECK_RESULTS = ["OK", "MISSING", "UNKNOWN"] as const;
export type CheckResult = (typeof CHECK_RESULTS)[number];

/** A custom domain as it is stored. */
export type DomainRow = {
  id: string;
  tenantId: string;
  /** ASCII, lower case. */
  domain: string;
  /** First label of the CNAME's target; of this row alone. */
  label: string;
  /** What the TXT record must hold; not a secret. */
  token: string;
  status: DomainStatus;
  sslStatus: SslStatus;
  txt: CheckResult;
  routing: CheckResult;
  caa: CaaResult;
  checkError: string | null;
  checkedAt: Date | null;
  pendingSince: Date;
  /** Since when records have been missing that were there. */
  failingSince: Date | null;
  degradedAt: Date | null;
  /** Since when the plan has had no room, while the tenant is not suspended. */
  planLostAt: Date | null;
  /** Since when the tenant has been suspended or rejected. */
  tenantSuspendedAt: Date | null;
  /** Since when its DNS servers have given no answer. */
  unknownSince: Date | null;
  orderFailures: number;
  sslError: string | null;
  createdAt: Date;
  updatedAt: Date;
};

/** A certificate of a domain, without its key. */
export type CertificateRow = { issuer: string; notBefore: Date; notAfter: Date; renewAt: Date };

export type DomainWithCertificate = DomainRow & { certificate: CertificateRow | null };

const COLUMNS = sql`
  d.id, d.tenant_id as "tenantId", d.domain, d.label, d.token, d.status, d.ssl_status as "sslStatus", d.txt,
  d.routing, d.caa, d.check_error as "checkError", d.checked_at as "checkedAt",
  d.pending_since as "pendingSince",
  d.failing_since as "failingSince", d.degraded_at as "degradedAt", d.plan_lost_at as "planLostAt",
  d.tenant_suspended_at as "tenantSuspendedAt", d.unknown_since as "unknownSince",
  d.order_failures as "orderFailures", d.ssl_error as "sslError", d.created_at as "createdAt",
  d.updated_at as "updatedAt", c.issuer, c.not_before as "notBefore", c.not_after as "notAfter",
  c.renew_at as "renewAt"`;

type Time = Date | string;
type Read = Record<keyof DomainRow | keyof CertificateRow, unknown> & { issuer: string | null };

const timeOf = (value: unknown): Date => new Date(value as Time);
const optionalTime = (value: unknown): Date | null => (value == null ? null : timeOf(value));

const rowOf = ({ issuer, notBefore, notAfter, renewAt, ...read }: Read): DomainWithCertificate => ({
  ...(read as DomainRow),
  checkedAt: optionalTime(read.checkedAt),
  pendingSince: timeOf(read.pendingSince),
  failingSince: optionalTime(read.failingSince),
  degradedAt: optionalTime(read.degradedAt),
  planLostAt: optionalTime(read.planLostAt),
  tenantSuspendedAt: optionalTime(read.tenantSuspendedAt),
  unknownSince: optionalTime(read.unknownSince),
  createdAt: timeOf(read.createdAt),
  updatedAt: timeOf(read.updatedAt),
  certificate:
    issuer === null
      ? null
      : {
          issuer,
          notBefore: timeOf(notBefore),
          notAfter: timeOf(notAfter),
          renewAt: timeOf(renewAt),
        },
});

/** Returns the domains of a tenant, in alphabetical order; with `id` that one alone. */
export const readDomains = async (
  { db }: Work,
  tenantId: string,
  id?: string,
): Promise<DomainWithCertificate[]> => {
  const { rows } = await sql<Read>`
    select ${COLUMNS} from custom_domains d left join custom_domain_certificates c on c.domain_id = d.id
    where d.tenant_id = ${tenantId}::uuid and (${id ?? null}::uuid is null or d.id = ${id ?? null}::uuid)
    order by d.domain`.execute(db);
  return rows.map(rowOf);
};

/** Locks a domain, of whichever tenant; undefined once it was removed. */
export const lockDomain = async ({ db }: Work, id: string): Promise<DomainWithCertificate | undefined> => {
  await sql`select from custom_domains where id = ${id}::uuid for update`.execute(db);
  const { rows } = await sql<Read>`
    select ${COLUMNS} from custom_domains d left join custom_domain_certificates c on c.domain_id = d.id
    where d.id = ${id}::uuid`.execute(db);
  return rows[0] && rowOf(rows[0]);
};

/** Ends what the server could speak TLS with as the domain: nobody can open the key any more. */
export const shredCertificate = async ({ db }: Work, domainId: string): Promise<void> => {
  await sql`delete from custom_domain_certificates where domain_id = ${domainId}::uuid`.execute(db);
  await sql`delete from acme_challenges where domain_id = ${domainId}::uuid`.execute(db);
};
