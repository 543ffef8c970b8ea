import { UniqueConstraintViolationException } from "@mikro-orm/core";
import { sql } from "kysely";
import { audit, ofUser } from "../audit/audit.ts";
import {
  type Captcha,
  consumeUserToken,
  endUserTokens,
  findUserToken,
  issueUserToken,
  requireCaptcha,
  tokenIsGone,
  type UserToken,
  type UserTokenPurpose,
} from "./one-time-secrets.ts";
import { type Passwords, refuseWeakPassword } from "./passwords.ts";
import { forgetSessions, revokeSessions } from "./sessions.ts";
import { findKnownAddress, forgetAddresses, rememberAddress, type Tokens } from "./tokens.ts";
import { User } from "./user.ts";
import { normaliseEmail } from "../email/address.ts";
import { type Mail, mailIsOff, type MailTemplate, mailUser } from "../email/mail.ts";
import { resetFactors } from "../mfa/factors.ts";
import { type Limiter, LIMITS } from "../rate-limits/limiter.ts";
import { hasPasswords, requirePasswords } from "../sso/enforcement.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import type { Transact, Work } from "../../kernel/work.ts";

/** Dependencies for mailing a user on request. */
export type MailRequestParts = { mail: Mail; limiter: Limiter };

/** @throws SERVICE_UNAVAILABLE EMAIL_NOT_CONFIGURED, for known and unknown addresses alike */
export const requireMail = ({ mail }: Pick<MailRequestParts, "mail">): void => {
  if (mail.isOff) throw mailIsOff();
};

/**
 * Counts a mail that anybody may request against the limits of its address, and returns whether it may be
 * sent. Beyond the daily limit one mail is allowed each half hour, so that a stranger's requests cannot keep
 * the owner from getting a link. Not to be called in a transaction.
 *
 * @param asker the tenant, or the account's known address that asks; each is counted separately, and all
 * strangers together
 */
export const isMailAllowed = async (
  limiter: Limiter,
  template: MailTemplate,
  email: string,
  asker?: string,
): Promise<boolean> => {
  const key = [template, email, ...(asker === undefined ? [] : [asker])].join(":");
  if (!(await limiter.consume(LIMITS.mailMinute, key)).isAllowed) return false;
  const day = await limiter.consume(LIMITS.mailDay, key);
  // Also consumed by the mails of the daily limit: the next is sent half an hour after one of them, not at
  // once.
  const halfHour = await limiter.consume(LIMITS.mailHalfHour, key);
  return day.isAllowed || halfHour.isAllowed;
};

/**
 * Replaces a user's password; ends existing sessions but `keptSession`, and mailed tokens, and forgets known
 * addresses. @throws NOT_FOUND
 */
export const setPassword = async (
  work: Work,
  userId: string,
  passwordHash: string,
  keptSession?: string,
): Promise<void> => {
  const user = await work.em.findOne(User, { id: userId });
  if (!user) throw notFound("User");
  user.passwordHash = passwordHash;
  user.updatedAt = work.now;
  // The password first: a login that waits for this row must be included when the sessions are ended.
  await work.em.flush();
  await forgetAddresses(work, userId);
  await revokeSessions(work, userId, { reason: "PASSWORD_CHANGED", except: keptSession });
  await endUserTokens(work, userId, ["RESET_PASSWORD", "CHANGE_EMAIL"]);
};

/** `ip` is used to count mails. */
type ForgotPassword = { ip: string; email: string; captchaToken?: string | undefined };

/**
 * Mails a link that sets a new password, valid 1 h, within the limits of `isMailAllowed`: each known address
 * of the account has a limit of its own, which strangers cannot exhaust. It also gives a password
 * to users who only sign in through a provider. The response does not reveal whether the address is known.
 *
 * @throws SERVICE_UNAVAILABLE EMAIL_NOT_CONFIGURED, CAPTCHA_UNAVAILABLE, VALIDATION_ERROR CAPTCHA_FAILED
 */
export const forgotPassword = async (
  parts: MailRequestParts & { transact: Transact; captcha: Captcha; tokens: Tokens },
  { email: address, captchaToken, ip }: ForgotPassword,
): Promise<void> => {
  requireMail(parts);
  await requireCaptcha(parts, captchaToken, ip);
  const email = normaliseEmail(address);
  const asked = { ip, accounts: "users", email } as const;
  const known = await parts.transact((work) => findKnownAddress(work, parts.tokens, asked));
  if (!(await isMailAllowed(parts.limiter, "reset-password", email, known))) return;
  await parts.transact(async (work) => {
    const user = await work.em.findOne(User, { email, disabledAt: null });
    // The answer stays the same, so that it tells nothing about the address.
    if (user && (await hasPasswords(work, user)))
      await mailLink(work, parts.mail, user, { purpose: "RESET_PASSWORD" });
  });
};

/** What is mailed for a purpose, and how long its link is valid. */
export const LINKS = {
  VERIFY_EMAIL: { template: "verify-email", seconds: 86_400 },
  CHANGE_EMAIL: { template: "change-email", seconds: 86_400 },
  RESET_PASSWORD: { template: "reset-password", seconds: 3_600 },
} as const satisfies Record<UserTokenPurpose, { template: MailTemplate; seconds: number }>;

type Addressee = Pick<User, "id" | "tenantId" | "email" | "name">;

/** Mails a link that is valid once, and proves that whoever opens it reads the mails of the address. */
export const mailLink = async (
  work: Work,
  mail: Mail,
  user: Addressee,
  { purpose, email = user.email }: { purpose: UserTokenPurpose; email?: string },
): Promise<void> => {
  const { id: userId, tenantId, name } = user;
  const { template, seconds } = LINKS[purpose];
  const token = await issueUserToken(work, { userId, tenantId, purpose, email, seconds });
  await mailUser(work, mail, user, { template, to: email, values: { name, token } });
};

type ResetParts = { transact: Transact; tokens: Tokens; passwords: Passwords; mail: Mail };

/**
 * Sets the password of the recipient of the mail, which also verifies their address, and makes their IP
 * address known, however the account is being guessed. All existing sessions and links end; for an account
 * with an unverified address, so do identities of other addresses.
 *
 * @throws VALIDATION_ERROR VERIFICATION_TOKEN_INVALID, PASSWORD_TOO_WEAK, GONE VERIFICATION_TOKEN_EXPIRED,
 * FORBIDDEN SSO_REQUIRED
 */
export const resetPassword = async (
  { transact, tokens, passwords, mail }: ResetParts,
  { token, password, ip }: { token: string; password: string; ip: string },
): Promise<void> => {
  // Checked first without consuming it, so that a weak password costs no link and a bad link costs no hash.
  const owner = await transact(async (work) =>
    ownerOf(work, await findUserToken(work, token, ["RESET_PASSWORD"])),
  );
  refuseWeakPassword(password, owner);
  const passwordHash = await passwords.hash(password);
  await transact(async (work) => {
    const user = await ownerOf(work, await consumeUserToken(work, token, ["RESET_PASSWORD"]));
    await requirePasswords(work, user);
    const { name, emailVerified: wasProved } = user;
    user.emailVerified = true;
    await setPassword(work, user.id, passwordHash);
    await rememberAddress(work, tokens, user, ip);
    if (!wasProved) await dropForeignProofs(work, user);
    await mailUser(work, mail, user, { template: "password-changed", values: { name } });
    await audit(work, { ...ofUser(user), action: "user.password_reset" });
  });
};

/**
 * Until now the account may have been set up by a stranger: only identities that have verified this very
 * address are kept, and no second factor or passkey.
 */
const dropForeignProofs = async (work: Work, user: User): Promise<void> => {
  const { id, email } = user;
  await sql`
    delete from identities where user_id = ${id}::uuid and email is distinct from ${email}`.execute(work.db);
  if (user.mfaEnabled) await resetFactors(work, undefined, { kind: "user", row: user });
};

/** Returns the user, if the mail's address is still theirs. @throws GONE */
const ownerOf = async ({ em }: Work, { userId, email }: UserToken): Promise<User> => {
  const user = await em.findOne(User, { id: userId, email, disabledAt: null });
  if (!user) throw tokenIsGone();
  return user;
};

/** Mails the link that verifies the user's address, valid 24 h; nothing on a server without mail. */
export const mailVerification = async (work: Work, mail: Mail, user: Addressee): Promise<void> => {
  if (!mail.isOff) await mailLink(work, mail, user, { purpose: "VERIFY_EMAIL" });
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
    if (user) await mailVerification(work, parts.mail, user);
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
  const { email: oldEmail } = user;
  user.email = newEmail;
  // Flushed here, so that a taken address is rejected before anybody is notified.
  await work.em.flush();
  // Tokens sent to the old address must not open the account any more.
  await endUserTokens(work, user.id, ["VERIFY_EMAIL", "CHANGE_EMAIL", "RESET_PASSWORD"]);
  const values = { name: user.name, newEmail };
  await mailUser(work, mail, user, { template: "email-changed", to: oldEmail, values });
  await audit(work, { ...ofUser(user), action: "user.email_changed", data: { oldEmail, newEmail } });
};
