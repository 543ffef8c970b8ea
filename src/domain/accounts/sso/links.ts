import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";

/**
 * Notes that a user may come as another person of the identity provider: one who is suspended, who is let in
 * again after the provider has made them anew, or whose address the provider has changed. Until somebody
 * else comes by the user's address, the link counts as before.
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
