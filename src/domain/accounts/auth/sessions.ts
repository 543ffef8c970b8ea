import { sql } from "kysely";
import type { UserCaller } from "../../kernel/caller.ts";
import { notFound, unauthorized } from "../../kernel/errors.ts";
import { isId, newId } from "../../kernel/ids.ts";
import { requireSso } from "../sso/enforcement.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { audit } from "../audit/audit.ts";
import {
  entityOrder,
  offsetOf,
  type Ordered,
  pageOf,
  type PageQuery,
  type SortOf,
} from "../../kernel/paging.ts";
import { shown } from "../../kernel/json.ts";
import { ACCESS_TOKEN_SECONDS, rememberAddress, Session, type SignInMethod, type Tokens } from "./tokens.ts";
import { createShortCache, isUseDue, noteUse } from "./short-cache.ts";
import { hashRandomSecret, issueRefreshToken } from "./one-time-secrets.ts";
import type { User } from "./user.ts";

/** Seconds after which a session ends, however often it was refreshed. */
export const SESSION_SECONDS = 30 * 86_400;
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
type SignedInUser = { id: string; email: string; role: User["role"] };

type SessionStart = {
  method: SignInMethod;
  /** Lifetime of the access token in seconds; default 7 days. */
  expiresIn?: number;
  /** Expiry of the first refresh token, for one that is sent in a URL; default: the end of the session. */
  refreshUntil?: Date;
  /** When the user proved a second factor to sign in, if they did. */
  mfaAt?: Date;
};

/**
 * Starts a session of an authenticated user; the origin is given by `work.by`. Every sign-in ends here.
 * @throws FORBIDDEN SSO_REQUIRED
 */
export const startSession = async (
  work: Work,
  tokens: Tokens,
  user: User,
  { method, expiresIn = ACCESS_TOKEN_SECONDS, refreshUntil, mfaAt }: SessionStart,
): Promise<SignedIn> => {
  const { em, db, now, by } = work;
  await requireSso(work, user, { method, mfaAt });
  const expiresAt = new Date(now.getTime() + SESSION_SECONDS * 1_000);
  const session = em.create(Session, {
    id: newId(),
    tenantId: user.tenantId,
    userId: user.id,
    method,
    ip: by?.ip ?? "",
    userAgent: (by?.userAgent ?? "").slice(0, USER_AGENT_MAX),
    createdAt: now,
    lastUsedAt: now,
    mfaAt: mfaAt ?? null,
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
 * @param isFresh not late at all: for requests that change something
 * @throws UNAUTHORIZED TOKEN_INVALID, TOKEN_EXPIRED, SESSION_REVOKED
 */
export const authenticateUser = async (
  transact: Transact,
  tokens: Tokens,
  bearer: string,
  { isFresh = false }: { isFresh?: boolean } = {},
): Promise<UserCaller> => {
  const claims = await tokens.verifyAccess(bearer);
  const find = isFresh ? known.renew : known.get;
  const session = await find(claims.sid, () => load(transact, claims.sid));
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

type SessionRow = Omit<UserCaller, "kind" | "sessionId" | "mustEnrol" | "tenant"> &
  UserCaller["tenant"] & { mustEnrol: boolean; expiresAt: Date; lastUsedAt: Date };

const read = async ({ db, now }: Work, sessionId: string): Promise<KnownSession | undefined> => {
  const { rows } = await sql<SessionRow>`
    select u.id::text as "userId", u.tenant_id::text as "tenantId", u.role, u.status,
      u.email_verified as "emailVerified",
      t.second_factor_required and not u.mfa_enabled as "mustEnrol",
      t.plan, t.plan_overrides as "planOverrides", t.approval_status as "approvalStatus",
      s.expires_at as "expiresAt", s.last_used_at as "lastUsedAt"
    from sessions s join users u on u.id = s.user_id and u.disabled_at is null
    join tenants t on t.id = s.tenant_id and t.deleted_at is null
    where s.id = ${sessionId}::uuid and s.revoked_at is null
      and s.expires_at > ${now.toISOString()}::timestamptz`.execute(db);
  const [row] = rows;
  if (!row) return undefined;
  const { plan, planOverrides, approvalStatus, mustEnrol, expiresAt, lastUsedAt, ...user } = row;
  const caller: UserCaller = {
    kind: "user",
    ...user,
    sessionId,
    ...(mustEnrol && { mustEnrol }),
    tenant: { plan, planOverrides, approvalStatus },
  };
  return {
    caller,
    freshForMs: expiresAt.getTime() - now.getTime(),
    isUseDue: isUseDue(lastUsedAt, now),
  };
};

/** Why a session ended early. */
type EndReason =
  | "LOGOUT"
  | "REVOKED"
  | "PASSWORD_CHANGED"
  | "MFA_CHANGED"
  | "SSO_CHANGED"
  | "REFRESH_TOKEN_REUSED"
  | "USER_DISABLED";

/** The owner and id of the requesting session. */
type SessionOwner = { userId: string; sessionId: string; tenantId: string };

/** Orders of the list. */
export const SESSION_ORDERS = {
  by: { createdAt: "createdAt", lastUsedAt: "lastUsedAt", expiresAt: "expiresAt" },
  usual: "desc",
} as const;

/** Returns the active sessions of a user, newest first. */
export const listSessions = async (
  { em, now }: Work,
  { userId, sessionId }: SessionOwner,
  query: PageQuery & Ordered<SortOf<typeof SESSION_ORDERS>>,
) => {
  const [sessions, total] = await em.findAndCount(
    Session,
    { userId, revokedAt: null, expiresAt: { $gt: now } },
    { orderBy: entityOrder(SESSION_ORDERS, query), limit: query.limit, offset: offsetOf(query) },
  );
  const all = sessions.map((one) => ({
    ...shown(one, ["id", "ip", "userAgent", "method", "createdAt", "lastUsedAt", "expiresAt"]),
    current: one.id === sessionId,
  }));
  return pageOf(all, total, query);
};

/**
 * Ends sessions of a user: all, all `except` one, or `only` one; returns how many were active. Their tokens
 * become invalid.
 */
export const revokeSessions = async (
  { db, now, afterCommit }: Work,
  userId: string,
  { reason, only, except }: { reason: EndReason; only?: string; except?: string | undefined },
): Promise<number> => {
  const { rows } = await sql`
    update sessions set revoked_at = ${now.toISOString()}::timestamptz, revoked_for = ${reason}
    where user_id = ${userId}::uuid and revoked_at is null
      and (${only ?? null}::uuid is null or id = ${only ?? null}::uuid)
      and (${except ?? null}::uuid is null or id <> ${except ?? null}::uuid)
    returning id`.execute(db);
  afterCommit(forgetSessions);
  return rows.length;
};

/** Ends one of the user's sessions. @throws NOT_FOUND for one that is another's, unknown or ended */
export const revokeSession = async (work: Work, owner: SessionOwner, id: string): Promise<void> => {
  const { userId, tenantId } = owner;
  const count = isId(id) ? await revokeSessions(work, userId, { only: id, reason: "REVOKED" }) : 0;
  if (count === 0) throw notFound("Session");
  await audit(work, { action: "session.revoked", target: { type: "session", id }, tenantId });
};

/** Ends the requesting session, with `refreshToken` also that token's if it is the user's; or `all`. */
export const logout = async (
  work: Work,
  { userId, sessionId }: SessionOwner,
  { refreshToken, all = false }: { refreshToken?: string | undefined; all?: boolean | undefined },
): Promise<void> => {
  const reason = "LOGOUT";
  if (all) {
    await revokeSessions(work, userId, { reason });
    return;
  }
  await revokeSessions(work, userId, { reason, only: sessionId });
  if (refreshToken === undefined) return;
  const { rows } = await sql<{ id: string }>`
    select session_id as id from refresh_tokens where hash = ${hashRandomSecret(refreshToken)}`.execute(
    work.db,
  );
  if (rows[0]) await revokeSessions(work, userId, { reason, only: rows[0].id });
};
