import { sql } from "kysely";
import { forgetOldTokens, issueRefreshToken } from "../auth/refresh-tokens.ts";
import { Session } from "../auth/session.ts";
import { type SignedIn, signedIn } from "../auth/sessions.ts";
import type { Tokens } from "../auth/tokens.ts";
import type { User } from "../auth/user.ts";
import type { Work } from "../../kernel/work.ts";

/**
 * Returns a session that is still open, which it stays until the commit: who ends it either precedes this or
 * waits. The user is locked as well.
 */
export const holdSession = async (
  { db, em, now }: Work,
  { userId, sessionId }: { userId: string; sessionId: string },
): Promise<Session | undefined> => {
  // The user is locked before the session, as where a password is set, to avoid deadlocks.
  await sql`select 1 from users where id = ${userId}::uuid for no key update`.execute(db);
  const { rows } = await sql`
    select 1 from sessions where id = ${sessionId}::uuid and user_id = ${userId}::uuid
      and revoked_at is null and expires_at > ${now.toISOString()}::timestamptz
    for share`.execute(db);
  return rows.length === 1 ? em.findOneOrFail(Session, { id: sessionId }, { refresh: true }) : undefined;
};

/**
 * Returns further tokens of a session that is held. It stays what it was: as old, ending when it did, and
 * with the proofs that it had. `refreshUntil`: as in `startSession`.
 */
export const goOn = async (
  work: Work,
  tokens: Tokens,
  { user, session, refreshUntil }: { user: User; session: Session; refreshUntil?: Date },
): Promise<SignedIn> => {
  const endMs = Math.min(session.expiresAt.getTime(), refreshUntil?.getTime() ?? Infinity);
  const refreshToken = await issueRefreshToken(work, session, new Date(endMs));
  await forgetOldTokens(work, session.id);
  return signedIn(work, tokens, { user, session, refreshToken });
};
