import { User } from "../auth/user.ts";
import type { Mail, MailTemplate, MailValues } from "../email/mail.ts";
import type { Work } from "../work.ts";

/** The OWNERs who can act for a tenant. */
export const ownersOf = ({ em }: Work, tenantId: string): Promise<User[]> =>
  em.find(User, { tenantId, role: "OWNER", status: "ACTIVE", disabledAt: null }, { orderBy: { id: "asc" } });

/** Mails every OWNER of a tenant, where mail is sent at all: such a mail is a notice and fails nothing. */
export const tellOwners = async <T extends MailTemplate>(
  mail: Mail,
  work: Work,
  tenantId: string,
  { template, values }: { template: T; values: MailValues[T] },
): Promise<void> => {
  for (const { id: userId, email: to } of await ownersOf(work, tenantId)) {
    await mail.queue(work, { template, to, values, tenantId, userId });
  }
};
