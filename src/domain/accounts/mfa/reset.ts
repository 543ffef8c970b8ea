import type { Mail } from "../email/mail.ts";
import { requireGrant } from "../team/grants.ts";
import { lockTeam, requireAdmin, type TeamActor } from "../team/lock-team.ts";
import { findAdminByEmail } from "../admin/admins.ts";
import type { PlatformAdmin } from "../admin/platform-admin.ts";
import type { User } from "../auth/user.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import { refuseForBreakGlass } from "../sso/enforcement.ts";
import { isId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { resetFactors } from "./factors.ts";
import { findOwner } from "./owner.ts";

/**
 * Removes the second factor of a member who has lost it, and ends their sessions. The caller has just
 * reauthenticated.
 *
 * @throws NOT_FOUND, FORBIDDEN INSUFFICIENT_ROLE for an OWNER's by an ADMIN, CONFLICT INVALID_STATE for one's
 * own, a member without one, or the break-glass OWNER
 */
export const resetMemberMfa = async (
  work: Work,
  mail: Mail,
  actor: TeamActor,
  memberId: string,
): Promise<User> => {
  const { caller, member } = await lockTeam(work, actor, memberId);
  requireGrant(requireAdmin(caller).role, member.role);
  if (member.id === caller.id)
    throw conflict("INVALID_STATE", "This is for others: change your own second factor under /auth/mfa");
  await refuseForBreakGlass(work, member);
  await resetFactors(work, mail, { kind: "user", row: member });
  return member;
};

/** Removes the second factor of a user of any tenant. @throws NOT_FOUND, CONFLICT INVALID_STATE */
export const resetUserMfa = async (work: Work, mail: Mail, userId: string, reason: string): Promise<User> => {
  const owner = isId(userId) ? await findOwner(work, { kind: "user", id: userId }, true) : undefined;
  if (owner?.kind !== "user") throw notFound("User");
  await resetFactors(work, mail, owner, { reason });
  return owner.row;
};

/**
 * Removes the second factor of a super-admin and ends their logins: for the command, which sends no mail.
 * @throws NOT_FOUND, CONFLICT INVALID_STATE
 */
export const resetAdminMfa = async (work: Work, email: string): Promise<PlatformAdmin> => {
  const row = await findAdminByEmail(work, email);
  await resetFactors(work, undefined, { kind: "admin", row });
  return row;
};
