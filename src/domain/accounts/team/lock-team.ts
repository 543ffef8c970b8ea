import { sql } from "kysely";
import { User } from "../auth/user.ts";
import type { Role } from "../../kernel/caller.ts";
import { conflict, forbidden, notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import { lockTenant } from "../tenants/lock-tenant.ts";
import type { Tenant } from "../tenants/tenant.ts";
import type { Work } from "../../kernel/work.ts";
import { requireGrant } from "./grants.ts";

/** The user who changes a team: their role is read again, since that of the request may be 5 s old. */
export type TeamActor = { tenantId: string; userId: string };

export type LockedTeam = { tenant: Tenant; caller: User; member: User; owners: User[] };

/** @throws FORBIDDEN INSUFFICIENT_ROLE, MEMBERSHIP_SUSPENDED */
export const requireAdmin = (caller: User | undefined): User => {
  if (!caller || (caller.role !== "OWNER" && caller.role !== "ADMIN"))
    throw forbidden("INSUFFICIENT_ROLE", "This operation needs one of the roles OWNER, ADMIN");
  if (caller.status !== "ACTIVE" || caller.disabledAt)
    throw forbidden("MEMBERSHIP_SUSPENDED", "An OWNER or ADMIN of the tenant has suspended your membership");
  return caller;
};

/**
 * Locks the tenant, its OWNERs, the caller and the member until the commit, so that of two members who remove
 * one another only one succeeds. @throws NOT_FOUND for a user who is not a member of the tenant
 */
export const lockTeam = async (
  work: Work,
  { tenantId, userId }: TeamActor,
  memberId: string,
): Promise<LockedTeam> => {
  if (!isId(memberId)) throw notFound("Member");
  const tenant = await lockTenant(work, tenantId);
  const { rows } = await sql<{ id: string }>`
    select id from users where tenant_id = ${tenantId}::uuid
      and (role = 'OWNER' or id in (${userId}::uuid, ${memberId}::uuid))
    order by id for update`.execute(work.db);
  const ids = rows.map(({ id }) => id);
  const users = await work.em.find(User, { id: { $in: ids } }, { refresh: true });
  const member = users.find(({ id }) => id === memberId.toLowerCase());
  const caller = users.find(({ id }) => id === userId);
  if (!caller) throw forbidden("INSUFFICIENT_ROLE", "You are no longer a member of the tenant");
  if (!member) throw notFound("Member");
  return { tenant, caller, member, owners: users.filter(isActiveOwner) };
};

export const isActiveOwner = ({ role, status, disabledAt }: User): boolean =>
  role === "OWNER" && status === "ACTIVE" && !disabledAt;

/** For a change after which `member` is no longer an OWNER. @throws CONFLICT LAST_OWNER */
export const requireOtherOwner = ({ member, owners }: Pick<LockedTeam, "member" | "owners">): void => {
  if (!isActiveOwner(member) || owners.some(({ id }) => id !== member.id)) return;
  throw conflict("LAST_OWNER", "A tenant needs an OWNER: make another member OWNER first");
};

/**
 * Locks and returns the tenant of a user who may invite with that role. @throws FORBIDDEN INSUFFICIENT_ROLE
 */
export const lockForInviter = async (
  work: Work,
  { tenantId, userId }: TeamActor,
  role: Role,
): Promise<{ tenant: Tenant; inviter: User }> => {
  const tenant = await lockTenant(work, tenantId);
  const user = await work.em.findOne(User, { id: userId, tenantId }, { refresh: true });
  const inviter = requireAdmin(user ?? undefined);
  requireGrant(inviter.role, role);
  return { tenant, inviter };
};
