import { sql } from "kysely";
import { audit } from "../audit/audit.ts";
import { type DomainError, forbidden, unauthorized } from "../../kernel/errors.ts";
import { type Limiter, RateLimited } from "../rate-limits/limiter.ts";
import { LIMITS } from "../rate-limits/limits.ts";
import { Tenant } from "../tenants/tenant.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { rememberDevice } from "./known-origins.ts";
import { hashRandomSecret } from "./random-secret.ts";
import { forgetOldTokens, isRefreshToken, issueRefreshToken } from "./refresh-tokens.ts";
import { revokeSessions } from "./session-list.ts";
import { Session } from "./session.ts";
import { type SignedIn, signedIn } from "./sessions.ts";
import type { Tokens } from "./tokens.ts";
import { User } from "./user.ts";

/** How long a token may be reused after its first use: for parallel tabs, and for lost responses. */
export const REFRESH_GRACE_SECONDS = 30;

export type RefreshParts = { transact: Transact; tokens: Tokens; limiter: Limiter; clock: () => Date };

/** `deviceToken`: of a sign-in that could not return it, because it returned its tokens in a URL. */
export type Refreshed = { signedIn: SignedIn; deviceToken?: string };

/**
 * Exchanges a refresh token for new tokens of its session; role and tenant are read again, and the session's
 * end is unchanged. A token that is reused after its grace period has been stolen: the session ends for both.
 *
 * @throws UNAUTHORIZED REFRESH_TOKEN_INVALID, REFRESH_TOKEN_EXPIRED, REFRESH_TOKEN_REVOKED,
 * REFRESH_TOKEN_REUSED; FORBIDDEN TENANT_SUSPENDED; RateLimited USER_RATE
 */
export const refresh = async (
  parts: RefreshParts,
  { refreshToken: token, deviceToken }: { refreshToken: string; deviceToken: string },
): Promise<Refreshed> => {
  const { transact, tokens } = parts;
  if (!isRefreshToken(token)) throw unknownToken();
  const hash = hashRandomSecret(token);
  await countRefresh(parts, hash);
  const outcome = await transact((work) => exchange(work, tokens, hash, deviceToken));
  if ("refusal" in outcome) throw outcome.refusal;
  return outcome;
};

const countRefresh = async ({ transact, limiter, clock }: RefreshParts, hash: string): Promise<void> => {
  const sessionId = await transact(async ({ db }) => {
    const { rows } = await sql<{ id: string }>`
      select session_id as id from refresh_tokens where hash = ${hash}`.execute(db);
    return rows[0]?.id;
  });
  if (sessionId === undefined) throw unknownToken();
  const state = await limiter.consume(LIMITS.refresh, sessionId);
  if (state.isAllowed) return;
  throw new RateLimited("USER_RATE", "The session is refreshed too often", state, clock().getTime());
};

/** A refusal is returned, not thrown, because its changes must be committed. */
type Outcome = Refreshed | { refusal: DomainError };

const exchange = async (work: Work, tokens: Tokens, hash: string, deviceToken: string): Promise<Outcome> => {
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
  const renewed = { signedIn: await signedIn(work, tokens, { user, session, refreshToken }) };
  // Only a token that was sent in a URL ends before its session.
  if (used.expiresAt.getTime() >= session.expiresAt.getTime()) return renewed;
  return { ...renewed, deviceToken: await rememberDevice(work, user, deviceToken) };
};

type UsedToken = { sessionId: string; expiresAt: Date; isOver: boolean; isStolen: boolean };

type UsedRow = Omit<UsedToken, "expiresAt"> & { expiresAt: Date | string };

/**
 * Consumes a token: of several concurrent uses one wins, and the others are in its grace. Undefined: unknown.
 */
const useToken = async ({ db, now }: Work, hash: string): Promise<UsedToken | undefined> => {
  const at = now.toISOString();
  const token = sql`session_id as "sessionId", expires_at as "expiresAt",
    expires_at <= ${at}::timestamptz as "isOver"`;
  const won = await sql<UsedRow>`
    update refresh_tokens set used_at = ${at}::timestamptz where hash = ${hash} and used_at is null
    returning ${token}, false as "isStolen"`.execute(db);
  const graceStart = new Date(now.getTime() - REFRESH_GRACE_SECONDS * 1_000).toISOString();
  const known =
    won.rows[0] ??
    (
      await sql<UsedRow>`
    select ${token}, used_at < ${graceStart}::timestamptz as "isStolen"
    from refresh_tokens where hash = ${hash}`.execute(db)
    ).rows[0];
  return known && { ...known, expiresAt: new Date(known.expiresAt) };
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
