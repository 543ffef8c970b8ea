import { createHash } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import { isMailAddress, isReleased } from "./address.ts";
import { oneLine } from "./templates/template.ts";
import {
  type Mail,
  mailIsOff,
  type MailMode,
  type MailRequest,
  type MailSent,
  type MailTemplate,
  type RenderedMail,
  SEND_MAX_MS,
} from "./mail.ts";
import { renderMail } from "./templates/templates.ts";
import { type DomainError, invalid } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import type { SecretBox } from "../../kernel/secret-box.ts";
import type { Work } from "../../kernel/work.ts";

const MINUTE_MS = 60_000;

/**
 * Returns the base URL of a member's link to a new password: the `linkDomain` of the tenant, while that is
 * ACTIVE, its records were there when they were last looked at, and a certificate of this server's is still
 * good; else undefined. A name that may be somebody else's by now gets no tokens, and whoever controls it
 * gets none by which a person proves an address: the link of an unverified one does.
 */
const ownLinkBase = async (
  { db, now }: Work,
  { tenantId, userId }: { tenantId: string; userId: string },
): Promise<string | undefined> => {
  const at = now.toISOString();
  const { rows } = await sql<{ domain: string }>`
    select d.domain from tenants t join custom_domains d on d.tenant_id = t.id and d.domain = t.link_domain
    where t.id = ${tenantId}::uuid and d.status = 'ACTIVE' and d.failing_since is null
      and d.txt = 'OK' and d.routing = 'OK'
      and not exists (
        select from custom_domain_certificates c
        where c.domain_id = d.id and c.not_after <= ${at}::timestamptz)
      and exists (select from users u where u.id = ${userId}::uuid and u.email_verified)`.execute(db);
  return rows[0] && `https://${rows[0].domain}`;
};

type MailParts = {
  secretBox: SecretBox;
  mode: MailMode;
  /** Base URL of links, without a trailing slash. */
  consoleUrl: string;
  /** Whether links may lead to custom domains of tenants. */
  hasDomains?: boolean;
  /** Notifies the worker of a lane, once the commit is durable. */
  wake: (lane: number) => void;
};

/** Concurrent deliveries of one process. A lane that waits for a slow server does not hold up the others. */
export const MAIL_LANES = 4;

/** The fields of a mail in the outbox; the rest is in its log. */
type MailPayload = Pick<RenderedMail, "text" | "html"> & { toName: string };
const NAME_CHARACTERS_MAX = 100;

/** Creates the outgoing mail over the tables email_logs and email_outbox. */
export const createMail = ({ secretBox, mode, consoleUrl, hasDomains, wake }: MailParts): Mail => {
  const isOff = mode === "off";
  let turn = 0;
  return {
    isOff,
    queue: async (work, request) => {
      const refusal = refusalOf(isOff, request.to);
      if (refusal) {
        if (!("token" in request.values)) return false;
        throw refusal;
      }
      const { template, values } = request;
      const tokenUrl = (hasDomains && (await tokenBase(work, request))) || consoleUrl;
      const { subject, text, html } = renderMail(template, values, { tokenUrl, consoleUrl });
      const id = newId();
      const payload: MailPayload = { toName: recipientName(request), text, html };
      const sealed = secretBox.seal(JSON.stringify(payload), id);
      const isNew = await insertMail(work, { ...request, id, subject, sealed });
      if (isNew && "token" in request.values) await supersede(work, request, id);
      if (isNew) work.afterCommit(() => wake(turn++ % MAIL_LANES));
      return isNew;
    },
  };
};

/** Returns where the link of a mail leads, if that is a custom domain. */
const tokenBase = async (
  work: Work,
  { tenantId, userId, template }: MailRequest<MailTemplate>,
): Promise<string | undefined> => {
  if (template !== "reset-password" || tenantId === null || !userId) return undefined;
  return ownLinkBase(work, { tenantId, userId });
};

const refusalOf = (isOff: boolean, to: string): DomainError | undefined => {
  if (isOff) return mailIsOff();
  return isMailAddress(to) && !isReleased(to)
    ? undefined
    : invalid("email", "is not an address to send mail to", "EMAIL_INVALID");
};

/** Only templates with a greeting have the recipient's name. */
const recipientName = ({ template, values }: MailRequest<MailTemplate>): string =>
  template !== "member-pending" && "name" in values ? oneLine(values.name, NAME_CHARACTERS_MAX) : "";

/** Returns the deduplication key of a mail; a hash, because the values may contain a token. */
const dedupeKey = ({ now }: Work, { template, to, values, tenantId }: MailRequest<MailTemplate>): string =>
  createHash("sha256")
    .update(JSON.stringify([template, tenantId, to.toLowerCase(), values, minuteOf(now)]))
    .digest("base64url");
const minuteOf = (now: Date): number => Math.floor(now.getTime() / MINUTE_MS);

type NewMail = MailRequest<MailTemplate> & { id: string; subject: string; sealed: string };

const insertMail = async (work: Work, mail: NewMail): Promise<boolean> => {
  const now = work.now.toISOString();
  const { rows } = await sql`
    with log as (
      insert into email_logs
        (id, tenant_id, user_id, "to", template, subject, status, dedupe_key, created_at)
      values (${mail.id}::uuid, ${mail.tenantId}::uuid, ${mail.userId}::uuid, ${mail.to}, ${mail.template},
        ${mail.subject}, 'QUEUED', ${dedupeKey(work, mail)}, ${now}::timestamptz)
      on conflict (dedupe_key) do nothing
      returning id, tenant_id)
    insert into email_outbox (log_id, tenant_id, payload, next_attempt_at)
    select id, tenant_id, ${mail.sealed}, ${now}::timestamptz from log
    returning log_id`.execute(work.db);
  return rows.length > 0;
};

/**
 * Deletes unsent mails whose links have been invalidated by a newer request: they would arrive after it, once
 * the mail server is available again. One that is being sent is kept.
 */
const supersede = async (
  { db }: Work,
  { template, to, tenantId }: MailRequest<MailTemplate>,
  id: string,
): Promise<void> => {
  await sql`
    with old as (
      select o.log_id from email_outbox o join email_logs l on l.id = o.log_id
      where l.template = ${template} and l."to" = ${to} and l.tenant_id is not distinct from ${tenantId}::uuid
        and o.locked_until is null and o.keep_until is null and l.id <> ${id}::uuid
      for update of o skip locked),
    gone as (delete from email_outbox o using old where o.log_id = old.log_id returning o.log_id)
    update email_logs l set status = 'SUPPRESSED', error = 'A newer mail took its place'
    from gone where l.id = gone.log_id`.execute(db);
};

/** Consequence of a failed attempt for the mail. */
export type MailFailure = {
  /**
   * retry: later, a limited number of times. operator: later, without limit, because only the operator of the
   * server can fix the cause. give-up: never. refused: never, and no other mail to this address for a while.
   */
  kind: "retry" | "operator" | "give-up" | "refused";
  /** For the log that tenants read: without details of the server's network and settings. */
  error: string;
  /** Response of the mail server. */
  smtpResponse: string | undefined;
};

/** The relevant fields of nodemailer's errors. */
type SmtpError = { code?: string; command?: string; response?: string; responseCode?: number };

const RESPONSE_CHARACTERS_MAX = 500;
/** The server requires other credentials or another connection than configured. */
const OPERATOR_CODES = new Set(["EAUTH", "ENOAUTH", "EOAUTH2", "ETLS", "EREQUIRETLS", "ECONFIG"]);
/** The mail itself is invalid; retrying is useless. */
const MAIL_CODES = new Set(["EENVELOPE", "EMESSAGE", "ESTREAM", "EFILEACCESS", "EURLACCESS"]);
/** No such mailbox, moved, invalid name. */
const NO_MAILBOX = new Set([550, 551, 553]);
/** An enhanced status of policy (RFC 3463): it is about us or the text, not about the address. */
const POLICY = /^\d{3}[ -]5\.7\./;
/** Servers quote what they refuse; tokens must not get into the log that way. */
const TOKEN = /token=[^\s"'<>&]+/gi;

/** Returns the logged part of a mail server's response: truncated and without tokens. */
const keptResponse = (response: string): string =>
  response.replace(TOKEN, "token=…").slice(0, RESPONSE_CHARACTERS_MAX);

/**
 * Classifies an error of the mailer. An address is considered invalid only when the server refused the
 * recipient.
 */
export const failureOf = (error: unknown): MailFailure => {
  const said = (error ?? {}) as SmtpError;
  const smtpResponse = said.response === undefined ? undefined : keptResponse(said.response);
  if (said.code !== undefined && OPERATOR_CODES.has(said.code))
    return { kind: "operator", error: "This server may not send at the moment", smtpResponse };
  const judged =
    said.responseCode === undefined ? withoutResponse(said) : byResponse(said, said.responseCode);
  return { ...judged, smtpResponse };
};

type Judged = Pick<MailFailure, "kind" | "error">;

const withoutResponse = ({ code }: SmtpError): Judged =>
  code !== undefined && MAIL_CODES.has(code)
    ? { kind: "give-up", error: "The mail cannot be sent" }
    : { kind: "retry", error: "The mail server cannot be reached" };

const byResponse = ({ command, response = "" }: SmtpError, status: number): Judged => {
  // 503 is about the order of commands on the connection, not about the mail.
  if (status < 500 || status === 503)
    return { kind: "retry", error: `The mail server asks to retry later (${status})` };
  const isAddress = NO_MAILBOX.has(status) && command === "RCPT TO" && !POLICY.test(response);
  return isAddress
    ? { kind: "refused", error: `The address does not accept mail (${status})` }
    : { kind: "give-up", error: `The mail was refused (${status})` };
};

/** Longer than an attempt may take, so that a mail is only taken over from a dead worker. */
export const LEASE_MS = SEND_MAX_MS + 30_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** Delays after the first refusal, the second and so on; after the last one a mail has failed. */
const RETRY_MS = [MINUTE_MS, 5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS, 6 * HOUR_MS] as const;
/** Delay while the operator must fix something, however long: the mails should be sent soon after that. */
const OPERATOR_RETRY_MS = 5 * MINUTE_MS;
/** How long a failed mail can be sent again. */
const KEPT_MS = 7 * DAY_MS;
const SUPPRESSED_MS = 30 * DAY_MS;

/** A mail that only this process may send until `lockedUntil`. */
export type ClaimedMail = {
  id: string;
  to: string;
  subject: string;
  sealed: string;
  attempts: number;
  /** How often the mail server has asked to come back. */
  refusals: number;
  lockedUntil: Date;
};
type Claim = { kind: "none" } | { kind: "suppressed" } | { kind: "mail"; mail: ClaimedMail };

type Row = Omit<ClaimedMail, "lockedUntil"> & { isSuppressed: boolean };

const later = (from: Date, ms: number): Date => new Date(from.getTime() + ms);

const dueMails = (at: Date): RawBuilder<unknown> => sql`
  from email_outbox where keep_until is null and next_attempt_at <= ${at.toISOString()}::timestamptz
    and (locked_until is null or locked_until <= ${at.toISOString()}::timestamptz)`;

/** Whether a mail is to be sent. */
export const isMailDue = (at: Date): RawBuilder<unknown> => sql`exists (select ${dueMails(at)})`;

/** Claims the mail that has been due longest, for LEASE_MS. Mail to a suppressed address ends here. */
export const claimMail = async ({ db, now }: Work): Promise<Claim> => {
  const [at, lockedUntil] = [now.toISOString(), later(now, LEASE_MS)];
  const { rows } = await sql<Row>`
    with due as (
      select log_id ${dueMails(now)}
      order by next_attempt_at limit 1
      for update skip locked),
    taken as (
      update email_outbox o set locked_until = ${lockedUntil.toISOString()}::timestamptz
      from due where o.log_id = due.log_id
      returning o.log_id, o.payload, o.refusals)
    update email_logs l set status = 'SENDING', attempts = l.attempts + 1
    from taken where l.id = taken.log_id
    returning l.id, l."to", l.subject, l.attempts, taken.refusals, taken.payload as sealed,
      exists (select from email_suppressions s
        where s.email = lower(l."to") and s.expires_at > ${at}::timestamptz) as "isSuppressed"`.execute(db);
  const [row] = rows;
  if (!row) return { kind: "none" };
  const { isSuppressed, ...mail } = row;
  if (!isSuppressed) return { kind: "mail", mail: { ...mail, lockedUntil } };
  await suppress(db, row.id);
  return { kind: "suppressed" };
};

const suppress = async (db: Work["db"], id: string): Promise<void> => {
  await sql`
    with gone as (delete from email_outbox where log_id = ${id}::uuid)
    update email_logs set status = 'SUPPRESSED', attempts = attempts - 1,
      error = 'The address has refused mail lately'
    where id = ${id}::uuid`.execute(db);
};

/** Decrypts a mail. @throws Error when it was sealed under a key that the server no longer has */
export const openMail = (secretBox: SecretBox, { id, to, subject, sealed }: ClaimedMail): RenderedMail => {
  const { toName, text, html } = JSON.parse(secretBox.open(sealed, id)) as MailPayload;
  return { id, to: { name: toName, address: to }, subject, text, html };
};

/** Completes a mail that the mail server has accepted, even if another worker has claimed it meanwhile. */
export const noteSent = async ({ db, now }: Work, { id }: ClaimedMail, sent: MailSent): Promise<void> => {
  await sql`
    with gone as (delete from email_outbox where log_id = ${id}::uuid)
    update email_logs set status = 'SENT', sent_at = ${now.toISOString()}::timestamptz, error = null,
      provider_message_id = ${sent.messageId}, smtp_response = ${keptResponse(sent.response)}
    where id = ${id}::uuid`.execute(db);
};

/**
 * Records a failed attempt: the mail waits for the next one, or has failed. Its text is then kept for 7 days
 * (resendEmail). A mail that another worker has claimed meanwhile is left unchanged.
 */
export const noteFailure = async (
  work: Work,
  mail: ClaimedMail,
  failure: MailFailure,
): Promise<"QUEUED" | "FAILED" | "lost"> => {
  const { db, now } = work;
  const waitMs = waitOf(failure, mail.refusals);
  const [nextAttemptAt, keepUntil] =
    waitMs === undefined ? [now, later(now, KEPT_MS).toISOString()] : [later(now, waitMs), null];
  const status = waitMs === undefined ? "FAILED" : "QUEUED";
  const { rows } = await sql`
    with held as (
      update email_outbox set locked_until = null, keep_until = ${keepUntil}::timestamptz,
        next_attempt_at = ${nextAttemptAt.toISOString()}::timestamptz,
        refusals = refusals + ${failure.kind === "retry" ? 1 : 0}
      where log_id = ${mail.id}::uuid and locked_until = ${mail.lockedUntil.toISOString()}::timestamptz
      returning log_id)
    update email_logs l set status = ${status}, error = ${failure.error},
      smtp_response = ${failure.smtpResponse ?? null}
    from held where l.id = held.log_id
    returning l.id`.execute(db);
  if (rows.length === 0) return "lost";
  if (failure.kind === "refused") await suppressAddress(work, mail.to, failure.error);
  return status;
};

/** Returns the delay before the next attempt; undefined when there is none. */
const waitOf = ({ kind }: MailFailure, refusals: number): number | undefined => {
  if (kind === "retry") return RETRY_MS[refusals];
  return kind === "operator" ? OPERATOR_RETRY_MS : undefined;
};

const suppressAddress = async ({ db, now }: Work, email: string, reason: string): Promise<void> => {
  const expiresAt = later(now, SUPPRESSED_MS).toISOString();
  await sql`
    insert into email_suppressions (email, reason, expires_at, created_at)
    values (${email.toLowerCase()}, ${reason}, ${expiresAt}::timestamptz, ${now.toISOString()}::timestamptz)
    on conflict (email) do update set reason = excluded.reason, expires_at = excluded.expires_at`.execute(db);
};
