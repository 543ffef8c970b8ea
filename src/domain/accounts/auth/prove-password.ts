import { type DomainError, forbidden } from "../../kernel/errors.ts";
import type { Transact } from "../../kernel/work.ts";
import { throttled, type ThrottleParts } from "./login-throttle.ts";
import type { Passwords } from "./passwords.ts";
import type { User } from "./user.ts";

export type ProofParts = ThrottleParts & { transact: Transact; passwords: Passwords };

/** What a user shows besides their session, and from where. */
export type Proof = { currentPassword: string; ip: string; sessionId: string };

/**
 * Makes sure that whoever has a user's session knows the password too: it is guessed no faster than at a
 * login by a device that is known, from whatever addresses. Not to be called in a transaction.
 *
 * @throws FORBIDDEN INVALID_CREDENTIALS, RateLimited LOGIN_THROTTLED, or what `withoutPassword` makes for a
 *   user who has none
 */
export const provePassword = async (
  parts: ProofParts,
  { email, passwordHash }: User,
  { currentPassword, ip, sessionId }: Proof,
  withoutPassword: () => DomainError,
): Promise<void> => {
  if (passwordHash == null) throw withoutPassword();
  const check = () => parts.passwords.verify(passwordHash, currentPassword);
  const known = async () => `session:${sessionId}`;
  if (!(await throttled(parts, { ip, account: email, known }, check))) throw wrongPassword();
};

/** The error for a `currentPassword` that is another. */
export const wrongPassword = (): DomainError => forbidden("INVALID_CREDENTIALS", "currentPassword is wrong");
