import type { FilterQuery } from "@mikro-orm/core";
import { sql } from "kysely";
import { countUpTo, type Total } from "../../kernel/counting.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import type { Work } from "../../kernel/work.ts";
import { EmailLog, type EmailStatus } from "./email-log.ts";
import type { MailTemplate } from "./mail.ts";

/** What a list of mails can be narrowed to; `from` is part of the span, `to` is not. */
export type EmailLogFilter = {
  tenantId?: string | undefined;
  status?: EmailStatus | undefined;
  template?: MailTemplate | undefined;
  /** Whom they go to. */
  email?: string | undefined;
  from?: Date | undefined;
  to?: Date | undefined;
  /** By createdAt; default desc. */
  order?: "asc" | "desc" | undefined;
};

/** Mails by time. Without a `tenantId`, those of all tenants and of none. */
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
  // Addresses are kept in lower case wherever people have them.
  ...(email === undefined ? {} : { to: { $in: [email, email.toLowerCase()] } }),
  ...(from === undefined && to === undefined
    ? {}
    : { createdAt: { ...(from ? { $gte: from } : {}), ...(to ? { $lt: to } : {}) } }),
});

/** A mail as its tenant sees it. */
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

/** A mail as super-admins see it: also whose it is, and what the mail server said. */
export const showEmailLogInFull = (log: EmailLog) => ({
  ...showEmailLog(log),
  ...(log.tenantId == null ? {} : { tenantId: log.tenantId }),
  ...(log.providerMessageId == null ? {} : { providerMessageId: log.providerMessageId }),
  ...(log.smtpResponse == null ? {} : { smtpResponse: log.smtpResponse }),
});

/**
 * Sends a mail again that has FAILED within the last 7 days or waits for another try: at once, with all its
 * tries ahead of it, and whether or not its address has refused mail. For super-admins, in the accounts
 * scope; the caller audits it.
 * @throws DomainError NOT_FOUND, or CONFLICT INVALID_STATE when it is being sent or what it says is gone
 */
export const resendEmail = async (work: Work, id: string): Promise<EmailLog> => {
  const log = isId(id) ? await work.em.findOne(EmailLog, { id }) : null;
  if (!log) throw notFound("Email log");
  const at = work.now.toISOString();
  const { rows } = await sql`
    with again as (
      update email_outbox
      set next_attempt_at = ${at}::timestamptz, locked_until = null, keep_until = null
      where log_id = ${log.id}::uuid and locked_until is null
      returning log_id)
    update email_logs l set status = 'QUEUED', attempts = 0, error = null
    from again where l.id = again.log_id
    returning l.id`.execute(work.db);
  if (rows.length === 0) {
    throw conflict("INVALID_STATE", "Only a mail that waits, or has failed within 7 days, can be sent again");
  }
  await sql`delete from email_suppressions where email = ${log.to.toLowerCase()}`.execute(work.db);
  await work.em.refresh(log);
  return log;
};
