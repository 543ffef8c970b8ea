import { notFound } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { forgetOrigins } from "./known-origins.ts";
import { revokeSessions } from "./session-list.ts";
import { endUserTokens } from "./user-tokens.ts";
import { User } from "./user.ts";

/** What goes on after a new password: the session and the device that set it. */
export type Kept = { sessionId?: string; deviceToken?: string };

/**
 * Replaces a user's password; ends the sessions of before, what mails of before could do, and what addresses
 * and devices were known, except what is `kept`. @throws NOT_FOUND
 */
export const setPassword = async (
  work: Work,
  userId: string,
  passwordHash: string,
  kept: Kept = {},
): Promise<void> => {
  const user = await work.em.findOne(User, { id: userId });
  if (!user) throw notFound("User");
  user.passwordHash = passwordHash;
  user.updatedAt = work.now;
  // First the password: a login that waits for this row must not be missed by what ends the sessions.
  await work.em.flush();
  const except = kept.sessionId === undefined ? {} : { except: kept.sessionId };
  await forgetOrigins(work, userId, kept.deviceToken);
  await revokeSessions(work, userId, { reason: "PASSWORD_CHANGED", ...except });
  await endUserTokens(work, userId, ["RESET_PASSWORD", "CHANGE_EMAIL"]);
};
