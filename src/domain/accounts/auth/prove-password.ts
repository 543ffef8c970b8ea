import { type DomainError, forbidden } from "../../kernel/errors.ts";
import type { Transact } from "../../kernel/work.ts";
import { throttled, type ThrottleParts } from "./login-throttle.ts";
import type { Passwords } from "./passwords.ts";
import type { User } from "./user.ts";

export type ProofParts = ThrottleParts & { transact: Transact; passwords: Passwords };

/** The current password, and the origin of the request. */
export type Proof = { currentPassword: string; ip: string; sessionId: string };

/**
 * Verifies that the holder of a user's session knows the password too, with the same throttling as for logins
 * by a known device, from whatever addresses. Not to be called in a transaction.
 *
 * @throws FORBIDDEN INVALID_CREDENTIALS, RateLimited LOGIN_THROTTLED, or the error of `withoutPassword` for a
 * user without a password
 */
export const provePassword = async (
  parts: ProofParts,
  { email, passwordHash }: Pick<User, "email" | "passwordHash">,
  { currentPassword, ip, sessionId }: Proof,
  withoutPassword: () => DomainError,
): Promise<void> => {
  if (passwordHash == null) throw withoutPassword();
  const check = () => parts.passwords.verify(passwordHash, currentPassword);
  const known = async () => `session:${sessionId}`;
  if (!(await throttled(parts, { ip, account: email, known }, check))) throw wrongPassword();
};

/** Builds the error for a wrong `currentPassword`. */
export const wrongPassword = (): DomainError => forbidden("INVALID_CREDENTIALS", "currentPassword is wrong");
