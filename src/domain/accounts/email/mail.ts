import { defineEntity, type FilterQuery, p } from "@mikro-orm/core";
import { sql } from "kysely";
import type { ProviderId } from "../oauth/provider.ts";
import { conflict, DomainError } from "../../kernel/errors.ts";
import type { PageQuery } from "../../kernel/paging.ts";
import { findPage, getRow, type Total, type Work } from "../../kernel/work.ts";
import { definedOf, shown, shownIfSet } from "../../kernel/json.ts";

/** A mail in the form in which it is sent. */
export type RenderedMail = {
  /** The local part of the Message-ID: the id in the log. */
  id: string;
  to: { name: string; address: string };
  subject: string;
  text: string;
  html: string;
};

export type MailSent = { messageId: string; response: string };

export type Mailer = {
  /**
   * Sends a mail; settles within SEND_MAX_MS.
   * @throws errors of nodemailer, with `responseCode` or `code`
   */
  send(mail: RenderedMail): Promise<MailSent>;
  /** Completes running deliveries, up to a few seconds, and disconnects. Sends nothing afterwards. */
  close(): Promise<void>;
};

/** Maximum duration of one attempt. */
export const SEND_MAX_MS = 60_000;

/** smtp: mails are sent; log: they are printed; off: requesting one is an error. */
export const MAIL_MODES = ["smtp", "log", "off"] as const;
export type MailMode = (typeof MAIL_MODES)[number];

/** Changes of an account's second factor that its owner is told of. */
const FACTOR_CHANGES = [
  "TOTP_ENABLED",
  "TOTP_DISABLED",
  "PASSKEY_ADDED",
  "PASSKEY_REMOVED",
  "RECOVERY_CODES_REPLACED",
  "RECOVERY_CODE_USED",
  "RESET",
] as const;
export type FactorChange = (typeof FACTOR_CHANGES)[number];

type UsageValues = {
  /** Such as events. */
  what: string;
  used: string;
  limit: string;
  plan: string;
  periodEnd: string;
};

/** Values of each template; tokens become part of links, everything is escaped. */
export type MailValues = {
  "verify-email": { name: string; token: string };
  "change-email": { name: string; token: string };
  "email-changed": { name: string; newEmail: string };
  /** `loginName`: what takes the address's place at the account that has given it up. */
  "email-released": { loginName: string };
  "reset-password": { name: string; token: string };
  "password-changed": { name: string };
  "identity-linked": { name: string; provider: ProviderId | "sso" };
  "second-factor-changed": { name: string; change: FactorChange };
  invitation: { tenantName: string; inviterName: string; role: string; token: string };
  "member-pending": { tenantName: string; name: string; email: string };
  "tenant-approved": { tenantName: string };
  "tenant-rejected": { tenantName: string; reason: string };
  "tenant-suspended": { tenantName: string; reason: string };
  "tenant-unsuspended": { tenantName: string };
  "tenant-deleted": { tenantName: string; deleteAfter: string };
  "api-key-created": { name: string; keyName: string; keyPrefix: string; projectName: string };
  "sso-changed": { displayName: string; change: "UPDATED" | "ENFORCED" | "DELETED" };
  "sso-certificate-expiring": {
    displayName: string;
    fingerprint: string;
    expiresAt: string;
    /** Until when another certificate is valid; "" for none. */
    otherUntil: string;
  };
  /** `until`: when another tenant may have the domain; "" for one that has it now. */
  "sso-domain": { domain: string; until: string };
  "sso-break-glass-used": { email: string; at: string };
  "custom-domain": {
    domain: string;
    change: "DEGRADED" | "SUSPENDED" | "PLAN_LOST" | "TENANT_SUSPENDED" | "LOST";
    until: string;
  };
  /** `error`: why its renewal fails, in words of this server or of the authority. */
  "domain-certificate-expiring": { domain: string; expiresAt: string; error: string };
  "report-ready": {
    reportName: string;
    reportId: string;
    runId: string;
    /** Local dates of `timezone`. */
    from: string;
    to: string;
    timezone: string;
  };
  "report-failed": { reportName: string; reportId: string; runId: string; error: string };
  "webhook-failing": { webhookId: string; host: string; error: string };
  "webhook-disabled": { webhookId: string; host: string; reason: string };
  "usage-80": UsageValues;
  /** `refusedAbove`: "" where nothing is refused. */
  "usage-100": UsageValues & { refusedAbove: string };
  "payment-failed": { plan: string; keptUntil: string };
  /** `remarks`: what follows from it, in sentences. */
  "plan-changed": { from: string; to: string; remarks: string };
  "subscription-duplicate": { subscriptions: string };
};
export type MailTemplate = keyof MailValues;

export type MailRequest<T extends MailTemplate> = {
  template: T;
  to: string;
  values: MailValues[T];
  tenantId: string | null;
  userId: string | null;
};

/** Outgoing mail: rows of the commit that requests them, sent later by a worker. */
export type Mail = {
  /**
   * Adds a mail to the outbox; true when it will be sent. The very same mail (template, tenant, address,
   * values) twice within a minute is sent once: false for the second; mails with different tokens differ. A
   * mail with a token replaces unsent ones of its template to the same address.
   *
   * A mail without a token is a notice of what is valid without it, and never throws: where no mail is sent, or
   * the address is invalid, it returns false.
   * In a tenant's scope `tenantId` must be that tenant; in the accounts scope it may be any, or null.
   * @throws DomainError SERVICE_UNAVAILABLE EMAIL_NOT_CONFIGURED when the server sends no mail at all, and
   * VALIDATION_ERROR EMAIL_INVALID for an address that no mail is sent to; both not for notices
   */
  queue<T extends MailTemplate>(work: Work, request: MailRequest<T>): Promise<boolean>;
  /** Whether the server sends no mail at all. */
  isOff: boolean;
};

/** What a user is mailed: at their own address, unless `to` names another one. */
export type Notice<T extends MailTemplate> = Pick<MailRequest<T>, "template" | "values"> & { to?: string };

/** Mails a user of a tenant. @throws as `Mail.queue` */
export const mailUser = <T extends MailTemplate>(
  work: Work,
  mail: Mail,
  { id: userId, tenantId, email: to }: { id: string; tenantId: string; email: string },
  notice: Notice<T>,
): Promise<boolean> => mail.queue(work, { to, ...notice, tenantId, userId });

/** Builds the error for operations that are useless without mail. */
export const mailIsOff = (): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", "This server sends no mail; ask its operator", {
    reason: "EMAIL_NOT_CONFIGURED",
  });

export const EMAIL_STATUSES = ["QUEUED", "SENDING", "SENT", "FAILED", "SUPPRESSED"] as const;
type EmailStatus = (typeof EMAIL_STATUSES)[number];

const EmailLogSchema = defineEntity({
  name: "EmailLog",
  tableName: "email_logs",
  properties: {
    id: p.uuid().primary(),
    tenantId: p.uuid().nullable(),
    userId: p.uuid().nullable(),
    to: p.text(),
    template: p.text().$type<MailTemplate>(),
    subject: p.text(),
    status: p.text().$type<EmailStatus>(),
    /** Attempts since it was queued, or since a super-admin sent it again. */
    attempts: p.integer(),
    providerMessageId: p.text().nullable(),
    /**
     * The mail server's last response; for super-admins only, since it may reveal the server's own network.
     */
    smtpResponse: p.text().nullable(),
    /** Why it is not sent, in our words. */
    error: p.text().nullable(),
    createdAt: p.datetime(3),
    sentAt: p.datetime(3).nullable(),
  },
});
/** A mail without its text. */
export class EmailLog extends EmailLogSchema.class {}
EmailLogSchema.setClass(EmailLog);

/** Filters of a list of mails; `from` is inclusive, `to` exclusive. */
type EmailLogFilter = {
  tenantId?: string | undefined;
  status?: EmailStatus | undefined;
  template?: MailTemplate | undefined;
  /** The recipient. */
  email?: string | undefined;
  from?: Date | undefined;
  to?: Date | undefined;
  /** By createdAt; default desc. */
  order?: "asc" | "desc" | undefined;
};

/** Returns mails by time. Without a `tenantId`, those of all tenants and of none. */
export const listEmailLogs = async (
  work: Work,
  filter: EmailLogFilter,
  page: PageQuery,
): Promise<Total & { rows: EmailLog[] }> => {
  const { order = "desc" } = filter;
  const orderBy = [{ createdAt: order }, { id: order }];
  return findPage(work, EmailLog, whereOf(filter), { query: page, orderBy });
};

const whereOf = ({ tenantId, status, template, email, from, to }: EmailLogFilter): FilterQuery<EmailLog> => ({
  ...definedOf({ tenantId, status, template }),
  // Users' addresses are stored in lower case.
  ...(email === undefined ? {} : { to: { $in: [email, email.toLowerCase()] } }),
  ...(from || to ? { createdAt: definedOf({ $gte: from, $lt: to }) } : {}),
});

/** Converts a mail to the API representation for its tenant. */
export const showEmailLog = (log: EmailLog) => ({
  ...shown(log, ["id", "to", "template", "subject", "status", "attempts", "createdAt"]),
  ...shownIfSet(log, ["error", "sentAt", "userId"]),
});

/**
 * Converts a mail to the API representation for super-admins, with its tenant and the mail server's response.
 */
export const showEmailLogInFull = (log: EmailLog) => ({
  ...showEmailLog(log),
  ...shownIfSet(log, ["tenantId", "providerMessageId", "smtpResponse"]),
});

/**
 * Sends a mail again that has FAILED within the last 7 days or waits for another attempt: at once, with all
 * attempts, and even if its address is suppressed. For super-admins, in the accounts scope; the caller audits
 * it.
 * @throws DomainError NOT_FOUND, or CONFLICT INVALID_STATE when it is being sent or its text is gone
 */
export const resendEmail = async (work: Work, id: string): Promise<EmailLog> => {
  const log = await getRow(work, EmailLog, "Email log", { id });
  const at = work.now.toISOString();
  const { rows } = await sql`
    with again as (
      update email_outbox
      set next_attempt_at = ${at}::timestamptz, locked_until = null, keep_until = null, refusals = 0
      where log_id = ${log.id}::uuid and locked_until is null
      returning log_id)
    update email_logs l set status = 'QUEUED', attempts = 0, error = null
    from again where l.id = again.log_id
    returning l.id`.execute(work.db);
  if (rows.length === 0) {
    throw conflict(
      "INVALID_STATE",
      "Only a mail that is queued, or failed within the last 7 days, can be sent again",
    );
  }
  await sql`delete from email_suppressions where email = ${log.to.toLowerCase()}`.execute(work.db);
  await work.em.refresh(log);
  return log;
};
