import { sql } from "kysely";
import { audit } from "../audit/audit.ts";
import { notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import { offsetOf, pageOf, type PageQuery } from "../../kernel/paging.ts";
import { entityOrder, type Ordered, type SortOf } from "../../kernel/sorting.ts";
import type { Work } from "../../kernel/work.ts";
import { shown } from "../../kernel/shown.ts";
import { hashRandomSecret } from "./one-time-secrets.ts";
import { Session } from "./tokens.ts";
import { forgetSessions } from "./sessions.ts";

/** Why a session ended early. */
export type EndReason =
  | "LOGOUT"
  | "REVOKED"
  | "PASSWORD_CHANGED"
  | "MFA_CHANGED"
  | "SSO_CHANGED"
  | "REFRESH_TOKEN_REUSED"
  | "USER_DISABLED";

/** The owner and id of the requesting session. */
export type SessionOwner = { userId: string; sessionId: string; tenantId: string };

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
  { reason, only, except }: { reason: EndReason; only?: string; except?: string },
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
