import { UniqueConstraintViolationException } from "@mikro-orm/core";
import { type Passwords, refuseWeakPassword } from "../auth/passwords.ts";
import { forgetSessions, type LoggedIn, startSessionOn } from "../auth/sessions.ts";
import type { Tokens } from "../auth/tokens.ts";
import { User } from "../auth/user.ts";
import type { Mail } from "../email/mail.ts";
import { isUnproved, releaseUnproved } from "../sso/unproved.ts";
import { conflict } from "../../kernel/errors.ts";
import { addUser } from "../tenants/open-tenant.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { consumeInvitation, findInvitation } from "./accept.ts";

export type JoinParts = { transact: Transact; tokens: Tokens; passwords: Passwords; mail: Mail };
export type Joining = { token: string; name: string; password: string; deviceToken: string };

/** Returns the details of an invitation for its link. @throws as `findInvitation` */
export const readInvitation = async (work: Work, token: string) => {
  const { invitation, tenant } = await findInvitation(work, token);
  const { email, role } = invitation;
  return { email, tenantName: tenant.name, role };
};

/**
 * Creates the account that an invitation is for, and signs it in. The token proves the address. A waiting
 * account registered under it without that proof is replaced; one of another tenant gives the address up, if
 * this one has proved the domain.
 *
 * @throws as `findInvitation`, CONFLICT EMAIL_ALREADY_EXISTS for an address that has an account,
 * VALIDATION_ERROR PASSWORD_TOO_WEAK
 */
export const joinByInvitation = async (
  { transact, tokens, passwords, mail }: JoinParts,
  { token, name, password, deviceToken }: Joining,
): Promise<LoggedIn> => {
  const { email, tenantId } = await transact(async (work) => {
    const { invitation } = await findInvitation(work, token);
    if (!(await isUnproved(work, mail, invitation))) await requireFree(work, invitation);
    return invitation;
  });
  refuseWeakPassword(password, { email, name });
  const passwordHash = await passwords.hash(password);
  return transact(async (work) => {
    const { role } = await consumeInvitation(work, token, email);
    await releaseUnproved(work, mail, { email, tenantId });
    await requireFree(work, { email, tenantId });
    const removed = await work.em.nativeDelete(User, { email, tenantId, status: "PENDING" });
    if (removed > 0) work.afterCommit(forgetSessions);
    const account = { email, name, passwordHash, emailVerified: true };
    const user = await addUser(work, tenantId, { ...account, role, status: "ACTIVE" });
    return startSessionOn(work, tokens, user, { method: "INVITATION", deviceToken });
  }).catch((error: unknown) => {
    throw error instanceof UniqueConstraintViolationException ? taken() : error;
  });
};

/**
 * @throws CONFLICT EMAIL_ALREADY_EXISTS unless the address is free, or of a user who waits for this tenant
 */
const requireFree = async (
  { em }: Work,
  { email, tenantId }: { email: string; tenantId: string },
): Promise<void> => {
  const user = await em.findOne(User, { email });
  if (user && !(user.tenantId === tenantId && user.status === "PENDING")) throw taken();
};

const taken = () =>
  conflict(
    "EMAIL_ALREADY_EXISTS",
    "An account with this email address exists already; an account belongs to one tenant",
  );
