import { defineEntity, p } from "@mikro-orm/core";
import type { MailTemplate } from "./mail.ts";

export const EMAIL_STATUSES = ["QUEUED", "SENDING", "SENT", "FAILED", "SUPPRESSED"] as const;
export type EmailStatus = (typeof EMAIL_STATUSES)[number];

export const EmailLogSchema = defineEntity({
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
