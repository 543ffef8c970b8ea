import { sql } from "kysely";
import { hashRandomSecret, newRandomSecret } from "../auth/random-secret.ts";
import { type LoggedIn, startSessionOn } from "../auth/sessions.ts";
import type { Tokens } from "../auth/tokens.ts";
import type { User } from "../auth/user.ts";
import { invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import type { ProviderId } from "./provider.ts";
import { findActive, methodOf } from "./sign-in.ts";

export const CODE_SECONDS = 60;

/** Issues a code that is valid once, for a minute, for POST /auth/oauth/exchange. Only its hash is stored. */
export const issueCode = async ({ db, now }: Work, user: User, provider: ProviderId): Promise<string> => {
  const code = newRandomSecret();
  const expiresAt = new Date(now.getTime() + CODE_SECONDS * 1_000).toISOString();
  await sql`
    insert into oauth_codes (hash, user_id, provider, expires_at)
    values (${hashRandomSecret(code)}, ${user.id}::uuid, ${provider}, ${expiresAt}::timestamptz)`.execute(db);
  return code;
};

/** Starts the session that a code stands for. @throws VALIDATION_ERROR OAUTH_CODE_INVALID */
export const exchangeCode = async (
  work: Work,
  tokens: Tokens,
  { code, deviceToken }: { code: string; deviceToken: string },
): Promise<LoggedIn> => {
  const { rows } = await sql<{ user_id: string; provider: ProviderId; expires_at: Date | string }>`
    delete from oauth_codes
    where hash = ${hashRandomSecret(code)} and expires_at > ${work.now.toISOString()}::timestamptz
    returning user_id, provider, expires_at`.execute(work.db);
  const found = rows[0];
  const user = found && (await findActive(work, found.user_id));
  // A new password or address since then invalidates earlier sign-ins in progress.
  if (
    !found ||
    !user ||
    user.updatedAt.getTime() > new Date(found.expires_at).getTime() - CODE_SECONDS * 1_000
  ) {
    const message = "is unknown, used or older than 60 seconds; start the sign-in again";
    throw invalid("code", message, "OAUTH_CODE_INVALID");
  }
  return startSessionOn(work, tokens, user, { method: methodOf(found.provider), deviceToken });
};
