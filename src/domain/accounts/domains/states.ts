import { sql } from "kysely";
import { audit } from "../audit/audit.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import type { Work } from "../../kernel/work.ts";
import type { Mail } from "../email/mail.ts";
import { notifyAdmins } from "../tenants/notify-owners.ts";

/** A CAA record. `tag`: what it is about, such as issue; "" where that cannot be read. */
export type CaaRecord = { isCritical: boolean; tag: string; value: string };

/** Questions to DNS servers. Every answer comes within seconds, or throws. */
export type DnsRecords = {
  /** Returns the TXT records of a name, chunks joined; or none. @throws where nobody answers */
  txt(name: string): Promise<readonly string[]>;
  /** Returns the names that a name is another one for. @throws where nobody answers */
  cname(name: string): Promise<readonly string[]>;
  /** Returns the addresses of a name, IPv4 and IPv6. @throws where nobody answers */
  addresses(name: string): Promise<readonly string[]>;
  /** Returns the CAA records of a name, or of what it is an alias of. @throws where nobody answers */
  caa(name: string): Promise<readonly CaaRecord[]>;
};

/** OK: the authority may issue; REFUSED: it may not; UNKNOWN: not looked at, or no answer. */
export const CAA_RESULTS = ["OK", "REFUSED", "UNKNOWN"] as const;
export type CaaResult = (typeof CAA_RESULTS)[number];

/** What CAA records say. `error`: why the authority may not issue, or what is not known. */
type SeenCaa = { caa: CaaResult; caaError: string | null };

/** Names between a domain and the root that are asked for; nobody has as many by honest means. */
const LEVELS_MAX = 12;
/** Tags that authorities understand. Another one that is critical forbids everything. */
const KNOWN_TAGS: ReadonlySet<string> = new Set(["issue", "issuewild", "iodef", "issuemail"]);
/** How this server proves names to the authority. */
const METHOD = "http-01";
const SHOWN_MAX = 3;

/** The issuer of a record's value and its parameters (RFC 8659, 4.2), in lower case; "" for nobody. */
const parsed = (value: string): { issuer: string; parameters: Map<string, string> } => {
  const [issuer = "", ...rest] = value.split(";").map((part) => part.trim().toLowerCase());
  const pairs = rest.map((part) => part.split("=", 2).map((side) => side.trim()));
  return { issuer, parameters: new Map(pairs.map(([name = "", text = ""]) => [name, text])) };
};

const allowsMethod = ({ parameters }: ReturnType<typeof parsed>): boolean => {
  const methods = parameters.get("validationmethods");
  return methods === undefined || methods.split(",").some((method) => method.trim() === METHOD);
};

/**
 * Returns why an authority may issue no certificate for a name with these relevant records, of which there is
 * one at least (RFC 8659, 4.1 to 4.3, and the validationmethods of RFC 8657); undefined if it may. Records
 * about wildcards say nothing of other names. Pure.
 * @param authorities names of the authority, in lower case
 */
export const caaProblem = (
  records: readonly CaaRecord[],
  authorities: readonly string[],
): string | undefined => {
  const tagged = records.map((record) => ({ ...record, tag: record.tag.toLowerCase() }));
  if (tagged.some(({ isCritical, tag }) => isCritical && !KNOWN_TAGS.has(tag)))
    return "have a critical one that no authority understands";
  const issuers = tagged.filter(({ tag }) => tag === "issue").map(({ value }) => parsed(value));
  // Whoever names no issuer restricts none.
  if (issuers.length === 0) return undefined;
  const ours = issuers.filter(({ issuer }) => authorities.includes(issuer));
  if (ours.some(allowsMethod)) return undefined;
  if (ours.length > 0) return `allow ${ours[0]!.issuer} to issue by other ways than ${METHOD}`;
  const named = issuers.map(({ issuer }) => issuer).filter((issuer) => /^[a-z0-9.-]{1,80}$/.test(issuer));
  const allowed = named.length === 0 ? "nobody" : named.slice(0, SHOWN_MAX).join(", ");
  return `allow ${allowed} to issue certificates, and not ${authorities.join(", ")}`;
};

/** A name and those above it, except for the root. */
const climb = (domain: string): string[] => {
  const labels = domain.split(".");
  return labels.map((_label, from) => labels.slice(from).join("."));
};

type Found = readonly CaaRecord[] | undefined;

/**
 * Looks whether the authority may issue certificates for a domain: the records of the domain count or, where
 * it has none, those of the nearest name above that has some (RFC 8659, 3). All are asked at once, so names
 * whose servers are silent cost as long as one. Not to be called in a transaction; never throws.
 * @param authorities names of the authority; none: nothing is looked at
 */
export const lookForCaa = async (
  dns: DnsRecords,
  domain: string,
  authorities: readonly string[],
): Promise<SeenCaa> => {
  if (authorities.length === 0) return { caa: "UNKNOWN", caaError: null };
  const names = climb(domain);
  if (names.length > LEVELS_MAX)
    return { caa: "UNKNOWN", caaError: `${domain} has too many levels to look for CAA records` };
  const found = await Promise.all(names.map((name): Promise<Found> => dns.caa(name).catch(() => undefined)));
  for (const [index, records] of found.entries()) {
    const name = names[index]!;
    if (records === undefined)
      return { caa: "UNKNOWN", caaError: `the DNS servers of ${name} give no answer about CAA records` };
    if (records.length === 0) continue;
    const problem = caaProblem(records, authorities);
    if (problem !== undefined) return { caa: "REFUSED", caaError: `the CAA records of ${name} ${problem}` };
    break;
  }
  return { caa: "OK", caaError: null };
};

export const DOMAIN_STATUSES = ["PENDING", "VERIFIED", "ACTIVE", "DEGRADED", "SUSPENDED", "FAILED"] as const;
type DomainStatus = (typeof DOMAIN_STATUSES)[number];

export const SSL_STATUSES = ["NONE", "PROVISIONING", "ISSUED", "RENEWING", "FAILED", "EXPIRED"] as const;
type SslStatus = (typeof SSL_STATUSES)[number];

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
type CertificateRow = { issuer: string; notBefore: Date; notAfter: Date; renewAt: Date };

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

const READ = sql`
  select ${COLUMNS} from custom_domains d left join custom_domain_certificates c on c.domain_id = d.id`;

type Read = DomainRow & (CertificateRow | { [C in keyof CertificateRow]: null });

const rowOf = ({ issuer, notBefore, notAfter, renewAt, ...read }: Read): DomainWithCertificate => ({
  ...read,
  certificate: issuer === null ? null : { issuer, notBefore, notAfter, renewAt },
});

/** Returns the domains of a tenant, in alphabetical order; with `id` that one alone. */
export const readDomains = async (
  { db }: Work,
  tenantId: string,
  id?: string,
): Promise<DomainWithCertificate[]> => {
  const { rows } = await sql<Read>`
    ${READ} where d.tenant_id = ${tenantId}::uuid and (${id ?? null}::uuid is null or d.id = ${id ?? null}::uuid)
    order by d.domain`.execute(db);
  return rows.map(rowOf);
};

/** Locks a domain, of whichever tenant; undefined once it was removed. */
export const lockDomain = async ({ db }: Work, id: string): Promise<DomainWithCertificate | undefined> => {
  await sql`select from custom_domains where id = ${id}::uuid for update`.execute(db);
  const { rows } = await sql<Read>`${READ} where d.id = ${id}::uuid`.execute(db);
  return rows[0] && rowOf(rows[0]);
};

/** Records in the log of its tenant what has happened to a domain. */
export const recordAct = (
  work: Work,
  { id, tenantId, domain }: Pick<DomainRow, "id" | "tenantId" | "domain">,
  act: string,
  data: Record<string, string> = {},
): Promise<void> =>
  audit(work, {
    action: `custom_domain.${act}`,
    target: { type: "custom_domain", id },
    tenantId,
    data: { domain, ...data },
  });

/** Ends what the server could speak TLS with as the domain: nobody can open the key any more. */
export const shredCertificate = async ({ db }: Work, domainId: string): Promise<void> => {
  await sql`delete from custom_domain_certificates where domain_id = ${domainId}::uuid`.execute(db);
  await sql`delete from acme_challenges where domain_id = ${domainId}::uuid`.execute(db);
};

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** How often records are looked for: at first, later, once they are there, and while some are gone. */
const EAGER_MS = HOUR_MS;
const EAGER_EVERY_MS = MINUTE_MS;
const PENDING_EVERY_MS = 10 * MINUTE_MS;
const HELD_EVERY_MS = DAY_MS;
const FAILING_EVERY_MS = 6 * HOUR_MS;
/** After DNS servers have given no answer. */
const UNKNOWN_EVERY_MS = 10 * MINUTE_MS;
/** How long a state lasts at most. */
const PENDING_MAX_MS = 72 * HOUR_MS;
const FAILING_MAX_MS = 3 * DAY_MS;
const DEGRADED_MAX_MS = 14 * DAY_MS;
const PLAN_GRACE_MS = 7 * DAY_MS;
/** How long a tenant that is suspended or rejected keeps its names. */
const TENANT_GRACE_MS = 30 * DAY_MS;
/** DNS servers that have given no answer for this time count as records that are missing. */
const UNKNOWN_MAX_MS = 7 * DAY_MS;

/** Whether a domain in this state belongs to its tenant: nobody else can have it, and its host is served. */
export const HELD: ReadonlySet<DomainStatus> = new Set(["VERIFIED", "ACTIVE", "DEGRADED"]);

/** What DNS says of a domain. `error`: the first thing that is missing. */
export type Seen = { txt: CheckResult; routing: CheckResult; caa: CaaResult; error: string | null };

/** What the tenant is told by mail. */
export type DomainNotice = {
  change: "DEGRADED" | "SUSPENDED" | "PLAN_LOST" | "TENANT_SUSPENDED" | "LOST";
  until: Date | null;
};

/** Whether a tenant may have a domain: by its plan, and by its own state. */
export type Entitlement = "ENTITLED" | "PLAN_LOST" | "TENANT_SUSPENDED";

type Clocks = Pick<DomainRow, "planLostAt" | "tenantSuspendedAt">;
type Standing = Pick<DomainRow, "status" | "failingSince" | "degradedAt" | "unknownSince"> & Clocks;
/** What a check changes. */
export type Step = Standing & { nextCheckAt: Date | null; notice?: DomainNotice };

type Known = Standing & Pick<DomainWithCertificate, "pendingSince" | "certificate">;
/** What DNS alone changes of a domain that is held. */
type Seeing = Omit<Step, keyof Clocks>;

const NOTHING_MISSING = { failingSince: null, degradedAt: null, unknownSince: null };
const NOTHING_LOST: Clocks = { planLostAt: null, tenantSuspendedAt: null };

const after = (at: Date, ms: number): Date => new Date(at.getTime() + ms);
const isOver = (since: Date, ms: number, now: Date): boolean => now.getTime() - since.getTime() >= ms;

/** `hasOwnCertificate`: whether this server itself gets the certificate. */
type CheckedAs = { now: Date; entitlement: Entitlement; hasOwnCertificate: boolean };

/**
 * Returns the state of a domain after its records were looked at. Pure. DNS servers that give no answer
 * change no state for a week; then they count as records that are missing.
 * @param entitlement whether the tenant may have the domain
 */
export const afterCheck = (
  domain: Known,
  seen: Pick<Seen, "txt" | "routing">,
  { now, entitlement, hasOwnCertificate }: CheckedAs,
): Step => {
  const look: Look = {
    isOk: seen.txt === "OK" && seen.routing === "OK",
    isUnknown: seen.txt === "UNKNOWN" || seen.routing === "UNKNOWN",
    served: hasOwnCertificate && !domain.certificate ? "VERIFIED" : "ACTIVE",
    now,
  };
  if (!HELD.has(domain.status)) return afterPending(domain, look, entitlement === "ENTITLED");
  const lost = afterLoss(domain, entitlement, now);
  if (lost.isOver) return suspended(now);
  const step = afterHeld(domain, look);
  if (step.status === "SUSPENDED") return suspended(now);
  const notice = step.notice ?? lost.notice;
  return { ...step, ...lost.clocks, ...(notice ? { notice } : {}) };
};

/** What a look has shown; `served`: the status of a domain whose records are all there. */
type Look = { isOk: boolean; isUnknown: boolean; served: DomainStatus; now: Date };

const afterHeld = (domain: Known, { isOk, isUnknown, served, now }: Look): Seeing => {
  const { status, failingSince, degradedAt } = domain;
  if (isOk) return { status: served, ...NOTHING_MISSING, nextCheckAt: after(now, HELD_EVERY_MS) };
  if (!isUnknown) return afterMissing(domain, now);
  const unknownSince = domain.unknownSince ?? now;
  if (isOver(unknownSince, UNKNOWN_MAX_MS, now)) return { ...afterMissing(domain, now), unknownSince };
  const nextCheckAt = after(now, UNKNOWN_EVERY_MS);
  return { status, failingSince, degradedAt, unknownSince, nextCheckAt };
};

const afterPending = (
  { pendingSince }: Known,
  { isOk, isUnknown, served, now }: Look,
  isEntitled: boolean,
): Step => {
  const none = { ...NOTHING_MISSING, ...NOTHING_LOST };
  if (isOk && isEntitled) return { status: served, nextCheckAt: after(now, HELD_EVERY_MS), ...none };
  if (isOver(pendingSince, PENDING_MAX_MS, now)) return { status: "FAILED", nextCheckAt: null, ...none };
  // Servers that give no answer are slow to ask, and keep others waiting.
  const isEager = !isUnknown && !isOver(pendingSince, EAGER_MS, now);
  const everyMs = isEager ? EAGER_EVERY_MS : PENDING_EVERY_MS;
  return { status: "PENDING", nextCheckAt: after(now, everyMs), ...none };
};

type Lost = { clocks: Clocks; isOver: boolean; notice?: DomainNotice };

/**
 * A plan without room and a tenant that is suspended have a clock and a grace each. The one that is not the
 * reason does not run, and begins anew: a plan that is lost when a long suspension ends has its whole grace.
 */
const afterLoss = (domain: Known, entitlement: Entitlement, now: Date): Lost => {
  if (entitlement === "ENTITLED") return { clocks: NOTHING_LOST, isOver: false };
  const [clock, graceMs] =
    entitlement === "PLAN_LOST"
      ? (["planLostAt", PLAN_GRACE_MS] as const)
      : (["tenantSuspendedAt", TENANT_GRACE_MS] as const);
  const since = domain[clock];
  const clocks = { ...NOTHING_LOST, [clock]: since ?? now };
  if (since) return { clocks, isOver: isOver(since, graceMs, now) };
  return { clocks, isOver: false, notice: { change: entitlement, until: after(now, graceMs) } };
};

/** The end of a domain that was held. @param change LOST: the name is another tenant's */
export const suspended = (now: Date, change: "SUSPENDED" | "LOST" = "SUSPENDED"): Step => ({
  status: "SUSPENDED",
  ...NOTHING_MISSING,
  ...NOTHING_LOST,
  nextCheckAt: null,
  notice: { change, until: now },
});

const afterMissing = ({ status, failingSince, degradedAt }: Known, now: Date): Seeing => {
  const since = failingSince ?? now;
  const next = { nextCheckAt: after(now, FAILING_EVERY_MS), unknownSince: null };
  if (status === "DEGRADED") {
    const begun = degradedAt ?? now;
    if (isOver(begun, DEGRADED_MAX_MS, now)) return suspended(now);
    return { status, failingSince: since, degradedAt: begun, ...next };
  }
  if (!isOver(since, FAILING_MAX_MS, now)) return { status, failingSince: since, degradedAt: null, ...next };
  const notice = { change: "DEGRADED", until: after(now, DEGRADED_MAX_MS) } as const;
  return { status: "DEGRADED", failingSince: since, degradedAt: now, ...next, notice };
};

/** Returns what the certificate's state is called at a time. */
export const shownSslStatus = (
  { sslStatus, certificate }: Pick<DomainWithCertificate, "sslStatus" | "certificate">,
  now: Date,
): SslStatus => (certificate && certificate.notAfter <= now ? "EXPIRED" : sslStatus);

/** Days before the certificate of a custom domain expires at which its tenant is mailed, once each. */
const NOTICE_DAYS = [1, 7, 14] as const;
/** A renewal that is not done after this time, in ms, fails: one failure may be mended by the next try. */
const OVERDUE_MS = 3_600_000;

type Row = {
  domain_id: string;
  tenant_id: string;
  domain: string;
  ssl_error: string | null;
  not_after: Date;
};

/** Records a notice; false if this one, or one of fewer days, was sent before. */
const isFirst = async ({ db }: Work, { domain_id: id, not_after: end }: Row, days: number) => {
  const { rows } = await sql`
    update custom_domain_certificates set notice_days = ${days}
    where domain_id = ${id}::uuid and not_after = ${end.toISOString()}::timestamptz
      and (notice_days is null or notice_days > ${days}) returning 1`.execute(db);
  return rows.length === 1;
};

/**
 * Mails the OWNERs and ADMINs of tenants that have a custom domain whose certificate expires in 14, 7 or 1
 * days, and whose renewal fails, or rests because DNS records are missing: once each, however often it runs.
 * A certificate that is renewed begins anew.
 */
export const tellOfFailingRenewals = async (work: Work, mail: Mail): Promise<void> => {
  const { db, serverNow: now } = work;
  const { rows } = await sql<Row>`
    select c.domain_id, d.tenant_id, d.domain, d.ssl_error, c.not_after
    from custom_domain_certificates c join custom_domains d on d.id = c.domain_id
      join tenants t on t.id = d.tenant_id
    where t.deleted_at is null and c.renew_at <= ${isoOf(now.getTime() - OVERDUE_MS)}::timestamptz
      and c.not_after > ${now.toISOString()}::timestamptz
      and c.not_after <= ${isoOf(now.getTime() + NOTICE_DAYS.at(-1)! * DAY_MS)}::timestamptz
      and (d.status = 'ACTIVE' and d.ssl_error is not null or d.status = 'DEGRADED')
    order by c.domain_id`.execute(db);
  for (const row of rows) {
    const leftMs = row.not_after.getTime() - now.getTime();
    const days = NOTICE_DAYS.find((one) => leftMs <= one * DAY_MS);
    if (days === undefined || !(await isFirst(work, row, days))) continue;
    const error = row.ssl_error ?? "its DNS records are missing";
    const values = { domain: row.domain, expiresAt: row.not_after.toISOString(), error };
    await notifyAdmins(mail, work, row.tenant_id, { template: "domain-certificate-expiring", values });
  }
};

/** Why a renewal is overdue: CAA records of the tenant forbid it, or orders fail. */
type OverdueCause = "caa" | "order";
/** `leftSeconds`: until the first of these certificates ends; below 0 after that. */
export type Overdue = { cause: OverdueCause; count: number; leftSeconds: number };

/** Returns how many certificates of domains that are served were to be renewed an hour ago, by cause. */
export const readOverdueRenewals = async ({ db, serverNow }: Work): Promise<Overdue[]> => {
  const { rows } = await sql<{ is_refused: boolean; count: number; first_end: Date }>`
    select d.caa = 'REFUSED' as is_refused, count(*) as count, min(c.not_after) as first_end
    from custom_domain_certificates c join custom_domains d on d.id = c.domain_id
    where d.status = 'ACTIVE' and c.renew_at <= ${isoOf(serverNow.getTime() - OVERDUE_MS)}::timestamptz
    group by 1`.execute(db);
  return rows.map(({ is_refused: isRefused, count, first_end: end }) => ({
    cause: isRefused ? "caa" : "order",
    count,
    leftSeconds: (end.getTime() - serverNow.getTime()) / 1_000,
  }));
};
