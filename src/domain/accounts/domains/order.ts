import { sql } from "kysely";
import { publishChallenge } from "./known.ts";
import { type CaaResult, type DnsRecords, lookForCaa, recordAct } from "./states.ts";
import { clipped } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import type { SecretBox } from "../../kernel/secret-box.ts";
import type { Transact, Work } from "../../kernel/work.ts";

/** The key by which a certificate authority knows this server, and what it calls the account, once known. */
type AcmeAccount = { keyPem: string; url: string | undefined };

export type IssueRequest = {
  domain: string;
  account: AcmeAccount;
  /** Makes every web process answer a challenge. */
  publish(challenge: { token: string; answer: string }): Promise<void>;
  /** Ends the wait for the authority, as when this process stops. */
  signal?: AbortSignal | undefined;
};

/** A certificate with those above it, and its private key, PEM. */
export type Issued = {
  accountUrl: string;
  chainPem: string;
  keyPem: string;
  issuer: string;
  notBefore: Date;
  notAfter: Date;
};

/** A failure that is told to the domain's owner in these words. */
export class AcmeFailure extends Error {}

/** Speaks to the certificate authority of this server. */
export type Acme = {
  directoryUrl: string;
  newAccountKey(): Promise<string>;
  /** Orders a certificate, within minutes. Not to be called in a transaction. @throws AcmeFailure */
  issue(request: IssueRequest): Promise<Issued>;
};

type AccountParts = {
  transact: Transact;
  acme: Acme;
  secretBox: SecretBox;
  log: Record<"error", (fields: object, message: string) => void>;
};

/** Names the row in which an account's key is sealed. */
export const accountContext = ({ directoryUrl }: Pick<Acme, "directoryUrl">): string =>
  `acme_account:${directoryUrl}`;

type AccountRow = { sealed_key: string; account_url: string | null };

/**
 * Returns the account of this server, of which there is one however many processes begin; another one takes
 * the place of one whose key cannot be opened.
 */
export const accountOf = async ({ transact, acme, secretBox, log }: AccountParts): Promise<AcmeAccount> => {
  const { directoryUrl } = acme;
  const context = accountContext(acme);
  const find = () =>
    transact(async ({ db }) => {
      const { rows } = await sql<AccountRow>`
        select sealed_key, account_url from acme_accounts where directory_url = ${directoryUrl}`.execute(db);
      return rows[0];
    });
  const opened = ({ sealed_key: sealed, account_url: url }: AccountRow): AcmeAccount => ({
    keyPem: secretBox.open(sealed, context),
    url: url ?? undefined,
  });
  const known = await find();
  try {
    if (known) return opened(known);
  } catch (err) {
    log.error({ err }, "the account's key cannot be opened; another account takes its place");
  }
  const another = secretBox.seal(await acme.newAccountKey(), context);
  await transact(({ db, serverNow }) =>
    sql`
      insert into acme_accounts (directory_url, sealed_key, created_at)
      values (${directoryUrl}, ${another}, ${serverNow.toISOString()}::timestamptz)
      on conflict (directory_url) do update set sealed_key = excluded.sealed_key, account_url = null
      where acme_accounts.sealed_key = ${known?.sealed_key ?? null}::text`.execute(db),
  );
  return opened((await find())!);
};

type OrderParts = {
  transact: Transact;
  acme: Acme;
  secretBox: SecretBox;
  dns: DnsRecords;
  /** What CAA records call the authority; none: they are not looked at. */
  caaNames: readonly string[];
  log: Record<"warn" | "error", (fields: object, message: string) => void>;
  /** Ends orders in progress, which are due at once then, and begins no others. */
  signal?: AbortSignal;
};

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** An order that is not over after this time, in ms, has died with its process; none takes half as long. */
const LEASE_MS = 5 * MINUTE_MS;
/** Orders of one worker at a time. */
const TOGETHER = 3;
/** How long an order is waited with after the first, second, ... that failed. */
const BACK_OFF_MS = [1, 5, 15, 60, 360].map((minutes) => minutes * MINUTE_MS);
/** How long an order is waited with that CAA records forbid: nobody but DNS servers is asked meanwhile. */
const FORBIDDEN_MS = 15 * MINUTE_MS;
/** How long orders are counted. */
const ORDER_KEPT_MS = 7 * DAY_MS;
/** A certificate is renewed when this part of its lifetime is left, and up to that much earlier. */
const RENEWED_AT = 1 / 3;
const JITTER = 1 / 30;

/** Orders in a time: of a name, of a tenant, and of all. Authorities refuse more, for hours and days. */
export const ORDERS_PER_NAME = 5;
export const ORDERS_PER_TENANT = 50;
export const ORDERS_OF_ALL = 250;
/** First certificates leave room for renewals. */
export const FIRST_ORDERS_OF_ALL = 150;
const NAME_MS = HOUR_MS;
const TENANT_MS = DAY_MS;
const ALL_MS = 3 * HOUR_MS;

/** Whether some certificate waits to be ordered. */
export const isOrderDue = (at: Date) => sql`exists (
  select from custom_domains where next_order_at <= ${at.toISOString()}::timestamptz
    and (lease_until is null or lease_until <= ${at.toISOString()}::timestamptz))`;

type Claim = { id: string; tenantId: string; domain: string; lease: string };

type Candidate = Omit<Claim, "lease"> & { isRenewal: boolean };

const ago = ({ serverNow }: Work, ms: number) => sql`${ahead(serverNow, -ms)}::timestamptz`;
const ahead = (at: Date, ms: number): string => new Date(at.getTime() + ms).toISOString();

type Counts = { name: number; tenant: number; all: number };

/** Whether an order more would be more than the authority, or this server, allows. */
const isTooMany = async (work: Work, { domain, tenantId, isRenewal }: Candidate): Promise<boolean> => {
  const { rows } = await sql<Counts>`
    select count(*) filter (where domain = ${domain} and ordered_at > ${ago(work, NAME_MS)}) as name,
      count(*) filter (where tenant_id = ${tenantId}::uuid) as tenant,
      count(*) filter (where ordered_at > ${ago(work, ALL_MS)}) as all
    from acme_orders where ordered_at > ${ago(work, TENANT_MS)}`.execute(work.db);
  const counts = rows[0]!;
  return (
    counts.name >= ORDERS_PER_NAME ||
    counts.tenant >= ORDERS_PER_TENANT ||
    counts.all >= (isRenewal ? ORDERS_OF_ALL : FIRST_ORDERS_OF_ALL)
  );
};

/** Takes one order; nobody else does while the lease lasts. Undefined: none is due. */
const claimOne = async (work: Work): Promise<Claim | "TOO_MANY" | undefined> => {
  const { db, serverNow: now } = work;
  const at = now.toISOString();
  const { rows } = await sql<Candidate>`
    select id, tenant_id as "tenantId", domain,
      exists (select from custom_domain_certificates c where c.domain_id = d.id) as "isRenewal"
    from custom_domains d
    where next_order_at <= ${at}::timestamptz and status in ('VERIFIED', 'ACTIVE')
      and (lease_until is null or lease_until <= ${at}::timestamptz)
    order by next_order_at limit 1 for update skip locked`.execute(db);
  const [found] = rows;
  if (!found) return undefined;
  if (await isTooMany(work, found)) {
    await sql`
      update custom_domains set ssl_error = 'too many certificates were ordered; it is tried again later',
        next_order_at = ${ahead(now, HOUR_MS / 2)}::timestamptz
      where id = ${found.id}::uuid`.execute(db);
    return "TOO_MANY";
  }
  const lease = newId();
  await sql`
    update custom_domains set lease = ${lease}::uuid, lease_until = ${ahead(now, LEASE_MS)}::timestamptz,
      ssl_status = ${found.isRenewal ? "RENEWING" : "PROVISIONING"}, updated_at = ${at}::timestamptz
    where id = ${found.id}::uuid`.execute(db);
  await sql`
    insert into acme_orders (id, tenant_id, domain, ordered_at, expires_at)
    values (${lease}::uuid, ${found.tenantId}::uuid, ${found.domain}, ${at}::timestamptz,
      ${ahead(now, ORDER_KEPT_MS)}::timestamptz)`.execute(db);
  return { ...found, lease };
};

/** Domains whose records are missing rest; they would be found due for ever. */
const restDegraded = async ({ db, serverNow }: Work): Promise<void> => {
  await sql`
    update custom_domains set next_order_at = null
    where next_order_at <= ${serverNow.toISOString()}::timestamptz
      and status not in ('VERIFIED', 'ACTIVE')`.execute(db);
};

/** Orders all certificates that are due. May run in any number of processes: each order is one's alone. */
export const orderDueCertificates = async (parts: OrderParts): Promise<void> => {
  await parts.transact(restDegraded);
  const orderAll = async (): Promise<void> => {
    while (!parts.signal?.aborted) {
      const claim = await parts.transact(claimOne);
      if (claim === undefined) return;
      if (claim !== "TOO_MANY") await orderOne(parts, claim);
    }
  };
  await Promise.all(Array.from({ length: TOGETHER }, orderAll));
};

/** Names the row in which a certificate's key is sealed. */
export const keyContext = (domainId: string): string => `custom_domain_key:${domainId}`;

const orderOne = async (parts: OrderParts, claim: Claim): Promise<void> => {
  const { transact, acme, log, signal } = parts;
  let caa: CaaResult = "UNKNOWN";
  let ownFault: unknown;
  const isOwnFault = (error: unknown): never => {
    ownFault = error;
    throw error;
  };
  try {
    // An authority that may not issue counts the order all the same. Without an answer it is asked.
    const seen = await lookForCaa(parts.dns, claim.domain, parts.caaNames);
    ({ caa } = seen);
    if (caa === "REFUSED") {
      const failure = { message: seen.caaError ?? "", caa };
      return await transact((work) => storeFailure(work, claim, failure));
    }
    const account = await accountOf(parts);
    const issued = await acme.issue({
      domain: claim.domain,
      account,
      publish: (challenge) =>
        transact((work) => publishChallenge(work, claim.id, challenge)).catch(isOwnFault),
      signal,
    });
    await transact((work) => storeIssued(work, parts, claim, { ...issued, caa }));
  } catch (error) {
    if (signal?.aborted) {
      await transact((work) => release(work, claim));
      return;
    }
    const isAuthoritys = error instanceof AcmeFailure && ownFault === undefined;
    const fields = { err: ownFault ?? error, domainId: claim.id };
    log[isAuthoritys ? "warn" : "error"](fields, "a certificate could not be ordered");
    const message = isAuthoritys ? error.message : "this server could not order it";
    await transact((work) => storeFailure(work, claim, { message, caa }));
  }
};

const ERROR_MAX = 250;

/** What became of the orders before this one. Undefined: its domain is gone, or its lease another's. */
const lockOwn = async ({ db }: Work, { id, lease }: Claim) => {
  const { rows } = await sql<{ failures: number; error: string | null }>`
    select order_failures as failures, ssl_error as error from custom_domains
    where id = ${id}::uuid and lease = ${lease}::uuid for update`.execute(db);
  return rows[0];
};

/** Gives an order back that was not ended: another process goes on. */
const release = async ({ db }: Work, { id, lease }: Claim): Promise<void> => {
  await sql`
    update custom_domains set lease = null, lease_until = null
    where id = ${id}::uuid and lease = ${lease}::uuid`.execute(db);
};

/** What a look has found missing; null if that was CAA records, which another look has seen since. */
const unlessOfCaa = sql`
  case when caa = 'REFUSED' and txt = 'OK' and routing = 'OK' then null else check_error end`;

const storeIssued = async (
  work: Work,
  { acme, secretBox }: OrderParts,
  claim: Claim,
  issued: Issued & { caa: CaaResult },
): Promise<void> => {
  const { db, serverNow } = work;
  const at = serverNow.toISOString();
  await sql`
    update acme_accounts set account_url = ${issued.accountUrl}
    where directory_url = ${acme.directoryUrl} and account_url is distinct from ${issued.accountUrl}`.execute(
    db,
  );
  if (!(await lockOwn(work, claim))) return;
  const { notBefore, notAfter } = issued;
  const lifeMs = notAfter.getTime() - notBefore.getTime();
  const renewAt = ahead(notAfter, -lifeMs * (RENEWED_AT + Math.random() * JITTER));
  const sealed = secretBox.seal(issued.keyPem, keyContext(claim.id));
  await sql`
    insert into custom_domain_certificates
      (domain_id, tenant_id, chain, sealed_key, issuer, not_before, not_after, renew_at, created_at)
    values (${claim.id}::uuid, ${claim.tenantId}::uuid, ${issued.chainPem}, ${sealed}, ${issued.issuer},
      ${notBefore.toISOString()}::timestamptz, ${notAfter.toISOString()}::timestamptz,
      ${renewAt}::timestamptz, ${at}::timestamptz)
    on conflict (domain_id) do update set chain = excluded.chain, sealed_key = excluded.sealed_key,
      issuer = excluded.issuer, not_before = excluded.not_before, not_after = excluded.not_after,
      renew_at = excluded.renew_at, created_at = excluded.created_at, notice_days = null`.execute(db);
  await sql`
    update custom_domains set lease = null, lease_until = null, order_failures = 0, ssl_error = null,
      ssl_status = 'ISSUED', status = case when status = 'VERIFIED' then 'ACTIVE' else status end,
      check_error = ${unlessOfCaa}, caa = ${issued.caa},
      next_order_at = ${renewAt}::timestamptz, updated_at = ${at}::timestamptz
    where id = ${claim.id}::uuid`.execute(db);
  await sql`delete from acme_challenges where domain_id = ${claim.id}::uuid`.execute(db);
  await recordAct(work, claim, "certificate_issued", { notAfter: notAfter.toISOString() });
};

/** `caa`: REFUSED if CAA records forbid the order, so that none was made. */
type Failure = { message: string; caa: CaaResult };

const storeFailure = async (work: Work, claim: Claim, { message, caa }: Failure): Promise<void> => {
  const before = await lockOwn(work, claim);
  if (!before) return;
  const { failures } = before;
  const isForbidden = caa === "REFUSED";
  const { db, serverNow } = work;
  const backOffMs = BACK_OFF_MS[Math.min(failures, BACK_OFF_MS.length - 1)]!;
  const waitMs = isForbidden ? FORBIDDEN_MS : backOffMs;
  const error = clipped(message.replaceAll(/\s+/g, " "), ERROR_MAX);
  await sql`
    update custom_domains d set lease = null, lease_until = null, ssl_error = ${error},
      order_failures = ${failures + (isForbidden ? 0 : 1)},
      check_error = ${isForbidden ? sql`check_error` : unlessOfCaa}, caa = ${caa},
      next_order_at = ${ahead(serverNow, waitMs)}::timestamptz,
      ssl_status = case when exists (select from custom_domain_certificates c where c.domain_id = d.id)
        then 'RENEWING' else 'FAILED' end,
      updated_at = ${serverNow.toISOString()}::timestamptz
    where id = ${claim.id}::uuid`.execute(db);
  await sql`delete from acme_challenges where domain_id = ${claim.id}::uuid`.execute(db);
  if (isForbidden) await sql`delete from acme_orders where id = ${claim.lease}::uuid`.execute(db);
  if (failures === 0 && before.error !== error) await recordAct(work, claim, "certificate_failed", { error });
};

/**
 * Orders a certificate anew whose key cannot be opened: nothing is served by it. Once, as a failure is tried
 * again by itself; and not within a day, as two processes without a key in common would go on and on.
 */
export const orderLost = async (work: Work, domainId: string): Promise<void> => {
  const at = work.serverNow.toISOString();
  await sql`
    update custom_domains d set next_order_at = ${at}::timestamptz
    where id = ${domainId}::uuid and ssl_status = 'ISSUED' and next_order_at > ${at}::timestamptz
      and exists (select from custom_domain_certificates c
        where c.domain_id = d.id and c.created_at < ${ago(work, DAY_MS)})`.execute(work.db);
};

/** A certificate and its private key, PEM. */
type KeyPair = { chain: string; key: string };

/** Returns what TLS is spoken with as a domain; undefined where there is nothing. */
export const readKeyPair = async (
  { db }: Work,
  secretBox: SecretBox,
  domainId: string,
): Promise<KeyPair | undefined> => {
  const { rows } = await sql<{ chain: string; sealed_key: string }>`
    select chain, sealed_key from custom_domain_certificates
    where domain_id = ${domainId}::uuid`.execute(db);
  const [row] = rows;
  return row && { chain: row.chain, key: secretBox.open(row.sealed_key, keyContext(domainId)) };
};
