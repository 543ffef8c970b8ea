import { notFound } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { forgetOrigins } from "./known-origins.ts";
import { revokeSessions } from "./session-list.ts";
import { endUserTokens } from "./user-tokens.ts";
import { User } from "./user.ts";

/** The session and device that stay valid after a new password. */
export type Kept = { sessionId?: string; deviceToken?: string };

/**
 * Replaces a user's password; ends existing sessions and mailed tokens, and forgets known addresses and
 * devices, except what is `kept`. @throws NOT_FOUND
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
  // The password first: a login that waits for this row must be included when the sessions are ended.
  await work.em.flush();
  const except = kept.sessionId === undefined ? {} : { except: kept.sessionId };
  await forgetOrigins(work, userId, kept.deviceToken);
  await revokeSessions(work, userId, { reason: "PASSWORD_CHANGED", ...except });
  await endUserTokens(work, userId, ["RESET_PASSWORD", "CHANGE_EMAIL"]);
};
