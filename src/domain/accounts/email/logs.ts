import type { FilterQuery } from "@mikro-orm/core";
import { sql } from "kysely";
import { countUpTo, type Total } from "../../kernel/counting.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import type { Work } from "../../kernel/work.ts";
import { EmailLog, type EmailStatus } from "./email-log.ts";
import type { MailTemplate } from "./mail.ts";

/** Filters of a list of mails; `from` is inclusive, `to` exclusive. */
export type EmailLogFilter = {
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
): Promise<Total & { logs: EmailLog[] }> => {
  const where = whereOf(filter);
  const { order = "desc" } = filter;
  const logs = await work.em.find(EmailLog, where, {
    orderBy: [{ createdAt: order }, { id: order }],
    limit: page.limit,
    offset: offsetOf(page),
  });
  return { logs, ...(await countUpTo(work, EmailLog, where)) };
};

const whereOf = ({ tenantId, status, template, email, from, to }: EmailLogFilter): FilterQuery<EmailLog> => ({
  ...(tenantId === undefined ? {} : { tenantId }),
  ...(status === undefined ? {} : { status }),
  ...(template === undefined ? {} : { template }),
  // Users' addresses are stored in lower case.
  ...(email === undefined ? {} : { to: { $in: [email, email.toLowerCase()] } }),
  ...(from === undefined && to === undefined
    ? {}
    : { createdAt: { ...(from ? { $gte: from } : {}), ...(to ? { $lt: to } : {}) } }),
});

/** Converts a mail to the API representation for its tenant. */
export const showEmailLog = (log: EmailLog) => ({
  id: log.id,
  to: log.to,
  template: log.template,
  subject: log.subject,
  status: log.status,
  attempts: log.attempts,
  ...(log.error == null ? {} : { error: log.error }),
  createdAt: log.createdAt.toISOString(),
  ...(log.sentAt == null ? {} : { sentAt: log.sentAt.toISOString() }),
  ...(log.userId == null ? {} : { userId: log.userId }),
});

/**
 * Converts a mail to the API representation for super-admins, with its tenant and the mail server's response.
 */
export const showEmailLogInFull = (log: EmailLog) => ({
  ...showEmailLog(log),
  ...(log.tenantId == null ? {} : { tenantId: log.tenantId }),
  ...(log.providerMessageId == null ? {} : { providerMessageId: log.providerMessageId }),
  ...(log.smtpResponse == null ? {} : { smtpResponse: log.smtpResponse }),
});

/**
 * Sends a mail again that has FAILED within the last 7 days or waits for another attempt: at once, with all
 * attempts, and even if its address is suppressed. For super-admins, in the accounts scope; the caller audits
 * it.
 * @throws DomainError NOT_FOUND, or CONFLICT INVALID_STATE when it is being sent or its text is gone
 */
export const resendEmail = async (work: Work, id: string): Promise<EmailLog> => {
  const log = isId(id) ? await work.em.findOne(EmailLog, { id }) : null;
  if (!log) throw notFound("Email log");
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
