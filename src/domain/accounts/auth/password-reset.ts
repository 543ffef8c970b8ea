import { sql } from "kysely";
import { audit } from "../audit/audit.ts";
import type { Mail } from "../email/mail.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { type Captcha, requireCaptcha } from "./captcha.ts";
import { type Passwords, refuseWeakPassword } from "./passwords.ts";
import { isMailAllowed, type Post, requireMail } from "./account-mail.ts";
import { normaliseEmail } from "../email/address.ts";
import { findKnownOrigin, type Origin, rememberOrigin } from "./known-origins.ts";
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

/** From where is for the count of mails. */
export type ForgotPassword = Origin & { email: string; captchaToken?: string | undefined };

/**
 * Mails a link that sets a new password, 1 h, as often as `isMailAllowed` lets: each address and device that
 * the account knows has mails of its own, which strangers cannot use up. Also for who signs in through a
 * provider only: it gives them a password. Whether the address is known is not told.
 *
 * @throws SERVICE_UNAVAILABLE EMAIL_NOT_CONFIGURED, CAPTCHA_UNAVAILABLE, VALIDATION_ERROR CAPTCHA_FAILED
 */
export const forgotPassword = async (
  parts: Post & { transact: Transact; captcha: Captcha; tokens: Tokens },
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
    if (user) await mailReset(work, parts.mail, user);
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
 * Sets the password of whoever got the mail, which proves their address too, and lets them in from where they
 * are, and on their device, however the account is guessed at. Every session of before ends, and every other
 * link; of an account that nobody had proved to be theirs, identities of other addresses too.
 *
 * @returns the token by which the account knows the device from now on
 * @throws VALIDATION_ERROR VERIFICATION_TOKEN_INVALID, PASSWORD_TOO_WEAK, GONE VERIFICATION_TOKEN_EXPIRED
 */
export const resetPassword = async (
  { transact, tokens, passwords, mail }: ResetParts,
  { token, password, ...origin }: Origin & { token: string; password: string },
): Promise<string> => {
  // Asked first without using it up, so that a weak password costs no link and a bad link costs no hash.
  const owner = await transact(async (work) =>
    ownerOf(work, await findUserToken(work, token, ["RESET_PASSWORD"])),
  );
  refuseWeakPassword(password, owner);
  const passwordHash = await passwords.hash(password);
  return transact(async (work) => {
    const user = await ownerOf(work, await consumeUserToken(work, token, ["RESET_PASSWORD"]));
    const { id, tenantId, email, name } = user;
    const wasProved = user.emailVerified;
    user.emailVerified = true;
    await setPassword(work, id, passwordHash, { deviceToken: origin.deviceToken });
    const device = await rememberOrigin(work, tokens, user, origin);
    if (!wasProved) await dropStrangers(work, user);
    const addressee = { to: email, tenantId, userId: id };
    await mail.queue(work, { template: "password-changed", values: { name }, ...addressee });
    const target = { type: "user", id };
    await audit(work, { action: "user.password_reset", target, tenantId });
    return device;
  });
};

/**
 * Until now anybody may have set the account up under an address that is not theirs: no identity stays but
 * one that has proved this very address.
 */
const dropStrangers = async ({ db }: Work, { id, email }: User): Promise<void> => {
  await sql`
    delete from identities where user_id = ${id}::uuid and email is distinct from ${email}`.execute(db);
};

/** The user, as long as the address that the mail went to is theirs. @throws GONE */
const ownerOf = async ({ em }: Work, { userId, email }: UserToken): Promise<User> => {
  const user = await em.findOne(User, { id: userId, email, disabledAt: null });
  if (!user) throw tokenIsGone();
  return user;
};
