import { sql } from "kysely";
import { endUserTokens } from "../auth/one-time-secrets.ts";
import { revokeSessions } from "../auth/sessions.ts";
import { forgetAddresses } from "../auth/tokens.ts";
import type { User } from "../auth/user.ts";
import { resetFactors } from "../mfa/factors.ts";
import type { Work } from "../../kernel/work.ts";

/**
 * Takes from an account everything that signs in to it, or leads to it: also links that were mailed, and what
 * its devices are known by. Anybody may register under any address: one that nobody has verified or accepted
 * may be a stranger's. The row of the user is locked.
 */
export const disownStranger = async (work: Work, user: User): Promise<void> => {
  Object.assign(user, { passwordHash: null, updatedAt: work.now });
  await work.em.flush();
  await revokeSessions(work, user.id, { reason: "SSO_CHANGED" });
  await endUserTokens(work, user.id, ["VERIFY_EMAIL", "CHANGE_EMAIL", "RESET_PASSWORD"]);
  await forgetAddresses(work, user.id);
  await sql`delete from identities where user_id = ${user.id}::uuid`.execute(work.db);
  if (user.mfaEnabled) await resetFactors(work, undefined, { kind: "user", row: user });
};

/**
 * Notes that a suspended user may come as another person of the identity provider once they are let in again:
 * it may have made them anew. Until somebody else comes by the user's address, the link counts as before.
 */
export const releaseLinksOf = async ({ db, now }: Work, userId: string): Promise<void> => {
  await sql`
    update sso_identities set released_at = ${now.toISOString()}::timestamptz
    where user_id = ${userId}::uuid and released_at is null`.execute(db);
};

/** Keeps the link by which a user has come, and forgets those of the same provider that were released. */
export const keepLink = async (
  { db }: Work,
  { issuer, subject }: { issuer: string; subject: string },
  { id }: { id: string },
): Promise<void> => {
  const own = sql`user_id = ${id}::uuid and issuer = ${issuer} and released_at is not null`;
  await sql`delete from sso_identities where ${own} and subject <> ${subject}`.execute(db);
  await sql`update sso_identities set released_at = null where ${own} and subject = ${subject}`.execute(db);
};
