import { sql } from "kysely";
import { hashRandomSecret, newRandomSecret } from "../auth/random-secret.ts";
import { rememberDevice } from "../auth/known-origins.ts";
import type { Session } from "../auth/session.ts";
import type { Tokens } from "../auth/tokens.ts";
import type { User } from "../auth/user.ts";
import { type SignInOutcome, signInOrChallenge } from "../mfa/sign-in.ts";
import { holdIdp } from "../sso/enforcement.ts";
import { type DomainError, invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import type { ProviderId } from "./provider.ts";
import { goOn, holdSession } from "./going-on.ts";
import { findActive, methodOf } from "./sign-in.ts";

/** What a code can stand for: a provider's sign-in, or one through a tenant's identity provider. */
export type CodeIssuer = ProviderId | "sso";

export const CODE_SECONDS = 60;

/**
 * Issues a code that is valid once, for a minute, for POST /auth/oauth/exchange. Only its hash is stored.
 * @param session the one that it gives further tokens of; without one it begins a session
 */
export const issueCode = async (
  work: Work,
  user: User,
  provider: CodeIssuer,
  session?: Pick<Session, "id">,
): Promise<string> => {
  const code = newRandomSecret();
  const expiresAt = new Date(work.now.getTime() + CODE_SECONDS * 1_000).toISOString();
  const idp = (await idpOf(work, user, provider)) ?? null;
  await sql`
    insert into oauth_codes (hash, user_id, provider, idp, session_id, expires_at)
    values (${hashRandomSecret(code)}, ${user.id}::uuid, ${provider}, ${idp},
      ${session?.id ?? null}::uuid, ${expiresAt}::timestamptz)`.execute(work.db);
  return code;
};

/** The identity provider that a code stands for: with another one, or none, the code counts no more. */
const idpOf = async (
  work: Work,
  { tenantId }: User,
  provider: CodeIssuer,
): Promise<string | null | undefined> => (provider === "sso" ? holdIdp(work, tenantId) : null);

type StoredCode = {
  user_id: string;
  provider: CodeIssuer;
  idp: string | null;
  session_id: string | null;
  expires_at: Date | string;
};

/** Whether nothing has changed since a code was issued: a new password or address, or another provider. */
const isCurrent = async (work: Work, user: User, code: StoredCode): Promise<boolean> => {
  const issuedMs = new Date(code.expires_at).getTime() - CODE_SECONDS * 1_000;
  return user.updatedAt.getTime() <= issuedMs && (await idpOf(work, user, code.provider)) === code.idp;
};

/** `tenantId`: of whom alone codes are taken, at their custom domain. */
export type BroughtCode = { code: string; deviceToken: string; tenantId: string | undefined };

const codeInvalid = (): DomainError => {
  const message = "is unknown, used or older than 60 seconds; start the sign-in again";
  return invalid("code", message, "OAUTH_CODE_INVALID");
};

/**
 * Starts the session that a code stands for, unless the user has a second factor to prove first; or goes on
 * with the one that has linked a provider.
 *
 * @throws VALIDATION_ERROR OAUTH_CODE_INVALID
 */
export const exchangeCode = async (
  work: Work,
  tokens: Tokens,
  { code, deviceToken, tenantId }: BroughtCode,
): Promise<SignInOutcome> => {
  const { rows } = await sql<StoredCode>`
    delete from oauth_codes
    where hash = ${hashRandomSecret(code)} and expires_at > ${work.now.toISOString()}::timestamptz
    returning user_id, provider, idp, session_id, expires_at`.execute(work.db);
  const found = rows[0];
  const user = found && (await findActive(work, found.user_id));
  const isElsewhere = tenantId !== undefined && tenantId !== user?.tenantId;
  if (!found || !user || isElsewhere || !(await isCurrent(work, user, found))) throw codeInvalid();
  if (found.session_id !== null) {
    const session = await holdSession(work, { userId: user.id, sessionId: found.session_id });
    if (!session) throw codeInvalid();
    const signedIn = await goOn(work, tokens, { user, session });
    return { signedIn, deviceToken: await rememberDevice(work, user, deviceToken) };
  }
  return signInOrChallenge(work, tokens, user, { method: methodOf(found.provider), deviceToken });
};
