import { createHash } from "node:crypto";
import { sql } from "kysely";
import type { Work } from "../work.ts";
import { randomBase62 } from "./base62.ts";

/** `svc_rt_` and 256 random bits. */
export const newRefreshToken = (): string => `svc_rt_${randomBase62(43)}`;

export const isRefreshToken = (text: string): boolean => /^svc_rt_[0-9A-Za-z]{43}$/.test(text);

export const hashRefreshToken = (token: string): string => createHash("sha256").update(token).digest("hex");

/** Gives a session its next token, of which only the hash is stored. */
export const issueRefreshToken = async (
  { db, now }: Work,
  session: { id: string; tenantId: string },
  expiresAt: Date,
): Promise<string> => {
  const token = newRefreshToken();
  await sql`
    insert into refresh_tokens (hash, tenant_id, session_id, expires_at, created_at)
    values (${hashRefreshToken(token)}, ${session.tenantId}::uuid, ${session.id}::uuid,
      ${expiresAt.toISOString()}::timestamptz, ${now.toISOString()}::timestamptz)`.execute(db);
  return token;
};
