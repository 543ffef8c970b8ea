import { sql } from "kysely";
import { DomainError, invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { hashRandomSecret, newRandomSecret } from "./random-secret.ts";

export const VERIFY_EMAIL_SECONDS = 86_400;
export const RESET_PASSWORD_SECONDS = 3_600;

/** Purpose of a token; each is mailed to the address that it concerns. */
export type UserTokenPurpose = "VERIFY_EMAIL" | "CHANGE_EMAIL" | "RESET_PASSWORD";

export type UserToken = {
  userId: string;
  tenantId: string;
  purpose: UserTokenPurpose;
  /** Lower case; the recipient's address, which holding the token proves. */
  email: string;
};

/**
 * Issues a token of 256 random bits in base64url, valid once within the given seconds. Only its hash is
 * stored. Other tokens of the user stay valid: mails may arrive in any order.
 */
export const issueUserToken = async (
  { db, now }: Work,
  { userId, tenantId, purpose, email, seconds }: UserToken & { seconds: number },
): Promise<string> => {
  const token = newRandomSecret();
  const expiresAt = new Date(now.getTime() + seconds * 1_000);
  await sql`
    insert into user_tokens (hash, tenant_id, user_id, purpose, email, expires_at, created_at)
    values (${hashRandomSecret(token)}, ${tenantId}::uuid, ${userId}::uuid, ${purpose}, ${email},
      ${expiresAt.toISOString()}::timestamptz, ${now.toISOString()}::timestamptz)`.execute(db);
  return token;
};

/**
 * Reads a token without consuming it.
 *
 * @throws VALIDATION_ERROR VERIFICATION_TOKEN_INVALID for one that is unknown or for another purpose, GONE
 * VERIFICATION_TOKEN_EXPIRED for one that was used or has expired
 */
export const findUserToken = async (
  { db, now }: Work,
  token: string,
  purposes: readonly UserTokenPurpose[],
): Promise<UserToken> => {
  const { rows } = await sql<UserToken & { isGood: boolean }>`
    select user_id as "userId", tenant_id as "tenantId", purpose, email,
      used_at is null and expires_at > ${now.toISOString()}::timestamptz as "isGood"
    from user_tokens
    where hash = ${hashRandomSecret(token)} and purpose = any(${`{${purposes.join(",")}}`}::text[])`.execute(
    db,
  );
  const [found] = rows;
  if (!found) throw unknownToken();
  const { isGood, ...known } = found;
  if (!isGood) throw tokenIsGone();
  return known;
};

/** Consumes a token: of several concurrent uses, one succeeds. @throws as `findUserToken` */
export const consumeUserToken = async (
  work: Work,
  token: string,
  purposes: readonly UserTokenPurpose[],
): Promise<UserToken> => {
  const { db, now } = work;
  const found = await findUserToken(work, token, purposes);
  // The user is locked before the token, as where a user's tokens are ended, to avoid deadlocks.
  await sql`select 1 from users where id = ${found.userId}::uuid for update`.execute(db);
  const { rows } = await sql`
    update user_tokens set used_at = ${now.toISOString()}::timestamptz
    where hash = ${hashRandomSecret(token)} and used_at is null returning 1`.execute(db);
  if (rows.length === 0) throw tokenIsGone();
  return found;
};

const unknownToken = (): DomainError =>
  invalid("token", "is unknown; request a new mail", "VERIFICATION_TOKEN_INVALID");

/** Builds the error for a token that is no longer valid. */
export const tokenIsGone = (): DomainError =>
  new DomainError("GONE", "This link was used or has expired; ask for a new mail", {
    reason: "VERIFICATION_TOKEN_EXPIRED",
  });

/** Ends a user's tokens for these purposes: after a new password, no older mail can set another. */
export const endUserTokens = async (
  { db, now }: Work,
  userId: string,
  purposes: readonly UserTokenPurpose[],
): Promise<void> => {
  await sql`
    update user_tokens set used_at = ${now.toISOString()}::timestamptz
    where user_id = ${userId}::uuid and used_at is null
      and purpose = any(${`{${purposes.join(",")}}`}::text[])`.execute(db);
};
