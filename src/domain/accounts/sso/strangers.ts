import { sql } from "kysely";
import { forgetOrigins } from "../auth/known-origins.ts";
import { revokeSessions } from "../auth/session-list.ts";
import { endUserTokens } from "../auth/user-tokens.ts";
import type { User } from "../auth/user.ts";
import { resetFactors } from "../mfa/factors.ts";
import type { Work } from "../../kernel/work.ts";

/**
 * Takes from an account everything that signs in to it, or leads to it: also links that were mailed, and what
 * its devices are known by. Anybody may register under any address: one that nobody has verified or accepted
 * may be a stranger's. The row of the user is locked.
 */
export const disownStranger = async (work: Work, user: User): Promise<void> => {
  Object.assign(user, { passwordHash: null, updatedAt: work.now });
  await work.em.flush();
  await revokeSessions(work, user.id, { reason: "SSO_CHANGED" });
  await endUserTokens(work, user.id, ["VERIFY_EMAIL", "CHANGE_EMAIL", "RESET_PASSWORD"]);
  await forgetOrigins(work, user.id);
  await sql`delete from identities where user_id = ${user.id}::uuid`.execute(work.db);
  if (user.mfaEnabled) await resetFactors(work, undefined, { kind: "user", row: user });
};
