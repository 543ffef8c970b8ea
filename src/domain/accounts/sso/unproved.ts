import { LockMode } from "@mikro-orm/core";
import { audit } from "../audit/audit.ts";
import { forgetSessions } from "../auth/sessions.ts";
import { User } from "../auth/user.ts";
import { endUserTokens } from "../auth/user-tokens.ts";
import { releasedAddress } from "../email/address.ts";
import type { Mail } from "../email/mail.ts";
import type { Work } from "../../kernel/work.ts";
import { domainOf } from "./domain-name.ts";
import { isVerified } from "./domains.ts";

/** An email address, for a person of this tenant. */
export type Wanted = { tenantId: string; email: string };

/**
 * Returns whether an account of another tenant has the address of a domain that this tenant has proved, and
 * nobody has ever proved that the address is the account's: anybody can register under any address. Where no
 * mail is sent nobody could have proved it, so there it says nothing.
 */
export const isUnproved = async (work: Work, mail: Mail, wanted: Wanted): Promise<boolean> =>
  (await findUnproved(work, mail, wanted)) !== null;

const findUnproved = async (
  work: Work,
  mail: Mail,
  { tenantId, email }: Wanted,
  isLocked = false,
): Promise<User | null> => {
  if (mail.isOff || !(await isVerified(work, tenantId, domainOf(email)))) return null;
  const lock = isLocked ? { lockMode: LockMode.PESSIMISTIC_WRITE, refresh: true } : { refresh: true };
  return work.em.findOne(User, { email, emailVerified: false, tenantId: { $ne: tenantId } }, lock);
};

/**
 * Has such an account give the address up, so that no stranger keeps a person out of the tenant that owns
 * their domain. It stays its own tenant's with all that it has: sessions and password go on under another
 * address, to which no mail is sent. Links that were mailed to the address end. Whoever reads its mail is
 * told, and so is the audit log of the account's tenant, which learns nothing of the other one. To be called
 * where all tenants are seen, in the commit that gives the address to somebody if possible.
 * @returns whether the address was such an account's
 */
export const releaseUnproved = async (work: Work, mail: Mail, wanted: Wanted): Promise<boolean> => {
  const user = await findUnproved(work, mail, wanted, true);
  if (!user) return false;
  const { id: userId, tenantId, email: oldEmail } = user;
  const newEmail = releasedAddress();
  Object.assign(user, { email: newEmail, updatedAt: work.now });
  await work.em.flush();
  await endUserTokens(work, userId, ["VERIFY_EMAIL", "RESET_PASSWORD"]);
  work.afterCommit(forgetSessions);
  const values = { loginName: newEmail };
  await mail.queue(work, { template: "email-released", to: oldEmail, values, tenantId, userId });
  await audit(
    { ...work, by: undefined },
    {
      action: "user.email_released",
      target: { type: "user", id: userId },
      tenantId,
      data: { oldEmail, newEmail },
    },
  );
  return true;
};
