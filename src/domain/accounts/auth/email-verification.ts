import { UniqueConstraintViolationException } from "@mikro-orm/core";
import { audit } from "../audit/audit.ts";
import { normaliseEmail } from "../email/address.ts";
import type { Mail } from "../email/mail.ts";
import { conflict } from "../../kernel/errors.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { isMailAllowed, type MailRequestParts, requireMail } from "./account-mail.ts";
import { forgetSessions } from "./sessions.ts";
import { User } from "./user.ts";
import {
  consumeUserToken,
  endUserTokens,
  issueUserToken,
  tokenIsGone,
  type UserToken,
  VERIFY_EMAIL_SECONDS,
} from "./user-tokens.ts";

type Addressee = Pick<User, "id" | "tenantId" | "email" | "name">;

/** Mails the link that verifies the user's address, valid 24 h; nothing on a server without mail. */
export const mailVerification = async (
  work: Work,
  { mail }: Pick<MailRequestParts, "mail">,
  { id: userId, tenantId, email, name }: Addressee,
): Promise<void> => {
  if (mail.isOff) return;
  const purpose = "VERIFY_EMAIL";
  const token = await issueUserToken(work, {
    userId,
    tenantId,
    purpose,
    email,
    seconds: VERIFY_EMAIL_SECONDS,
  });
  await mail.queue(work, {
    template: "verify-email",
    to: email,
    values: { name, token },
    tenantId,
    userId,
  });
};

/**
 * Mails the link again, at most once a minute and five times a day, then once in half an hour. The response
 * does not reveal whether the address is known, verified already or over its limit.
 *
 * @throws SERVICE_UNAVAILABLE EMAIL_NOT_CONFIGURED
 */
export const resendVerification = async (
  parts: MailRequestParts & { transact: Transact },
  address: string,
): Promise<void> => {
  requireMail(parts);
  const email = normaliseEmail(address);
  if (!(await isMailAllowed(parts.limiter, "verify-email", email))) return;
  await parts.transact(async (work) => {
    const user = await work.em.findOne(User, { email, emailVerified: false, disabledAt: null });
    if (user) await mailVerification(work, parts, user);
  });
};

/**
 * Consumes the token of a mail to a new user, or to the new address of one who changes it: the address is
 * theirs from now on, and the old one is notified.
 *
 * @throws VALIDATION_ERROR VERIFICATION_TOKEN_INVALID, GONE VERIFICATION_TOKEN_EXPIRED, CONFLICT
 * EMAIL_ALREADY_EXISTS when somebody else has taken the address meanwhile
 */
export const verifyEmail = (
  { transact, mail }: { transact: Transact; mail: Mail },
  token: string,
): Promise<void> =>
  transact(async (work) => {
    const proved = await consumeUserToken(work, token, ["VERIFY_EMAIL", "CHANGE_EMAIL"]);
    const user = await work.em.findOne(User, { id: proved.userId, disabledAt: null });
    if (!user) throw tokenIsGone();
    if (proved.purpose === "CHANGE_EMAIL") await changeAddress(work, mail, user, proved);
    // A mail to an address that is no longer the user's verifies nothing.
    else if (user.email !== proved.email) throw tokenIsGone();
    user.emailVerified = true;
    user.updatedAt = work.now;
    work.afterCommit(forgetSessions);
  }).catch((error: unknown) => {
    if (!(error instanceof UniqueConstraintViolationException)) throw error;
    throw conflict("EMAIL_ALREADY_EXISTS", "Another account has this email address by now");
  });

const changeAddress = async (
  work: Work,
  mail: Mail,
  user: User,
  { email: newEmail }: UserToken,
): Promise<void> => {
  const { id: userId, tenantId, name, email: oldEmail } = user;
  user.email = newEmail;
  // Flushed here, so that a taken address is rejected before anybody is notified.
  await work.em.flush();
  // Tokens sent to the old address must not open the account any more.
  await endUserTokens(work, userId, ["VERIFY_EMAIL", "CHANGE_EMAIL", "RESET_PASSWORD"]);
  await mail.queue(work, {
    template: "email-changed",
    to: oldEmail,
    values: { name, newEmail },
    tenantId,
    userId,
  });
  await audit(work, {
    action: "user.email_changed",
    target: { type: "user", id: userId },
    tenantId,
    data: { oldEmail, newEmail },
  });
};
