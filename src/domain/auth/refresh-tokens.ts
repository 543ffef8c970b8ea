import { createHash } from "node:crypto";
import { sql } from "kysely";
import { newId } from "../ids.ts";
import type { Work } from "../work.ts";
import { randomBase62 } from "./base62.ts";

export const REFRESH_TOKEN_DAYS = 30;
/** Sessions that a user keeps; the oldest end. */
export const REFRESH_TOKENS_PER_USER_MAX = 100;

/** `svc_rt_` and 256 random bits. */
export const newRefreshToken = (): string => `svc_rt_${randomBase62(43)}`;

export const hashRefreshToken = (token: string): string => createHash("sha256").update(token).digest("hex");

/** Starts a session of the user: a new family with its first token, of which only the hash is stored. */
export const issueRefreshToken = async ({ db, now }: Work, userId: string): Promise<string> => {
  const token = newRefreshToken();
  const at = now.toISOString();
  const until = new Date(now.getTime() + REFRESH_TOKEN_DAYS * 86_400_000).toISOString();
  await sql`
    delete from refresh_tokens where user_id = ${userId}::uuid and hash not in (
      select hash from refresh_tokens where user_id = ${userId}::uuid and expires_at > ${at}::timestamptz
      order by created_at desc, hash limit ${REFRESH_TOKENS_PER_USER_MAX - 1})`.execute(db);
  await sql`
    insert into refresh_tokens (hash, user_id, family_id, expires_at, created_at)
    values (${hashRefreshToken(token)}, ${userId}::uuid, ${newId()}::uuid,
      ${until}::timestamptz, ${at}::timestamptz)`.execute(db);
  return token;
};
