import { type RawBuilder, sql } from "kysely";
import type { SecretBox } from "../../kernel/secret-box.ts";
import type { Work } from "../../kernel/work.ts";
import { type MailSent, type RenderedMail, SEND_MAX_MS } from "./mailer.ts";
import { keptResponse, type MailFailure } from "./outcome.ts";
import type { MailPayload } from "./outbox.ts";

/** Longer than an attempt may take, so that a mail is only taken over from a dead worker. */
export const LEASE_MS = SEND_MAX_MS + 30_000;

const MINUTE_MS = 60_000;
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
export type Claim = { kind: "none" } | { kind: "suppressed" } | { kind: "mail"; mail: ClaimedMail };

type Row = {
  id: string;
  to: string;
  subject: string;
  payload: string;
  attempts: number;
  refusals: number;
  is_suppressed: boolean;
};

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
    returning l.id, l."to", l.subject, l.attempts, taken.refusals, taken.payload,
      exists (select from email_suppressions s
        where s.email = lower(l."to") and s.expires_at > ${at}::timestamptz) as is_suppressed`.execute(db);
  const [row] = rows;
  if (!row) return { kind: "none" };
  if (row.is_suppressed) {
    await suppress(db, row.id);
    return { kind: "suppressed" };
  }
  const { id, to, subject, payload: sealed, attempts, refusals } = row;
  return { kind: "mail", mail: { id, to, subject, sealed, attempts, refusals, lockedUntil } };
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
