import { sql } from "kysely";
import type { UserCaller } from "../../kernel/caller.ts";
import { unauthorized } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import { Tenant } from "../tenants/tenant.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { rememberAddress, rememberDevice } from "./known-origins.ts";
import { isUseDue, noteUse } from "./last-used.ts";
import { issueRefreshToken } from "./refresh-tokens.ts";
import { Session, type SignInMethod } from "./session.ts";
import { createShortCache } from "./short-cache.ts";
import { ACCESS_TOKEN_SECONDS, type Tokens } from "./tokens.ts";
import { User } from "./user.ts";

/** Days after which a session ends, however often it was refreshed. */
export const SESSION_DAYS = 30;
/** Maximum sessions of a user; the oldest end. */
export const SESSIONS_PER_USER_MAX = 100;
const USER_AGENT_MAX = 300;

/** The response to a sign-in. */
export type SignedIn<U = SignedInUser> = {
  accessToken: string;
  refreshToken: string;
  tokenType: "Bearer";
  /** In seconds. */
  expiresIn: number;
  user: U;
};
/** `deviceToken`: identifies the device at the next sign-in. */
export type LoggedIn<U = SignedInUser> = { signedIn: SignedIn<U>; deviceToken: string };
export type SignedInUser = { id: string; email: string; role: User["role"] };

type SessionStart = {
  method: SignInMethod;
  /** Lifetime of the access token in seconds; default 7 days. */
  expiresIn?: number;
  /** Expiry of the first refresh token, for one that is sent in a URL; default: the end of the session. */
  refreshUntil?: Date;
};

/** Starts a session of an authenticated user; the origin is given by `work.by`. */
export const startSession = async (
  work: Work,
  tokens: Tokens,
  user: User,
  { method, expiresIn = ACCESS_TOKEN_SECONDS, refreshUntil }: SessionStart,
): Promise<SignedIn> => {
  const { em, db, now, by } = work;
  const expiresAt = new Date(now.getTime() + SESSION_DAYS * 86_400_000);
  const session = em.create(Session, {
    id: newId(),
    tenantId: user.tenantId,
    userId: user.id,
    method,
    ip: by?.ip ?? "",
    userAgent: (by?.userAgent ?? "").slice(0, USER_AGENT_MAX),
    createdAt: now,
    lastUsedAt: now,
    expiresAt,
    revokedAt: null,
    revokedFor: null,
  });
  user.lastLoginAt = now;
  await em.flush();
  await rememberAddress(work, tokens, user, by?.ip);
  await sql`
    delete from sessions where user_id = ${user.id}::uuid and id not in (
      select id from sessions where user_id = ${user.id}::uuid
      order by created_at desc, id desc limit ${SESSIONS_PER_USER_MAX})`.execute(db);
  const refreshToken = await issueRefreshToken(work, session, refreshUntil ?? expiresAt);
  return signedIn(work, tokens, { user, session, refreshToken, expiresIn });
};

/** As `startSession`, on a device that sent `deviceToken` of an earlier sign-in, or "". */
export const startSessionOn = async (
  work: Work,
  tokens: Tokens,
  user: User,
  { deviceToken, ...start }: Omit<SessionStart, "refreshUntil"> & { deviceToken: string },
): Promise<LoggedIn> => ({
  signedIn: await startSession(work, tokens, user, start),
  deviceToken: await rememberDevice(work, user, deviceToken),
});

type SignIn = { user: User; session: Session; refreshToken: string; expiresIn?: number };

/**
 * Builds the response to a sign-in: an access token that ends with its session at the latest, and its
 * details.
 */
export const signedIn = async (
  { now }: Work,
  tokens: Tokens,
  { user, session, refreshToken, expiresIn = ACCESS_TOKEN_SECONDS }: SignIn,
): Promise<SignedIn> => {
  const leftSeconds = Math.ceil((session.expiresAt.getTime() - now.getTime()) / 1_000);
  const claims = { sub: user.id, tid: user.tenantId, sid: session.id, role: user.role };
  const signed = await tokens.signAccess(claims, Math.min(expiresIn, leftSeconds));
  return {
    accessToken: signed.token,
    refreshToken,
    tokenType: "Bearer",
    expiresIn: signed.expiresIn,
    user: { id: user.id, email: user.email, role: user.role },
  };
};

type KnownSession = { caller: UserCaller; freshForMs: number; isUseDue: boolean };

const known = createShortCache<KnownSession>(({ freshForMs }) => freshForMs);

/** Drops this process's cache of sessions, roles and tenants; see CACHE_TTL_MS. */
export const forgetSessions = (): void => known.clear();

/**
 * Authenticates an access token (without `Bearer `). The database determines whether the session is active,
 * its role, and the state of the tenant, at most 5 s late.
 *
 * @throws UNAUTHORIZED TOKEN_INVALID, TOKEN_EXPIRED, SESSION_REVOKED
 */
export const authenticateUser = async (
  transact: Transact,
  tokens: Tokens,
  bearer: string,
): Promise<UserCaller> => {
  const claims = await tokens.verifyAccess(bearer);
  const session = await known.get(claims.sid, () => load(transact, claims.sid));
  const caller = session?.caller;
  if (!caller || caller.userId !== claims.sub || caller.tenantId !== claims.tid) {
    throw unauthorized("SESSION_REVOKED", "The session of this access token has ended; log in again");
  }
  return caller;
};

const load = async (transact: Transact, sessionId: string): Promise<KnownSession | undefined> => {
  const session = await transact((work) => read(work, sessionId));
  if (session?.isUseDue) noteUse(transact, "sessions", sessionId);
  return session;
};

const read = async ({ em, now }: Work, sessionId: string): Promise<KnownSession | undefined> => {
  const session = await em.findOne(Session, { id: sessionId, revokedAt: null, expiresAt: { $gt: now } });
  if (!session) return undefined;
  const user = await em.findOne(User, { id: session.userId, disabledAt: null });
  const tenant = await em.findOne(Tenant, { id: session.tenantId, deletedAt: null });
  if (!user || !tenant) return undefined;
  const { plan, planOverrides, approvalStatus } = tenant;
  const caller: UserCaller = {
    kind: "user",
    userId: user.id,
    tenantId: user.tenantId,
    role: user.role,
    sessionId,
    status: user.status,
    emailVerified: user.emailVerified,
    tenant: { plan, planOverrides, approvalStatus },
  };
  return {
    caller,
    freshForMs: session.expiresAt.getTime() - now.getTime(),
    isUseDue: isUseDue(session.lastUsedAt, now),
  };
};
