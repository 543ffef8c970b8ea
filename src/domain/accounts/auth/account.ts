import { LockMode } from "@mikro-orm/core";
import { sql } from "kysely";
import { audit } from "../audit/audit.ts";
import type { ApprovalStatus, MemberStatus, Role, UserCaller } from "../../kernel/caller.ts";
import type { Mail } from "../email/mail.ts";
import { conflict, DomainError, invalid, unauthorized } from "../../kernel/errors.ts";
import { RateLimited } from "../rate-limits/limiter.ts";
import { LIMITS } from "../rate-limits/limits.ts";
import type { Plan } from "../../kernel/plans.ts";
import { Tenant } from "../tenants/tenant.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { type DisposableLists, refuseDisposable } from "./disposable.ts";
import { rememberOrigin } from "./known-origins.ts";
import { refuseWeakPassword } from "./passwords.ts";
import { type ProofParts, provePassword, wrongPassword } from "./prove-password.ts";
import { isMailAllowed, type MailRequestParts, requireMail } from "./account-mail.ts";
import { normaliseEmail } from "../email/address.ts";
import { setPassword } from "./set-password.ts";
import type { Tokens } from "./tokens.ts";
import { endUserTokens, issueUserToken } from "./user-tokens.ts";
import { User } from "./user.ts";

const CHANGE_EMAIL_SECONDS = 86_400;

/** A user acting on their own account, and their IP address. */
export type Self = Pick<UserCaller, "userId" | "tenantId" | "sessionId"> & {
  ip: string;
};

export type ShownAccount = {
  user: {
    id: string;
    email: string;
    name: string;
    tenantId: string;
    role: Role;
    status: MemberStatus;
    emailVerified: boolean;
    profileCompleted: boolean;
    /** False for a user who only signs in through a provider. */
    hasPassword: boolean;
    /** Whether a second factor is set. */
    mfaEnabled: boolean;
    /** A new address that has not been confirmed by the link in its mail yet. */
    pendingEmail: string | null;
    createdAt: string;
    updatedAt: string;
  };
  /** The plan is null for a user who waits to be accepted: they may be a stranger to the tenant. */
  tenant: { id: string; name: string; plan: Plan | null; approvalStatus: ApprovalStatus };
};

/**
 * Returns the user and their tenant. @throws UNAUTHORIZED SESSION_REVOKED when they have just been removed
 */
export const getAccount = async (work: Work, userId: string): Promise<ShownAccount> => {
  const user = await getSelf(work, userId);
  const tenant = await work.em.findOne(Tenant, { id: user.tenantId, deletedAt: null });
  if (!tenant) throw gone();
  const { id, email, name, tenantId, role, status, emailVerified, profileCompleted } = user;
  return {
    user: {
      id,
      email,
      name,
      tenantId,
      role,
      status,
      emailVerified,
      profileCompleted,
      hasPassword: user.passwordHash != null,
      mfaEnabled: user.mfaEnabled,
      pendingEmail: await pendingEmail(work, id),
      createdAt: user.createdAt.toISOString(),
      updatedAt: user.updatedAt.toISOString(),
    },
    tenant: {
      id: tenant.id,
      name: tenant.name,
      plan: status === "PENDING" ? null : tenant.plan,
      approvalStatus: tenant.approvalStatus,
    },
  };
};

const gone = (): DomainError =>
  unauthorized("SESSION_REVOKED", "The session of this access token has ended; log in again");

/** Locked, so that each of several concurrent changes sees the previous one. */
const getSelf = async ({ em }: Work, id: string, isLocked = false): Promise<User> => {
  const lock = isLocked ? { lockMode: LockMode.PESSIMISTIC_WRITE, refresh: true } : {};
  const user = await em.findOne(User, { id, disabledAt: null }, lock);
  if (!user) throw gone();
  return user;
};

const pendingEmail = async ({ db, now }: Work, userId: string): Promise<string | null> => {
  const { rows } = await sql<{ email: string }>`
    select email from user_tokens
    where user_id = ${userId}::uuid and purpose = 'CHANGE_EMAIL' and used_at is null
      and expires_at > ${now.toISOString()}::timestamptz
    order by created_at desc limit 1`.execute(db);
  return rows[0]?.email ?? null;
};

const noPassword = (): DomainError =>
  conflict("INVALID_STATE", "This account has no password; set one with POST /auth/forgot-password");

export type AccountChange = {
  name?: string | undefined;
  email?: string | undefined;
  /** Required for a new address. */
  currentPassword?: string | undefined;
};

export type UpdateParts = ProofParts &
  MailRequestParts & {
    /** Sees the accounts of all tenants: addresses are unique over the platform. */
    accounts: Transact;
    disposableEmail: DisposableLists;
  };

/**
 * Changes the user's name at once. A new address is sent a link and replaces the old one when that is
 * followed (verifyEmail), within 24 hours; a further request invalidates the previous link.
 *
 * @throws VALIDATION_ERROR EMAIL_DISPOSABLE, CONFLICT EMAIL_ALREADY_EXISTS, INVALID_STATE, FORBIDDEN
 * INVALID_CREDENTIALS, SERVICE_UNAVAILABLE EMAIL_NOT_CONFIGURED, RATE_LIMITED EMAIL_RATE
 */
export const updateAccount = async (parts: UpdateParts, self: Self, change: AccountChange): Promise<void> => {
  const { transact } = parts;
  const seen = await transact((work) => getSelf(work, self.userId));
  const email = change.email === undefined ? seen.email : normaliseEmail(change.email);
  if (email !== seen.email) await mayTakeAddress(parts, self, seen, { ...change, email });
  await transact(async (work) => {
    const user = await getSelf(work, self.userId, true);
    if (change.name !== undefined && change.name !== user.name) {
      user.name = change.name;
      user.updatedAt = work.now;
    }
    if (email === seen.email) return;
    if (user.passwordHash !== seen.passwordHash) throw wrongPassword();
    await mailNewAddress(work, parts.mail, user, email);
  });
};

const mayTakeAddress = async (
  parts: UpdateParts,
  { ip, sessionId }: Self,
  user: User,
  { email, currentPassword }: AccountChange & { email: string },
): Promise<void> => {
  requireMail(parts);
  refuseDisposable(email, parts.disposableEmail);
  if (currentPassword === undefined) throw invalid("currentPassword", "is needed for a new address");
  await provePassword(parts, user, { currentPassword, ip, sessionId }, noPassword);
  await countAddressChange(parts, user.id);
  const taken = await parts.accounts(({ em }) => em.count(User, { email }));
  if (taken > 0) throw conflict("EMAIL_ALREADY_EXISTS", "An account with this email address exists already");
  if (await isMailAllowed(parts.limiter, "change-email", email, user.tenantId)) return;
  throw new DomainError("RATE_LIMITED", "Too many mails were sent to this address; try again later", {
    reason: "EMAIL_RATE",
    retryAfterSeconds: 60,
  });
};

const countAddressChange = async ({ limiter, clock }: UpdateParts, userId: string): Promise<void> => {
  const state = await limiter.consume(LIMITS.addressChange, userId);
  if (state.isAllowed) return;
  const message = "You may ask for a new address five times an hour; wait as long as Retry-After says";
  throw new RateLimited("EMAIL_RATE", message, state, clock().getTime());
};

const mailNewAddress = async (work: Work, mail: Mail, user: User, email: string): Promise<void> => {
  const { id: userId, tenantId, name } = user;
  await endUserTokens(work, userId, ["CHANGE_EMAIL"]);
  const token = await issueUserToken(work, {
    userId,
    tenantId,
    purpose: "CHANGE_EMAIL",
    email,
    seconds: CHANGE_EMAIL_SECONDS,
  });
  const values = { name, token };
  await mail.queue(work, { template: "change-email", to: email, values, tenantId, userId });
  const target = { type: "user", id: userId };
  await audit(work, { action: "user.email_change_requested", target, tenantId, data: { email } });
};

export type PasswordChange = { currentPassword: string; newPassword: string };

/**
 * Replaces the user's password, ends their other sessions and notifies them by mail. The device stays known,
 * as the address does.
 *
 * @param deviceToken of an earlier sign-in, or ""
 * @returns the token that identifies the device from now on
 * @throws VALIDATION_ERROR PASSWORD_TOO_WEAK, FORBIDDEN INVALID_CREDENTIALS, CONFLICT INVALID_STATE
 */
export const changePassword = async (
  parts: ProofParts & { tokens: Tokens; mail: Mail },
  { deviceToken, ...self }: Self & { deviceToken: string },
  { currentPassword, newPassword }: PasswordChange,
): Promise<string> => {
  const { transact, tokens, passwords } = parts;
  const { ip, sessionId } = self;
  const seen = await transact((work) => getSelf(work, self.userId));
  await provePassword(parts, seen, { currentPassword, ip, sessionId }, noPassword);
  refuseWeakPassword(newPassword, seen, "newPassword");
  if (newPassword.normalize("NFKC") === currentPassword.normalize("NFKC")) {
    throw invalid("newPassword", "must differ from the current one", "PASSWORD_TOO_WEAK");
  }
  const passwordHash = await passwords.hash(newPassword);
  return transact(async (work) => {
    const user = await getSelf(work, self.userId, true);
    if (user.passwordHash !== seen.passwordHash) throw wrongPassword();
    await setPassword(work, self.userId, passwordHash, { sessionId, deviceToken });
    const device = await rememberOrigin(work, tokens, user, { ip, deviceToken });
    const { id, tenantId, email, name } = user;
    const mail = { to: email, values: { name }, tenantId, userId: id };
    await parts.mail.queue(work, { template: "password-changed", ...mail });
    await audit(work, { action: "user.password_changed", target: { type: "user", id }, tenantId });
    return device;
  });
};
