import { throttled, type ThrottleParts } from "../auth/login-throttle.ts";
import type { Passwords } from "../auth/passwords.ts";
import { User } from "../auth/user.ts";
import { forbidden } from "../errors.ts";
import type { Transact } from "../work.ts";

export type ReauthParts = ThrottleParts & { transact: Transact; passwords: Passwords };

/**
 * Makes sure that whoever holds the session knows the password too, before what cannot be taken back lightly.
 * Not to be called in a transaction.
 *
 * @throws FORBIDDEN INVALID_CREDENTIALS, REAUTHENTICATION_REQUIRED for a user without a password, RateLimited
 *   LOGIN_THROTTLED
 */
export const reauthenticate = async (
  parts: ReauthParts,
  { userId, ip }: { userId: string; ip: string },
  currentPassword: string,
): Promise<void> => {
  const user = await parts.transact(({ em }) => em.findOneOrFail(User, { id: userId }));
  const hash = user.passwordHash;
  if (hash == null) {
    const message = "You have no password yet: set one with POST /auth/forgot-password, then try again";
    throw forbidden("REAUTHENTICATION_REQUIRED", message);
  }
  const check = () => parts.passwords.verify(hash, currentPassword);
  if (await throttled(parts, { ip, account: user.email }, check)) return;
  throw forbidden("INVALID_CREDENTIALS", "currentPassword is wrong");
};
