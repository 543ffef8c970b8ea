import { z } from "zod";
import { ADMINS, userOf } from "../../domain/kernel/caller.ts";
import { EMAIL_MAX } from "../../domain/accounts/email/address.ts";
import {
  EMAIL_STATUSES,
  listEmailLogs,
  MAIL_TEMPLATES,
  showEmailLog,
} from "../../domain/accounts/email/mail.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import { group } from "../route.ts";
import { Order, pageReply, Span } from "./list-bodies.ts";

export const EmailLogBody = z
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
export const EmailLogQuery = PageQuery.extend({
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
      const { logs, ...total } = await listEmailLogs(work, { ...query, tenantId }, query);
      return pageReply(logs.map(showEmailLog), total, query);
    },
  }),
];
