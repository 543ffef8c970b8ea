import { z } from "zod";
import { audit } from "../../domain/accounts/audit/audit.ts";
import { listEmailLogs, resendEmail, showEmailLogInFull } from "../../domain/accounts/email/mail.ts";
import { pageBody } from "../../domain/kernel/paging.ts";

import { EmailLogBody, EmailLogQuery } from "./email-logs.ts";
import { pageReply } from "./list-bodies.ts";
import { PEOPLE, superadmin } from "./superadmin-bodies.ts";

const FullEmailLogBody = EmailLogBody.extend({
  tenantId: z.uuid().optional().meta({ description: "Absent for mail of the platform itself" }),
  providerMessageId: z.string().optional(),
  smtpResponse: z.string().optional().meta({ description: "The mail server's last response" }),
}).meta({ id: "PlatformEmailLog" });

export const superadminEmailRoutes = [
  superadmin.get("/superadmin/email-logs", "listPlatformEmailLogs", {
    summary: "List the mails of the platform",
    description: "Newest first: recipients and status, without the content.",
    access: PEOPLE,
    query: EmailLogQuery.extend({ tenantId: z.uuid().optional() }),
    response: pageBody(FullEmailLogBody),
    run: async (work, { query }) => {
      const { logs, ...total } = await listEmailLogs(work, query, query);
      return pageReply(logs.map(showEmailLogInFull), total, query);
    },
  }),
  superadmin.post("/superadmin/email-logs/{emailLogId}/resend", "resendEmail", {
    summary: "Send a mail again",
    description:
      "One that has failed within the last 7 days, or waits for another try: at once, also to an address " +
      "that has refused mail.",
    access: PEOPLE,
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
