import { User } from "../auth/user.ts";
import type { Mail, MailTemplate, MailValues } from "../email/mail.ts";
import type { Work } from "../work.ts";

/** Mails every OWNER of a tenant, where mail is sent at all: such a mail is a notice and fails nothing. */
export const tellOwners = async <T extends MailTemplate>(
  mail: Mail,
  work: Work,
  tenantId: string,
  { template, values }: { template: T; values: MailValues[T] },
): Promise<void> => {
  const owners = await work.em.find(
    User,
    { tenantId, role: "OWNER", status: "ACTIVE", disabledAt: null },
    { orderBy: { id: "asc" } },
  );
  for (const { id: userId, email: to } of owners) {
    await mail.queue(work, { template, to, values, tenantId, userId });
  }
};
