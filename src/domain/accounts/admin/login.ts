import { audit } from "../audit/audit.ts";
import { findKnownAddress, forgetAddresses, rememberAddress, type Tokens } from "../auth/tokens.ts";
import { DUMMY_HASH, type Guess, type Passwords, refuseWeakPassword, throttled } from "../auth/passwords.ts";
import { normaliseEmail } from "../email/address.ts";
import { type Challenge, DomainError, unauthorized } from "../../kernel/errors.ts";
import type { FactorRules } from "../mfa/factors.ts";
import type { FactorOwner } from "../mfa/owner.ts";
import {
  answerChallenge,
  type ChallengeAnswer,
  challengeFor,
  mfaRequired,
  type ProofParts,
} from "../mfa/sign-in.ts";
import type { CountingParts } from "../rate-limits/limiter.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { auditAdmin, endLogins, getAdmin, PlatformAdmin } from "./admins.ts";

type AdminLoginParts = CountingParts & {
  transact: Transact;
  tokens: Tokens;
  passwords: Passwords;
  config: FactorRules;
};

export type AdminSignedIn = Awaited<ReturnType<typeof signInAdmin>>;

/** A password, and a code of the second factor of those who have one. */
type AdminLogin = { email: string; password: string; mfaCode?: string | undefined; ip: string };

/**
 * Checks a super-admin's password and second factor. Without a second factor, where the server requires one,
 * the token is good for nothing but setting one up. An unknown address and a wrong password cannot be
 * distinguished, neither by the response nor by its duration.
 *
 * @throws UNAUTHORIZED INVALID_CREDENTIALS, MFA_REQUIRED, MFA_CODE_INVALID, RATE_LIMITED LOGIN_THROTTLED
 */
export const adminLogin = async (
  parts: AdminLoginParts & ProofParts,
  { ip, ...body }: AdminLogin,
): Promise<AdminSignedIn> => {
  const { transact, tokens } = parts;
  const email = normaliseEmail(body.email);
  const found = await transact(({ em }) => em.findOne(PlatformAdmin, { email, disabledAt: null }));
  const hash = found?.passwordHash ?? DUMMY_HASH;
  const asked = { ip, accounts: "platform_admins", email } as const;
  const known = () => transact((work) => findKnownAddress(work, tokens, asked));
  const isRight = await isPassword(parts, { ip, account: email, known }, hash, body.password);
  const logged =
    isRight && found ? await transact((work) => passPassword(work, tokens, found, ip)) : undefined;
  if (!logged) {
    await transact((work) => noteFailure(work, found));
    throw unauthorized("INVALID_CREDENTIALS", "Email or password is wrong");
  }
  if (!("challenge" in logged)) return signInAdmin(parts, logged);
  if (body.mfaCode === undefined) throw mfaRequired(logged.challenge);
  const answer = { challengeToken: logged.challenge.token, code: body.mfaCode, ip };
  return completeAdminLogin(parts, answer);
};

/** Completes a super-admin's login by the second factor. @throws as `answerChallenge` */
export const completeAdminLogin = async (
  parts: AdminLoginParts & ProofParts,
  answer: ChallengeAnswer,
): Promise<AdminSignedIn> => {
  const finish = (work: Work, { row }: FactorOwner): Promise<PlatformAdmin | undefined> =>
    noteLogin(work, parts.tokens, row as PlatformAdmin, answer.ip);
  try {
    const logged = await answerChallenge(parts, "admin", answer, finish);
    if (logged) return await signInAdmin(parts, logged);
  } catch (error) {
    if (error instanceof DomainError && error.reason === "MFA_CODE_INVALID")
      await noteWrongFactor(parts, answer.challengeToken);
    throw error;
  }
  throw unauthorized("INVALID_CREDENTIALS", "Email or password is wrong");
};

/** As a wrong password. */
const noteWrongFactor = async ({ transact, tokens }: AdminLoginParts, token: string): Promise<void> => {
  const { sub: id } = await tokens.verifyMfa(token);
  await transact(async (work) => noteFailure(work, await work.em.findOne(PlatformAdmin, { id })));
};

/** Signs a new token of a super-admin who has just been authenticated. */
export const signInAdmin = async (
  { tokens, config }: Pick<AdminLoginParts, "tokens" | "config">,
  admin: PlatformAdmin,
) => {
  const { id, email, name, sessionVersion } = admin;
  const mfaEnrolmentRequired = config.isSuperadminMfaRequired && !admin.mfaEnabled;
  const enrol = mfaEnrolmentRequired ? { enrol: true as const } : {};
  const { token, expiresIn } = await tokens.signAdmin({ sub: id, ver: sessionVersion, ...enrol });
  const tokenType = "Bearer" as const;
  return { accessToken: token, tokenType, expiresIn, mfaEnrolmentRequired, admin: { id, email, name } };
};

/** As `noteLogin`, unless a second factor comes first. */
const passPassword = async (
  work: Work,
  tokens: Tokens,
  seen: PlatformAdmin,
  ip: string,
): Promise<PlatformAdmin | { challenge: Challenge } | undefined> => {
  const { id, passwordHash } = seen;
  const row = await work.em.findOne(PlatformAdmin, { id, passwordHash, disabledAt: null });
  if (!row?.mfaEnabled) return noteLogin(work, tokens, seen, ip);
  return { challenge: await challengeFor(work, tokens, { kind: "admin", row }, "PASSWORD") };
};

/** @throws RateLimited LOGIN_THROTTLED without checking the password */
const isPassword = (
  parts: AdminLoginParts,
  guess: Guess,
  hash: string,
  password: string,
): Promise<boolean> => {
  const account = `superadmin:${guess.account}`;
  return throttled(parts, { ...guess, account }, () => parts.passwords.verify(hash, password));
};

/** Returns undefined when the password or the account changed during the check. */
const noteLogin = async (
  work: Work,
  tokens: Tokens,
  { id, passwordHash }: PlatformAdmin,
  ip: string,
): Promise<PlatformAdmin | undefined> => {
  const admin = await work.em.findOne(PlatformAdmin, { id, passwordHash, disabledAt: null });
  if (!admin) return undefined;
  admin.lastLoginAt = work.now;
  const by = work.by && { ...work.by, caller: { kind: "admin", adminId: id, scopes: ["*"] } as const };
  await auditAdmin({ ...work, by }, "platform_admin.logged_in", admin);
  await rememberAddress(work, tokens, { id, tenantId: null }, ip);
  return admin;
};

/** The address as typed is not stored: people sometimes type their password there. */
const noteFailure = (work: Work, seen: PlatformAdmin | null): Promise<void> =>
  audit(work, {
    action: "platform_admin.login_failed",
    target: { type: "platform_admin", id: seen?.id ?? "unknown" },
    tenantId: null,
    ...(seen ? { data: { email: seen.email } } : {}),
  });

/** Ends all logins of a super-admin, including the current one. @throws NOT_FOUND */
export const adminLogout = async (work: Work, adminId: string): Promise<void> => {
  const admin = await getAdmin(work, adminId);
  endLogins(work, admin);
  await auditAdmin(work, "platform_admin.logged_out", admin);
};

const wrongPassword = (): DomainError =>
  unauthorized("INVALID_CREDENTIALS", "currentPassword is not your password");

/**
 * Replaces a super-admin's own password, ends all previous logins and starts a new one. The address
 * stays known.
 * @throws UNAUTHORIZED INVALID_CREDENTIALS for a wrong current password, VALIDATION_ERROR PASSWORD_TOO_WEAK,
 * RATE_LIMITED LOGIN_THROTTLED
 */
export const changeAdminPassword = async (
  parts: AdminLoginParts,
  { adminId, ip }: { adminId: string; ip: string },
  { currentPassword, newPassword }: { currentPassword: string; newPassword: string },
): Promise<AdminSignedIn> => {
  const { transact, passwords, tokens } = parts;
  const seen = await transact((work) => getAdmin(work, adminId));
  const guess = { ip, account: seen.email, known: async () => `admin:${adminId}` };
  if (!(await isPassword(parts, guess, seen.passwordHash, currentPassword))) throw wrongPassword();
  refuseWeakPassword(newPassword, seen, "newPassword");
  const passwordHash = await passwords.hash(newPassword);
  const changed = await transact(async (work) => {
    const admin = await getAdmin(work, adminId);
    if (admin.passwordHash !== seen.passwordHash) throw wrongPassword();
    admin.passwordHash = passwordHash;
    endLogins(work, admin);
    await forgetAddresses(work, adminId);
    await rememberAddress(work, tokens, { id: adminId, tenantId: null }, ip);
    await auditAdmin(work, "platform_admin.password_changed", admin);
    return admin;
  });
  return signInAdmin(parts, changed);
};
