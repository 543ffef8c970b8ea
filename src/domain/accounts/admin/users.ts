import type { FilterQuery } from "@mikro-orm/core";
import { sql } from "kysely";
import { audit } from "../audit/audit.ts";
import { revokeSessions } from "../auth/session-list.ts";
import { User } from "../auth/user.ts";
import type { MemberStatus } from "../../kernel/caller.ts";
import { countUpTo, type Total, type Work } from "../../kernel/work.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import { containing } from "../../kernel/search.ts";
import { shown } from "../../kernel/shown.ts";

export type UserQuery = PageQuery & {
  sort: "createdAt" | "email" | "lastLoginAt";
  order: "asc" | "desc";
  tenantId?: string | undefined;
  status?: MemberStatus | undefined;
  isDisabled?: boolean | undefined;
  /** Part of the address. */
  search?: string | undefined;
};

/** A user as returned by the API. */
export const showPlatformUser = (user: User) =>
  shown(user, [
    "id",
    "tenantId",
    "email",
    "name",
    "role",
    "status",
    "emailVerified",
    "mfaEnabled",
    "disabledAt",
    "lastLoginAt",
    "createdAt",
    "updatedAt",
  ]);

/** Returns users of all tenants. */
export const listPlatformUsers = async (work: Work, query: UserQuery): Promise<Total & { users: User[] }> => {
  const { tenantId, status, isDisabled, search } = query;
  const where: FilterQuery<User> = {
    ...(tenantId === undefined ? {} : { tenantId }),
    ...(status === undefined ? {} : { status }),
    ...(isDisabled === undefined ? {} : { disabledAt: isDisabled ? { $ne: null } : null }),
    ...(search === undefined ? {} : { email: { $ilike: containing(search) } }),
  };
  const users = await work.em.find(User, where, {
    orderBy: [{ [query.sort]: `${query.order} nulls last` }, { id: query.order }],
    limit: query.limit,
    offset: offsetOf(query),
  });
  return { users, ...(await countUpTo(work, User, where)) };
};

/** @throws NOT_FOUND */
export const getPlatformUser = async ({ em }: Work, userId: string): Promise<User> => {
  const user = isId(userId) ? await em.findOne(User, { id: userId }) : null;
  if (!user) throw notFound("User");
  return user;
};

/** As `getPlatformUser`, locked until the commit: of two concurrent changes, one is rejected. */
const lockUser = async (work: Work, userId: string): Promise<User> => {
  const user = await getPlatformUser(work, userId);
  await sql`select 1 from users where id = ${user.id}::uuid for no key update`.execute(work.db);
  const locked = await work.em.findOne(User, { id: user.id }, { refresh: true });
  if (!locked) throw notFound("User");
  return locked;
};

/**
 * Disables a user and ends their sessions; also a tenant's last OWNER. API keys created by the
 * user belong to the project and are kept. @throws NOT_FOUND, CONFLICT INVALID_STATE
 */
export const disableUser = async (work: Work, userId: string, reason: string): Promise<User> => {
  const user = await lockUser(work, userId);
  if (user.disabledAt) throw conflict("INVALID_STATE", "The user is disabled already");
  user.disabledAt = work.now;
  user.updatedAt = work.now;
  // So that enabling the user later does not restore old sessions.
  await revokeSessions(work, user.id, { reason: "USER_DISABLED" });
  await auditUser(work, "user.disabled", user, { reason });
  return user;
};

/** Enables a user again. @throws NOT_FOUND, CONFLICT INVALID_STATE */
export const enableUser = async (work: Work, userId: string): Promise<User> => {
  const user = await lockUser(work, userId);
  if (!user.disabledAt) throw conflict("INVALID_STATE", "The user is not disabled");
  user.disabledAt = null;
  user.updatedAt = work.now;
  await auditUser(work, "user.enabled", user, {});
  return user;
};

const auditUser = (work: Work, action: string, { id, email, tenantId }: User, data: object): Promise<void> =>
  audit(work, { action, target: { type: "user", id }, tenantId, data: { email, ...data } });
