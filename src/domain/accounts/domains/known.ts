import { randomBytes } from "node:crypto";
import { isIP } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import { parse } from "tldts";
import { CACHE_TTL_MS } from "../auth/short-cache.ts";
import { domainProblem, normaliseDomain } from "../sso/domain-name.ts";
import { lockTenant } from "../tenants/tenant.ts";
import { limitsOf, planLimitExceeded } from "../../kernel/caller.ts";
import { conflict, DomainError, forbidden, invalid, notFound } from "../../kernel/errors.ts";
import { isId, newId } from "../../kernel/ids.ts";
import { Bulkhead } from "../../kernel/bulkhead.ts";
import { shown } from "../../kernel/json.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { isIn, isOfThisMachine, networkOf } from "../../kernel/networks.ts";
import { type DomainWithCertificate, lockDomain, readDomains, recordAct, shownSslStatus } from "./states.ts";

/** A check that is not over after this time, in ms, is another worker's to do. */
export const CLAIM_MS = 300_000;
/** Domains looked at together; each takes as long as its DNS servers want, within seconds. */
export const TOGETHER = 25;
/** Of one tenant, whose DNS servers may be slow. */
export const TOGETHER_OF_TENANT = 5;

/** Where the record of a name's owner is looked for: also of domains of single sign-on. */
export const txtNameOf = (domain: string): string => `_laurel-challenge.${domain}`;
export const txtValueOf = (token: string): string => `laurel-custom-domain=${token}`;
export const cnameTargetOf = (label: string, suffix: string): string => `${label}.${suffix}`;

/** Returns the name in a Host header, without port and final dot; "" for addresses and what is no domain. */
export const nameOfHost = (host: string | undefined): string => {
  const name = (host ?? "").replace(/:\d*$/, "").replace(/\.$/, "").toLowerCase();
  return name.includes(".") && isIP(name) === 0 ? name : "";
};

const isAtOrBelow = (name: string, other: string): boolean => name === other || name.endsWith(`.${other}`);

/**
 * Returns why a normalised name cannot be a custom domain, as a predicate; undefined if it can: somebody can
 * register it, and it is none of this server's own, nor above or below one.
 */
export const customDomainProblem = (domain: string, ownHosts: readonly string[]): string | undefined => {
  const problem = domainProblem(domain);
  if (problem !== undefined) return problem;
  const { isIcann, isPrivate } = parse(domain, { allowPrivateDomains: true });
  if (isIcann !== true && isPrivate !== true) return "must be below a public suffix, such as .com";
  if (ownHosts.some((own) => isAtOrBelow(domain, own) || isAtOrBelow(own, domain)))
    return "must not be a name of this server";
  return undefined;
};

/** Custom domains of a tenant, whatever its plan or a super-admin says. */
export const CUSTOM_DOMAINS_MAX = 100;
const LABEL_BYTES = 6;
const TOKEN_BYTES = 24;

/** What this server says of its own names and addresses. */
type DomainRules = { suffix: string; ingressIps: readonly string[]; ownHosts: readonly string[] };

/** @throws SERVICE_UNAVAILABLE DOMAINS_NOT_CONFIGURED where this server has no custom domains */
export const requireDomains = <T extends DomainRules>(settings: T | undefined): T => {
  if (settings) return settings;
  throw new DomainError("SERVICE_UNAVAILABLE", "This server has no custom domains; ask its operator", {
    reason: "DOMAINS_NOT_CONFIGURED",
  });
};

/** Converts a domain to the API representation, with the records that its owner makes. */
export const showCustomDomain = (row: DomainWithCertificate, rules: DomainRules | undefined, now: Date) => ({
  ...shown(row, ["id", "domain", "status"]),
  sslStatus: shownSslStatus(row, now),
  verification: {
    txtName: txtNameOf(row.domain),
    txtValue: txtValueOf(row.token),
    cnameTarget: rules ? cnameTargetOf(row.label, rules.suffix) : null,
    aRecords: [...(rules?.ingressIps ?? [])],
  },
  checks: { ...shown(row, ["txt", "routing", "caa", "checkedAt"]), error: row.checkError },
  certificate: row.certificate && shown(row.certificate, ["issuer", "notBefore", "notAfter", "renewAt"]),
  ...shown(row, ["sslError", "createdAt", "updatedAt"]),
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
    throw planLimitExceeded(`The plan ${tenant.plan} has room for ${max} custom domains; remove one first`, {
      metric: "customDomains",
      limit: max,
      used: known.length,
    });
  const [id, at] = [newId(), now.toISOString()];
  await sql`
    insert into custom_domains (id, tenant_id, domain, label, token, status, ssl_status, txt, routing,
      next_check_at, pending_since, created_at, updated_at)
    values (${id}::uuid, ${tenantId}::uuid, ${domain}, ${randomBytes(LABEL_BYTES).toString("hex")},
      ${randomBytes(TOKEN_BYTES).toString("base64url")}, 'PENDING', 'NONE', 'UNKNOWN', 'UNKNOWN',
      ${at}::timestamptz, ${at}::timestamptz, ${at}::timestamptz, ${at}::timestamptz)`.execute(db);
  await recordAct(work, { id, tenantId, domain }, "added");
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
  await recordAct(work, row, "recheck_requested");
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
  await recordAct(work, row, "removed");
};

/** Removes all domains of a tenant that is gone. */
export const removeDomainsOf = async ({ db }: Work, tenantId: string): Promise<void> => {
  await sql`delete from custom_domains where tenant_id = ${tenantId}::uuid`.execute(db);
};

/** A domain that leads to this server. */
export type KnownDomain = {
  id: string;
  tenantId: string;
  domain: string;
  /** Another one after each change of the row, such as another certificate. */
  version: string;
};

/** The custom domain that a request came by: of the database, never a header's text. */
export type CustomHost = Pick<KnownDomain, "tenantId" | "domain">;

type Parts = {
  transact: Transact;
  isOn: boolean;
  warn: (err: unknown, message: string) => void;
};

const readAll = async ({ db }: Work): Promise<Map<string, KnownDomain>> => {
  const { rows } = await sql<KnownDomain>`
    select id, tenant_id as "tenantId", domain, updated_at::text as version
    from custom_domains where status in ('VERIFIED', 'ACTIVE', 'DEGRADED')`.execute(db);
  return new Map(rows.map((row) => [row.domain, row]));
};

/** How long a question waits for what is newer than what is known, in ms. */
const WAIT_MS = 1_000;

/**
 * The custom domains that this process knows: all that are held, some seconds old at most. A name that is
 * none costs the database nothing, however many are asked for. While it does not answer, what was known
 * stays.
 */
export class KnownDomains {
  /** Bounds how many domains a process looks at because their tenants ask for it: as many as a worker does. */
  readonly looks = new Bulkhead({
    ofKey: { slots: TOGETHER_OF_TENANT },
    ofAll: { slots: TOGETHER },
    refusal: () => new Error("nobody waits for a slot"),
  });
  readonly #parts: Parts;
  #byName: ReadonlyMap<string, KnownDomain> | undefined;
  #reading: Promise<void> | undefined;
  /** When the last reading began, and the one that what is known is from. */
  #triedAtMs = -Infinity;
  #knownAtMs = -Infinity;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Returns the domain of this name, in lower case and without a final dot. @throws where the domains have
   * never been read, and cannot be
   */
  async find(name: string): Promise<KnownDomain | undefined> {
    if (!this.#parts.isOn) return undefined;
    const nowMs = performance.now();
    // Without anything known each question reads: an answer of nothing would serve a host as nobody's.
    if (nowMs - this.#triedAtMs > CACHE_TTL_MS || !this.#byName) this.#reading ??= this.#read();
    if (!this.#byName) await this.#reading;
    else if (this.#reading && nowMs - this.#knownAtMs > 2 * CACHE_TTL_MS)
      // Also who asks while it goes on, and nobody longer than the first.
      await Promise.race([this.#reading, delay(Math.max(0, this.#triedAtMs + WAIT_MS - nowMs))]);
    return this.#byName?.get(name);
  }

  /** Has everything read anew at the next question, for which all wait. */
  forget(): void {
    this.#triedAtMs = -Infinity;
    this.#knownAtMs = -Infinity;
  }

  async #read(): Promise<void> {
    const { transact, warn } = this.#parts;
    const beganMs = performance.now();
    this.#triedAtMs = beganMs;
    try {
      this.#byName = await transact(readAll);
      // Unless it was to be forgotten meanwhile.
      if (this.#triedAtMs === beganMs) this.#knownAtMs = beganMs;
    } catch (error) {
      // What was known stays in force; without anything known nobody is served as somebody else.
      if (!this.#byName) throw error;
      warn(error, "custom domains could not be read; those known before are served");
    } finally {
      this.#reading = undefined;
    }
  }
}

/** How long challenges are answered, in ms. */
const CHALLENGE_MS = 3_600_000;

/** Makes every web process answer a challenge of the certificate authority. */
export const publishChallenge = async (
  work: Work,
  domainId: string,
  { token, answer }: { token: string; answer: string },
): Promise<void> => {
  const until = new Date(work.serverNow.getTime() + CHALLENGE_MS).toISOString();
  await sql`
    insert into acme_challenges (token, domain_id, answer, expires_at)
    values (${token}, ${domainId}::uuid, ${answer}, ${until}::timestamptz)
    on conflict (token) do nothing`.execute(work.db);
};

/** Returns what a challenge of the certificate authority is answered with; undefined for an unknown one. */
export const readChallenge = async ({ db, serverNow }: Work, token: string): Promise<string | undefined> => {
  const { rows } = await sql<{ answer: string }>`
    select answer from acme_challenges
    where token = ${token} and expires_at > ${serverNow.toISOString()}::timestamptz`.execute(db);
  return rows[0]?.answer;
};

/** How a request came: over TLS of this server, from which address, and what its X-Forwarded-Proto says. */
type Arrival = { isTls: boolean; remoteAddress: string | undefined; forwardedProto: unknown };

/** Whether the client spoke https: to this server, or as a proxy says that is trusted or of this machine. */
export const spokeHttps = (
  { isTls, remoteAddress = "", forwardedProto }: Arrival,
  trustedProxies: readonly string[],
): boolean => {
  if (isTls) return true;
  const sender = networkOf(remoteAddress);
  if (forwardedProto !== "https" || sender === undefined) return false;
  return isOfThisMachine(remoteAddress) || isIn(sender, trustedProxies);
};

/** Builds the refusal of what was sent to a custom domain by plain HTTP. */
export const httpsRequired = (domain: string): DomainError =>
  forbidden(
    "HTTPS_REQUIRED",
    `Use https://${domain}: others may have read what was sent by plain HTTP, keys and tokens too`,
  );
