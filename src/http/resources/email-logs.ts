import assert from "node:assert/strict";
import { z } from "zod";
import { ADMINS } from "../../domain/access.ts";
import { EMAIL_STATUSES } from "../../domain/email/email-log.ts";
import { listEmailLogs, showEmailLog } from "../../domain/email/logs.ts";
import { MAIL_TEMPLATES } from "../../domain/email/mail.ts";
import { pageBody, pageOf, PageQuery } from "../../domain/paging.ts";
import { Reply, route } from "../route.ts";

const TIME_MIN_MS = 0;
const TIME_MAX_MS = Date.UTC(9999, 0);
/** Within what the database can compare. */
const Time = z.iso
  .datetime({ offset: true })
  .transform((text) => new Date(text))
  .refine((time) => time.getTime() >= TIME_MIN_MS && time.getTime() < TIME_MAX_MS, {
    error: "must be a time of the years 1970 to 9998",
  });
/** How OpenAPI shows a text that is read into a Date. */
const TIME_FIELD = { type: "string", format: "date-time" } as const;

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
  order: z.enum(["asc", "desc"]).default("desc"),
  status: z.enum(EMAIL_STATUSES).optional(),
  template: z.enum(MAIL_TEMPLATES).optional(),
  to: z.string().min(1).max(254).optional().meta({ description: "The whole address" }),
  from: Time.optional().meta({ description: "Made at this time or later", override: TIME_FIELD }),
  until: Time.optional().meta({ description: "Made before this time", override: TIME_FIELD }),
});

export const emailLogRoutes = [
  route({
    method: "get",
    path: "/email-logs",
    id: "listEmailLogs",
    tag: "Email",
    summary: "List mails to your team",
    description: "Newest first: whom they went to and whether they were sent, but not what they say.",
    access: { roles: ADMINS },
    project: "none",
    query: EmailLogQuery,
    response: pageBody(EmailLogBody),
    run: (app, { caller, query }) => {
      assert(caller.kind === "user", "no scope opens this operation to keys");
      const { tenantId } = caller;
      return app.transact(async (work) => {
        const { logs, total, isEstimated } = await listEmailLogs(work, { ...query, tenantId }, query);
        const page = pageOf(logs.map(showEmailLog), total, query);
        return new Reply(200, page, isEstimated ? { "X-Total-Estimated": "true" } : {});
      });
    },
  }),
];
