import { z } from "zod";
import { ADMINS, userOf } from "../../domain/kernel/caller.ts";
import { EMAIL_MAX } from "../../domain/accounts/email/address.ts";
import {
  EMAIL_STATUSES,
  listEmailLogs,
  resendEmail,
  showEmailLog,
  showEmailLogInFull,
} from "../../domain/accounts/email/mail.ts";
import { MAIL_TEMPLATES } from "../../domain/accounts/email/templates/templates.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import { group } from "../route.ts";
import { audit } from "../../domain/accounts/audit/audit.ts";
import { Order, pageReply, Span } from "./bodies.ts";
import { byPeople } from "./superadmin.ts";

const EmailLogBody = z
  .object({
    id: z.uuid(),
    to: z.string().meta({ example: "ada@example.com" }),
    template: z.enum(MAIL_TEMPLATES),
    subject: z.string(),
    status: z.enum(EMAIL_STATUSES).meta({
      description:
        "QUEUED waits for its first or another try. SUPPRESSED was not sent: the address has refused mail " +
        "within 30 days, or a newer mail took its place",
    }),
    attempts: z.int(),
    error: z.string().optional().meta({ description: "Why the last try failed" }),
    createdAt: z.iso.datetime(),
    sentAt: z.iso.datetime().optional().meta({ description: "When the mail server took it" }),
    userId: z.uuid().optional().meta({ description: "Whom it is about" }),
  })
  .meta({ id: "EmailLog" });

/** The filters of a list of mails, for tenants and super-admins. */
const EmailLogQuery = PageQuery.extend({
  sort: z.enum(["createdAt"]).default("createdAt"),
  order: Order,
  status: z.enum(EMAIL_STATUSES).optional(),
  template: z.enum(MAIL_TEMPLATES).optional(),
  email: z.string().min(1).max(EMAIL_MAX).optional().meta({ description: "Whole address that it goes to" }),
  ...Span.shape,
});

const byAdmins = group({ tag: "Email", project: "none", access: { roles: ADMINS } });

export const emailLogRoutes = [
  byAdmins.get("/email-logs", "listEmailLogs", {
    summary: "List mails to your team",
    description: "Newest first: recipients and status, without the content.",
    query: EmailLogQuery,
    response: pageBody(EmailLogBody),
    run: async (work, { caller, query }) => {
      const { tenantId } = userOf(caller);
      return pageReply(await listEmailLogs(work, { ...query, tenantId }, query), "rows", query, showEmailLog);
    },
  }),
];

const FullEmailLogBody = EmailLogBody.extend({
  tenantId: z.uuid().optional().meta({ description: "Absent for mail of the platform itself" }),
  providerMessageId: z.string().optional(),
  smtpResponse: z.string().optional().meta({ description: "The mail server's last response" }),
}).meta({ id: "PlatformEmailLog" });

export const superadminEmailRoutes = [
  byPeople.get("/superadmin/email-logs", "listPlatformEmailLogs", {
    summary: "List the mails of the platform",
    description: "Newest first: recipients and status, without the content.",
    query: EmailLogQuery.extend({ tenantId: z.uuid().optional() }),
    response: pageBody(FullEmailLogBody),
    run: async (work, { query }) =>
      pageReply(await listEmailLogs(work, query, query), "rows", query, showEmailLogInFull),
  }),
  byPeople.post("/superadmin/email-logs/{emailLogId}/resend", "resendEmail", {
    summary: "Send a mail again",
    description:
      "One that has failed within the last 7 days, or waits for another try: at once, also to an address " +
      "that has refused mail.",
    response: FullEmailLogBody,
    run: async (work, { params }, app) => {
      const log = await resendEmail(work, params.emailLogId);
      const { id, tenantId, template, to } = log;
      await audit(work, {
        action: "email.resent",
        target: { type: "email", id },
        tenantId: tenantId ?? null,
        data: { template, to },
      });
      work.afterCommit(() => app.queue.wake("send-mail", "*"));
      return showEmailLogInFull(log);
    },
  }),
];
