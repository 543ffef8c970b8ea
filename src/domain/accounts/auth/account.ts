import { sql } from "kysely";
import { audit, ofUser } from "../audit/audit.ts";
import {
  isMailAllowed,
  mailLink,
  type MailRequestParts,
  requireMail,
  setPassword,
} from "./email-verification.ts";
import {
  endUserTokens,
  forgetOldTokens,
  hashRandomSecret,
  isRefreshToken,
  issueRefreshToken,
} from "./one-time-secrets.ts";
import {
  DUMMY_HASH,
  type Passwords,
  type ProofParts,
  provePassword,
  refuseWeakPassword,
  throttled,
  wrongPassword,
} from "./passwords.ts";
import { type DisposableSettings, refuseDisposable } from "./registration.ts";
import { revokeSessions, type SignedIn, signedIn } from "./sessions.ts";
import { findKnownAddress, rememberAddress, Session, type Tokens } from "./tokens.ts";
import { User } from "./user.ts";
import { normaliseEmail } from "../email/address.ts";
import { type Mail, mailUser } from "../email/mail.ts";
import {
  completeLogin,
  orChallenge,
  type ProofParts as LoginProof,
  signInOrChallenge,
} from "../mfa/sign-in.ts";
import { type AbuseParts, blockAbuser } from "../rate-limits/ip-blocks.ts";
import { type CountingParts, countUse, LIMITS } from "../rate-limits/limiter.ts";
import { limitKeyOf } from "../../kernel/networks.ts";
import { Tenant } from "../tenants/tenant.ts";
import type { UserCaller } from "../../kernel/caller.ts";
import { conflict, DomainError, forbidden, invalid, unauthorized } from "../../kernel/errors.ts";
import { LOCKED, type Transact, type Work } from "../../kernel/work.ts";
import { shown } from "../../kernel/json.ts";

/** Satisfied by an App. `transact` must see the accounts of all tenants. */
type LoginParts = AbuseParts & LoginProof & { passwords: Passwords };

/** `ip` is used to count failures. `mfaCode`: of the second factor, for accounts that have one. */
type Login = { ip: string; email: string; password: string; mfaCode?: string | undefined };

/**
 * Checks a password, and the second factor if the account has one, and starts a session. An unknown address,
 * a disabled user, a deleted tenant and a wrong password cannot be distinguished, neither by the response nor
 * by its duration, nor by what is counted.
 *
 * @throws UNAUTHORIZED INVALID_CREDENTIALS, MFA_REQUIRED, MFA_CODE_INVALID, RateLimited LOGIN_THROTTLED
 */
export const login = async (
  parts: LoginParts,
  { email, password, mfaCode, ip }: Login,
): Promise<SignedIn> => {
  const { transact, tokens, passwords } = parts;
  const account = normaliseEmail(email);
  const asked = { ip, accounts: "users", email: account } as const;
  const known = () => transact((work) => findKnownAddress(work, tokens, asked));
  let found: Found | undefined;
  const isRight = await throttled(parts, { ip, account, known }, async () => {
    found = await transact((work) => findByEmail(work, account));
    const fits = await passwords.verify(found?.hash ?? DUMMY_HASH, password);
    return fits && found !== undefined;
  });
  if (!isRight || !found) {
    await blockGuesser(parts, ip);
    throw wrong();
  }
  const { id, hash } = found;
  const outcome = await transact(async (work) => {
    // Locked, so that a new password ends this session or prevents it.
    const user = await work.em.findOne(User, { id }, LOCKED);
    if (!user || user.disabledAt || user.passwordHash !== hash) throw wrong();
    return signInOrChallenge(work, tokens, user, "PASSWORD");
  });
  if (mfaCode === undefined || !("challenge" in outcome)) return orChallenge(outcome);
  return completeLogin(parts, { challengeToken: outcome.challenge.token, code: mfaCode, ip });
};

/** Blocks an address that has exhausted its failures for a while. */
const blockGuesser = async (parts: LoginParts, ip: string): Promise<void> => {
  const { remaining } = await parts.limiter.read(LIMITS.loginFailures, limitKeyOf(ip));
  if (remaining === 0) await blockAbuser(parts, "loginFailures", ip);
};

const wrong = (): DomainError => unauthorized("INVALID_CREDENTIALS", "Email or password is wrong");

type Found = { id: string; hash: string };

/** One statement, for known and unknown addresses alike. */
const findByEmail = async ({ db }: Work, email: string): Promise<Found | undefined> => {
  const { rows } = await sql<Found>`
    select u.id, u.password_hash as hash from users u join tenants t on t.id = u.tenant_id
    where u.email = ${email} and u.disabled_at is null and t.deleted_at is null
      and u.password_hash is not null`.execute(db);
  return rows[0];
};

/** How long a token may be reused after its first use: for parallel tabs, and for lost responses. */
const REFRESH_GRACE_SECONDS = 30;

type RefreshParts = CountingParts & { transact: Transact; tokens: Tokens };

/**
 * Exchanges a refresh token for new tokens of its session; role and tenant are read again, and the session's
 * end is unchanged. A token that is reused after its grace period has been stolen: the session ends for both.
 *
 * @throws UNAUTHORIZED REFRESH_TOKEN_INVALID, REFRESH_TOKEN_EXPIRED, REFRESH_TOKEN_REVOKED,
 * REFRESH_TOKEN_REUSED; FORBIDDEN TENANT_SUSPENDED; RateLimited USER_RATE
 */
export const refresh = async (parts: RefreshParts, token: string): Promise<SignedIn> => {
  const { transact, tokens } = parts;
  if (!isRefreshToken(token)) throw unknownToken();
  const hash = hashRandomSecret(token);
  await countRefresh(parts, hash);
  const outcome = await transact((work) => exchange(work, tokens, hash));
  if ("refusal" in outcome) throw outcome.refusal;
  return outcome;
};

const countRefresh = async (parts: RefreshParts, hash: string): Promise<void> => {
  const sessionId = await parts.transact(async ({ db }) => {
    const { rows } = await sql<{ id: string }>`
      select session_id as id from refresh_tokens where hash = ${hash}`.execute(db);
    return rows[0]?.id;
  });
  if (sessionId === undefined) throw unknownToken();
  const count = { bucket: LIMITS.refresh, key: sessionId };
  await countUse(parts, count, "USER_RATE", "The session is refreshed too often");
};

/** A refusal is returned, not thrown, because its changes must be committed. */
type Outcome = SignedIn | { refusal: DomainError };

const exchange = async (work: Work, tokens: Tokens, hash: string): Promise<Outcome> => {
  const { em, now } = work;
  const used = await useToken(work, hash);
  if (!used) throw unknownToken();
  const session = await em.findOneOrFail(Session, { id: used.sessionId });
  if (session.revokedAt) throw ended();
  if (used.isStolen) return { refusal: await endStolen(work, session) };
  if (used.isOver || session.expiresAt <= now) {
    throw unauthorized("REFRESH_TOKEN_EXPIRED", "The refresh token has expired; log in again");
  }
  const user = await em.findOne(User, { id: session.userId, disabledAt: null });
  const tenant = await em.findOne(Tenant, { id: session.tenantId, deletedAt: null });
  if (!user || !tenant) throw ended();
  // Thrown, so that the token is valid again when the suspension is lifted.
  if (tenant.approvalStatus === "SUSPENDED") {
    throw forbidden("TENANT_SUSPENDED", "The tenant is suspended; its OWNER has been informed of the reason");
  }
  session.lastUsedAt = now;
  const refreshToken = await issueRefreshToken(work, session, session.expiresAt);
  await forgetOldTokens(work, session.id);
  return signedIn(work, tokens, { user, session, refreshToken });
};

type UsedToken = { sessionId: string; isOver: boolean; isStolen: boolean };

/**
 * Consumes a token: of several concurrent uses one wins, and the others are in its grace. Undefined: unknown.
 */
const useToken = async ({ db, now }: Work, hash: string): Promise<UsedToken | undefined> => {
  const at = now.toISOString();
  const token = sql`session_id as "sessionId", expires_at <= ${at}::timestamptz as "isOver"`;
  const won = await sql<UsedToken>`
    update refresh_tokens set used_at = ${at}::timestamptz where hash = ${hash} and used_at is null
    returning ${token}, false as "isStolen"`.execute(db);
  const graceStart = new Date(now.getTime() - REFRESH_GRACE_SECONDS * 1_000).toISOString();
  if (won.rows[0]) return won.rows[0];
  const known = await sql<UsedToken>`
    select ${token}, used_at < ${graceStart}::timestamptz as "isStolen"
    from refresh_tokens where hash = ${hash}`.execute(db);
  return known.rows[0];
};

const endStolen = async (work: Work, { id, userId, tenantId }: Session): Promise<DomainError> => {
  const count = await revokeSessions(work, userId, { only: id, reason: "REFRESH_TOKEN_REUSED" });
  // Of several concurrent requests, only one ends the session and reports it.
  if (count === 0) return ended();
  const target = { type: "session", id };
  await audit(work, { action: "session.reuse_detected", target, tenantId, data: { userId } });
  return unauthorized(
    "REFRESH_TOKEN_REUSED",
    "This refresh token was used before, so somebody else may have it: the session has ended; log in again",
  );
};

const unknownToken = (): DomainError =>
  unauthorized("REFRESH_TOKEN_INVALID", "The refresh token is unknown; log in again");

const ended = (): DomainError =>
  unauthorized("REFRESH_TOKEN_REVOKED", "The session of this refresh token has ended; log in again");

/** A user acting on their own account, and their IP address. */
export type Self = Pick<UserCaller, "userId" | "tenantId" | "sessionId"> & {
  ip: string;
};

/**
 * Returns the user and their tenant. @throws UNAUTHORIZED SESSION_REVOKED when they have just been removed
 */
export const getAccount = async (work: Work, userId: string) => {
  const user = await getSelf(work, userId);
  const tenant = await work.em.findOne(Tenant, { id: user.tenantId, deletedAt: null });
  if (!tenant) throw gone();
  return {
    user: {
      ...shown(user, [
        "id",
        "email",
        "name",
        "tenantId",
        "role",
        "status",
        "emailVerified",
        "profileCompleted",
        "mfaEnabled",
        "createdAt",
        "updatedAt",
      ]),
      hasPassword: user.passwordHash != null,
      pendingEmail: await pendingEmail(work, user.id),
    },
    tenant: {
      ...shown(tenant, ["id", "name", "approvalStatus"]),
      // Who waits to be accepted may be a stranger to the tenant.
      plan: user.status === "PENDING" ? null : tenant.plan,
    },
  };
};

const gone = (): DomainError =>
  unauthorized("SESSION_REVOKED", "The session of this access token has ended; log in again");

/** Locked, so that each of several concurrent changes sees the previous one. */
const getSelf = async ({ em }: Work, id: string, isLocked = false): Promise<User> => {
  const user = await em.findOne(User, { id, disabledAt: null }, isLocked ? LOCKED : {});
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

type AccountChange = {
  name?: string | undefined;
  email?: string | undefined;
  /** Required for a new address. */
  currentPassword?: string | undefined;
};

type UpdateParts = ProofParts &
  MailRequestParts & {
    /** Sees the accounts of all tenants: addresses are unique over the platform. */
    accounts: Transact;
    config: DisposableSettings;
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
  refuseDisposable(email, parts.config.disposableEmail);
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

const countAddressChange = (parts: UpdateParts, userId: string): Promise<void> => {
  const message = "You may ask for a new address five times an hour";
  return countUse(parts, { bucket: LIMITS.addressChange, key: userId }, "EMAIL_RATE", message);
};

const mailNewAddress = async (work: Work, mail: Mail, user: User, email: string): Promise<void> => {
  await endUserTokens(work, user.id, ["CHANGE_EMAIL"]);
  await mailLink(work, mail, user, { purpose: "CHANGE_EMAIL", email });
  await audit(work, { ...ofUser(user), action: "user.email_change_requested", data: { email } });
};

type PasswordChange = { currentPassword: string; newPassword: string };

/**
 * Replaces the user's password, ends their other sessions and notifies them by mail. The address stays known.
 *
 * @throws VALIDATION_ERROR PASSWORD_TOO_WEAK, FORBIDDEN INVALID_CREDENTIALS, CONFLICT INVALID_STATE
 */
export const changePassword = async (
  parts: ProofParts & { tokens: Tokens; mail: Mail },
  self: Self,
  { currentPassword, newPassword }: PasswordChange,
): Promise<void> => {
  const { transact, tokens, passwords } = parts;
  const { ip, sessionId } = self;
  const seen = await transact((work) => getSelf(work, self.userId));
  await provePassword(parts, seen, { currentPassword, ip, sessionId }, noPassword);
  refuseWeakPassword(newPassword, seen, "newPassword");
  if (newPassword.normalize("NFKC") === currentPassword.normalize("NFKC")) {
    throw invalid("newPassword", "must differ from the current one", "PASSWORD_TOO_WEAK");
  }
  const passwordHash = await passwords.hash(newPassword);
  await transact(async (work) => {
    const user = await getSelf(work, self.userId, true);
    if (user.passwordHash !== seen.passwordHash) throw wrongPassword();
    await setPassword(work, self.userId, passwordHash, sessionId);
    await rememberAddress(work, tokens, user, ip);
    const values = { name: user.name };
    await mailUser(work, parts.mail, user, { template: "password-changed", values });
    await audit(work, { ...ofUser(user), action: "user.password_changed" });
  });
};
