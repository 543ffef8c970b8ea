import { type ProofParts, provePassword } from "../auth/prove-password.ts";
import { User } from "../auth/user.ts";
import { forbidden, unauthorized } from "../../kernel/errors.ts";

/**
 * Verifies that the holder of the session knows the password too, before an operation that is hard to undo.
 * Not to be called in a transaction.
 *
 * @throws FORBIDDEN INVALID_CREDENTIALS, REAUTHENTICATION_REQUIRED for a user without a password,
 * UNAUTHORIZED SESSION_REVOKED, RateLimited LOGIN_THROTTLED
 */
export const reauthenticate = async (
  parts: ProofParts,
  { userId, sessionId, ip }: { userId: string; sessionId: string; ip: string },
  currentPassword: string,
): Promise<void> => {
  const user = await parts.transact(({ em }) => em.findOne(User, { id: userId }));
  // Removed since the session was read, which may be 5 s ago.
  if (!user) throw unauthorized("SESSION_REVOKED", "Your account is gone");
  await provePassword(parts, user, { currentPassword, ip, sessionId }, () =>
    forbidden(
      "REAUTHENTICATION_REQUIRED",
      "You have no password yet: set one with POST /auth/forgot-password, then try again",
    ),
  );
};
