import { notFound } from "../errors.ts";
import type { Work } from "../work.ts";
import { revokeSessions } from "./session-list.ts";
import { endUserTokens } from "./user-tokens.ts";
import { User } from "./user.ts";

/**
 * Replaces a user's password; ends the sessions of before except `keptSessionId`, and what mails of before
 * could do. @throws NOT_FOUND
 */
export const setPassword = async (
  work: Work,
  userId: string,
  passwordHash: string,
  keptSessionId?: string,
): Promise<void> => {
  const user = await work.em.findOne(User, { id: userId });
  if (!user) throw notFound("User");
  user.passwordHash = passwordHash;
  user.updatedAt = work.now;
  // First the password: a login that waits for this row must not be missed by what ends the sessions.
  await work.em.flush();
  const except = keptSessionId === undefined ? {} : { except: keptSessionId };
  await revokeSessions(work, userId, { reason: "PASSWORD_CHANGED", ...except });
  await endUserTokens(work, userId, ["RESET_PASSWORD", "CHANGE_EMAIL"]);
};
