import { User } from "../auth/user.ts";
import type { Mail, MailTemplate, MailValues } from "../email/mail.ts";
import type { Work } from "../../kernel/work.ts";

const membersWithRole = ({ em }: Work, tenantId: string, roles: readonly User["role"][]): Promise<User[]> =>
  em.find(
    User,
    { tenantId, role: { $in: [...roles] }, status: "ACTIVE", disabledAt: null },
    { orderBy: { id: "asc" } },
  );

/** Returns the OWNERs who can act for a tenant. */
export const ownersOf = (work: Work, tenantId: string): Promise<User[]> =>
  membersWithRole(work, tenantId, ["OWNER"]);

type Notice<T extends MailTemplate> = { template: T; values: MailValues[T] };

const notify =
  (...roles: ("OWNER" | "ADMIN")[]) =>
  async <T extends MailTemplate>(
    mail: Mail,
    work: Work,
    tenantId: string,
    { template, values }: Notice<T>,
  ): Promise<void> => {
    for (const { id: userId, email: to } of await membersWithRole(work, tenantId, roles))
      await mail.queue(work, { template, to, values, tenantId, userId });
  };

/** Mails all OWNERs of a tenant, if mail is sent at all: such a mail is a notice and never fails an operation. */
export const notifyOwners = notify("OWNER");
/** As `notifyOwners`, including all ADMINs. */
export const notifyAdmins = notify("OWNER", "ADMIN");
