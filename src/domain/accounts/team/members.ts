import { audit, ofTenant, ofUser } from "../audit/audit.ts";
import { forgetSessions } from "../auth/sessions.ts";
import { User } from "../auth/user.ts";
import type { MemberStatus, Role } from "../../kernel/caller.ts";
import { findPage, getRow, type Total, type Work } from "../../kernel/work.ts";
import { normaliseEmail } from "../email/address.ts";
import { conflict, invalid } from "../../kernel/errors.ts";
import type { PageQuery } from "../../kernel/paging.ts";
import { definedOf, shown } from "../../kernel/json.ts";
import type { Tenant } from "../tenants/tenant.ts";
import { refuseForBreakGlass } from "../sso/enforcement.ts";
import { releaseLinksOf } from "../sso/resolve.ts";
import {
  isActiveOwner,
  lockTeam,
  requireAdmin,
  requireGrant,
  requireOtherOwner,
  type TeamActor,
} from "./accept.ts";
import { endInvitations, requireSeat } from "./invitations.ts";

export const MEMBER_SORTS = ["name", "email", "createdAt", "lastLoginAt"] as const;

type MemberQuery = PageQuery & {
  sort: (typeof MEMBER_SORTS)[number];
  order: "asc" | "desc";
  role?: Role | undefined;
  status?: MemberStatus | undefined;
};

/** Whether this server requires verified addresses: one that sends no mail cannot. */
type AddressRule = { isVerifiedEmailRequired: boolean };

/** A VIEWER sees the members, but not their addresses. */
const seesAll = (reader: Role): boolean => reader !== "VIEWER";

/** Converts a member to the API representation for a role. */
export const showMember = (user: User, reader: Role) => ({
  ...shown(user, ["id", "name", "role", "status", "createdAt"]),
  userId: user.id,
  ...(seesAll(reader) ? shown(user, ["email", "emailVerified", "mfaEnabled", "lastLoginAt"]) : {}),
});

/** Returns the tenant's members. @throws VALIDATION_ERROR for an order that would reveal hidden fields */
export const listMembers = async (
  work: Work,
  { tenantId, reader }: { tenantId: string; reader: Role },
  query: MemberQuery,
): Promise<Total & { rows: User[] }> => {
  const { sort, order, role, status } = query;
  if (!seesAll(reader) && (sort === "email" || sort === "lastLoginAt"))
    throw invalid("sort", `a VIEWER cannot sort by ${sort}`);
  const orderBy = [{ [sort]: order === "asc" ? "asc nulls first" : "desc nulls last" }, { id: order }];
  return findPage(work, User, { tenantId, ...definedOf({ role, status }) }, { query, orderBy });
};

/** @throws NOT_FOUND also for another tenant's */
export const getMember = (work: Work, tenantId: string, id: string): Promise<User> =>
  getRow(work, User, "Member", { id, tenantId });

type MemberChange = { role?: Role | undefined; status?: "ACTIVE" | "SUSPENDED" | undefined };

/**
 * Changes a member's role, accepts a waiting one, or suspends or reinstates one. It applies to
 * their tokens.
 *
 * @throws NOT_FOUND, FORBIDDEN INSUFFICIENT_ROLE for what the caller may not grant, CONFLICT LAST_OWNER,
 * INVALID_STATE for one's own status, PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED
 */
export const changeMember = async (
  work: Work,
  { actor, rule }: { actor: TeamActor; rule: AddressRule },
  memberId: string,
  change: MemberChange,
): Promise<User> => {
  const team = await lockTeam(work, actor, memberId);
  const { member, caller, tenant } = team;
  const { role = member.role, status = member.status } = change;
  requireGrant(requireAdmin(caller).role, member.role);
  requireGrant(caller.role, role);
  if (role !== "OWNER" || status !== "ACTIVE") {
    requireOtherOwner(team);
    await refuseForBreakGlass(work, member);
  }
  if (status !== member.status) await moveStatus(work, { member, caller, tenant, rule }, status);
  if (role !== member.role) {
    await auditMember(work, member, "member.role_changed", { from: member.role, to: role });
    member.role = role;
  }
  member.updatedAt = work.now;
  work.afterCommit(forgetSessions);
  return member;
};

type StatusMove = { member: User; caller: User; tenant: Tenant; rule: AddressRule };

const moveStatus = async (
  work: Work,
  { member, caller, tenant, rule }: StatusMove,
  status: MemberStatus,
): Promise<void> => {
  if (member.id === caller.id)
    throw conflict("INVALID_STATE", "You cannot suspend yourself; leave with POST /team/leave");
  if (member.status === "PENDING") {
    if (status !== "ACTIVE")
      throw conflict("INVALID_STATE", "The member was never accepted; remove them instead");
    await accept(work, { member, tenant, rule });
    return;
  }
  member.status = status;
  if (status === "SUSPENDED") await releaseLinksOf(work, member.id);
  await auditMember(work, member, status === "ACTIVE" ? "member.reactivated" : "member.suspended");
};

/** Accepts a user who asked to join. */
const accept = async (work: Work, { member, tenant, rule }: Omit<StatusMove, "caller">): Promise<void> => {
  // Anybody may ask to join under any address: only verification proves who it is.
  if (rule.isVerifiedEmailRequired && !member.emailVerified)
    throw conflict("INVALID_STATE", "They have not verified their email address yet");
  await endInvitations(work, { tenantId: tenant.id, email: member.email }, "acceptance");
  await requireSeat(work, tenant);
  member.status = "ACTIVE";
  await auditMember(work, member, "member.accepted", { role: member.role });
};

/** Returns the user who asked to join the tenant with this address, if any. */
export const findWaiting = async ({ em }: Work, tenantId: string, email: string): Promise<User | undefined> =>
  (await em.findOne(User, { tenantId, email: normaliseEmail(email), status: "PENDING" })) ?? undefined;

/**
 * Removes a member with their account and sessions; what they created is kept. A member may remove
 * themselves.
 *
 * @throws NOT_FOUND, FORBIDDEN INSUFFICIENT_ROLE, CONFLICT LAST_OWNER
 */
export const removeMember = async (work: Work, actor: TeamActor, memberId: string): Promise<void> => {
  const team = await lockTeam(work, actor, memberId);
  const { member, caller } = team;
  const isLeaving = member.id === caller.id;
  if (!isLeaving) requireGrant(requireAdmin(caller).role, member.role);
  requireOtherOwner(team);
  await refuseForBreakGlass(work, member);
  const data = { email: member.email, role: member.role };
  await auditMember(work, member, isLeaving ? "member.left" : "member.removed", data);
  await work.em.nativeDelete(User, { id: member.id });
  work.afterCommit(forgetSessions);
};

const auditMember = (work: Work, member: User, action: string, data: Record<string, unknown> = {}) =>
  audit(work, { ...ofUser(member), action, data });

/**
 * Makes another member OWNER in place of the caller, who becomes ADMIN. The caller has just reauthenticated.
 *
 * @throws NOT_FOUND, FORBIDDEN INSUFFICIENT_ROLE, CONFLICT INVALID_STATE
 */
export const transferOwnership = async (work: Work, actor: TeamActor, memberId: string): Promise<User> => {
  const { caller, member } = await lockTeam(work, actor, memberId);
  requireGrant(requireAdmin(caller).role, "OWNER");
  if (member.status !== "ACTIVE" || member.disabledAt || isActiveOwner(member))
    throw conflict("INVALID_STATE", "Ownership goes to an active member who is not an OWNER yet");
  await refuseForBreakGlass(work, caller);
  const data = { from: caller.id, to: member.id };
  await audit(work, { ...ofTenant(actor.tenantId), action: "tenant.ownership_transferred", data });
  Object.assign(member, { role: "OWNER", updatedAt: work.now });
  Object.assign(caller, { role: "ADMIN", updatedAt: work.now });
  work.afterCommit(forgetSessions);
  return member;
};
