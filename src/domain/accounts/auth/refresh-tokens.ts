import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { randomBase62 } from "./base62.ts";
import { hashRandomSecret } from "./random-secret.ts";

/** `svc_rt_` and 256 random bits. */
export const newRefreshToken = (): string => `svc_rt_${randomBase62(43)}`;

export const isRefreshToken = (text: string): boolean => /^svc_rt_[0-9A-Za-z]{43}$/.test(text);

/** Maximum tokens of a session, used ones included; older ones are forgotten. */
export const TOKENS_PER_SESSION_MAX = 1_000;

/** Issues the next token of a session, of which only the hash is stored. */
export const issueRefreshToken = async (
  { db, now }: Work,
  session: { id: string; tenantId: string },
  expiresAt: Date,
): Promise<string> => {
  const token = newRefreshToken();
  await sql`
    insert into refresh_tokens (hash, tenant_id, session_id, expires_at, created_at)
    values (${hashRandomSecret(token)}, ${session.tenantId}::uuid, ${session.id}::uuid,
      ${expiresAt.toISOString()}::timestamptz, ${now.toISOString()}::timestamptz)`.execute(db);
  return token;
};

/** Forgets tokens that a session used long ago, so that no client can fill the table. */
export const forgetOldTokens = async ({ db }: Work, sessionId: string): Promise<void> => {
  await sql`
    delete from refresh_tokens where hash in (
      select hash from refresh_tokens where session_id = ${sessionId}::uuid
      order by created_at desc, hash offset ${TOKENS_PER_SESSION_MAX})`.execute(db);
};
