import { sql } from "kysely";
import { audit } from "../audit/audit.ts";
import type { Mail } from "../email/mail.ts";
import { resetFactors } from "../mfa/factors.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { type Captcha, requireCaptcha } from "./captcha.ts";
import { type Passwords, refuseWeakPassword } from "./passwords.ts";
import { isMailAllowed, type MailRequestParts, requireMail } from "./account-mail.ts";
import { normaliseEmail } from "../email/address.ts";
import { findKnownOrigin, type Origin, rememberOrigin } from "./known-origins.ts";
import { hasPasswords, requirePasswords } from "../sso/enforcement.ts";
import { setPassword } from "./set-password.ts";
import type { Tokens } from "./tokens.ts";
import { User } from "./user.ts";
import {
  consumeUserToken,
  findUserToken,
  issueUserToken,
  RESET_PASSWORD_SECONDS,
  tokenIsGone,
  type UserToken,
} from "./user-tokens.ts";

/** The origin is used to count mails. */
export type ForgotPassword = Origin & { email: string; captchaToken?: string | undefined };

/**
 * Mails a link that sets a new password, valid 1 h, within the limits of `isMailAllowed`: each known address
 * and device of the account has a limit of its own, which strangers cannot exhaust. It also gives a password
 * to users who only sign in through a provider. The response does not reveal whether the address is known.
 *
 * @throws SERVICE_UNAVAILABLE EMAIL_NOT_CONFIGURED, CAPTCHA_UNAVAILABLE, VALIDATION_ERROR CAPTCHA_FAILED
 */
export const forgotPassword = async (
  parts: MailRequestParts & { transact: Transact; captcha: Captcha; tokens: Tokens },
  { email: address, captchaToken, ...origin }: ForgotPassword,
): Promise<void> => {
  requireMail(parts);
  await requireCaptcha(parts, captchaToken, origin.ip);
  const email = normaliseEmail(address);
  const asked = { ...origin, accounts: "users", email } as const;
  const known = await parts.transact((work) => findKnownOrigin(work, parts.tokens, asked));
  if (!(await isMailAllowed(parts.limiter, "reset-password", email, known))) return;
  await parts.transact(async (work) => {
    const user = await work.em.findOne(User, { email, disabledAt: null });
    // The answer stays the same, so that it tells nothing about the address.
    if (user && (await hasPasswords(work, user))) await mailReset(work, parts.mail, user);
  });
};

const mailReset = async (work: Work, mail: Mail, { id, tenantId, email, name }: User): Promise<void> => {
  const token = await issueUserToken(work, {
    userId: id,
    tenantId,
    purpose: "RESET_PASSWORD",
    email,
    seconds: RESET_PASSWORD_SECONDS,
  });
  await mail.queue(work, {
    template: "reset-password",
    to: email,
    values: { name, token },
    tenantId,
    userId: id,
  });
};

type ResetParts = { transact: Transact; tokens: Tokens; passwords: Passwords; mail: Mail };

/**
 * Sets the password of the recipient of the mail, which also verifies their address, and makes their address
 * and device known, however the account is being guessed. All existing sessions and links end; for an account
 * with an unverified address, so do identities of other addresses.
 *
 * @returns the token that identifies the device from now on
 * @throws VALIDATION_ERROR VERIFICATION_TOKEN_INVALID, PASSWORD_TOO_WEAK, GONE VERIFICATION_TOKEN_EXPIRED,
 * FORBIDDEN SSO_REQUIRED
 */
export const resetPassword = async (
  { transact, tokens, passwords, mail }: ResetParts,
  { token, password, ...origin }: Origin & { token: string; password: string },
): Promise<string> => {
  // Checked first without consuming it, so that a weak password costs no link and a bad link costs no hash.
  const owner = await transact(async (work) =>
    ownerOf(work, await findUserToken(work, token, ["RESET_PASSWORD"])),
  );
  refuseWeakPassword(password, owner);
  const passwordHash = await passwords.hash(password);
  return transact(async (work) => {
    const user = await ownerOf(work, await consumeUserToken(work, token, ["RESET_PASSWORD"]));
    await requirePasswords(work, user);
    const { id, tenantId, email, name } = user;
    const wasProved = user.emailVerified;
    user.emailVerified = true;
    await setPassword(work, id, passwordHash, { deviceToken: origin.deviceToken });
    const device = await rememberOrigin(work, tokens, user, origin);
    if (!wasProved) await dropForeignProofs(work, user);
    const addressee = { to: email, tenantId, userId: id };
    await mail.queue(work, { template: "password-changed", values: { name }, ...addressee });
    const target = { type: "user", id };
    await audit(work, { action: "user.password_reset", target, tenantId });
    return device;
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
