import { User } from "../auth/user.ts";
import { type Mail, type MailTemplate, mailUser, type Notice } from "../email/mail.ts";
import type { Work } from "../../kernel/work.ts";

const membersWithRole = (
  { em }: Work,
  tenantId: string,
  roles: readonly User["role"][],
  limit?: number,
): Promise<User[]> =>
  em.find(
    User,
    { tenantId, role: { $in: [...roles] }, status: "ACTIVE", disabledAt: null },
    { orderBy: { id: "asc" }, ...(limit === undefined ? {} : { limit }) },
  );

/** Returns the OWNERs who can act for a tenant. */
export const ownersOf = (work: Work, tenantId: string): Promise<User[]> =>
  membersWithRole(work, tenantId, ["OWNER"]);

const notify =
  (...roles: ("OWNER" | "ADMIN")[]) =>
  async <T extends MailTemplate>(
    mail: Mail,
    work: Work,
    tenantId: string,
    { limit, ...notice }: Notice<T> & { limit?: number },
  ): Promise<void> => {
    for (const member of await membersWithRole(work, tenantId, roles, limit))
      await mailUser(work, mail, member, notice);
  };

/**
 * Mails all OWNERs of a tenant, or the first `limit`, if mail is sent at all: such a mail is a notice and never
 * fails an operation.
 */
export const notifyOwners = notify("OWNER");
/** As `notifyOwners`, including all ADMINs. */
export const notifyAdmins = notify("OWNER", "ADMIN");
