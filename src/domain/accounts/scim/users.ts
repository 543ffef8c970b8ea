import { LockMode, UniqueConstraintViolationException } from "@mikro-orm/core";
import { sql } from "kysely";
import { audit } from "../audit/audit.ts";
import { endUserTokens } from "../auth/one-time-secrets.ts";
import { forgetSessions, revokeSessions } from "../auth/sessions.ts";
import { User } from "../auth/user.ts";
import type { Mail } from "../email/mail.ts";
import { addressOf, type Draft, nameOf, userNameOf } from "./draft.ts";
import { AddressTaken, type Comparison, invalidValue, notUnique } from "./filter.ts";
import {
  draftOf,
  findUser,
  findUsers,
  groupCountsOf,
  groupsOfUsers,
  requireVersion,
  type Resource,
  SCIM_SHOWN_GROUPS_MAX,
  type ScimPage,
  showUser,
  type UserRow,
} from "./query.ts";
import { readSettings, rolesByGroups } from "./roles.ts";
import { disownStranger, releaseLinksOf } from "../sso/links.ts";
import { SsoConfiguration } from "../sso/configuration.ts";
import { domainOf } from "../sso/domain-name.ts";
import { isVerified } from "../sso/domains.ts";
import { refuseForBreakGlass } from "../sso/enforcement.ts";
import { isActiveOwner, requireOtherOwner } from "../team/accept.ts";
import { endInvitations, requireSeat } from "../team/invitations.ts";
import { addUser, lockTenant, type NewUser } from "../tenants/tenant.ts";
import { featureUnavailable, hasFeature, type Plan } from "../../kernel/caller.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";

/**
 * Refuses an address that single sign-on would make no account for: it must be of a domain that the tenant
 * has verified, and of `allowedDomains` where these are set. @throws ScimError invalidValue
 */
const requireOwnAddress = async (work: Work, tenantId: string, email: string): Promise<void> => {
  const domain = domainOf(email);
  if (!(await isVerified(work, tenantId, domain)))
    throw invalidValue("emails", `must be of a domain that the tenant has verified: ${domain} is none`);
  const sso = await work.em.findOne(SsoConfiguration, { tenantId });
  if (!sso || sso.allowedDomains.length === 0 || sso.allowedDomains.includes(domain)) return;
  throw invalidValue("emails", `must be of one of the allowedDomains of single sign-on: ${domain} is none`);
};

/** The tenant whose provider asks, with its plan, and the address of the service. */
export type ScimScope = { tenantId: string; plan: Plan; base: string };
/** A change of a resource, unless it has another version by now. */
export type Change = { id: string; ifMatch: string | undefined };

/** Returns a page of users, and how many match. @throws ScimError invalidFilter */
export const listScimUsers = async (
  work: Work,
  { tenantId, base }: ScimScope,
  { filter, page }: { filter: readonly Comparison[]; page: ScimPage },
): Promise<{ resources: Resource[]; total: number }> => {
  const { rows, total } = await findUsers(work, tenantId, filter, page);
  const some = await bounded(work, tenantId, rows);
  const groups = await groupsOfUsers(
    work,
    tenantId,
    some.map(({ id }) => id),
  );
  return { resources: some.map((row) => showUser(row, groups.get(row.id) ?? [], base)), total };
};

/** As many leading users as have SCIM_SHOWN_GROUPS_MAX groups together, and at least one. */
const bounded = async (work: Work, tenantId: string, rows: UserRow[]): Promise<UserRow[]> => {
  const counts = await groupCountsOf(
    work,
    tenantId,
    rows.map(({ id }) => id),
  );
  let shown = 0;
  return rows.filter(({ id }, index) => {
    shown += counts.get(id) ?? 0;
    return index === 0 || shown <= SCIM_SHOWN_GROUPS_MAX;
  });
};

/** Returns a user. @throws NOT_FOUND also for another tenant's */
export const getScimUser = async (work: Work, scope: ScimScope, id: string): Promise<Resource> =>
  shown(work, scope, await mustFind(work, scope, id));

const mustFind = async (work: Work, { tenantId }: ScimScope, id: string): Promise<UserRow> => {
  const row = await findUser(work, tenantId, id);
  if (!row) throw notFound("User");
  return row;
};

const shown = async (work: Work, { tenantId, base }: ScimScope, row: UserRow): Promise<Resource> => {
  const groups = await groupsOfUsers(work, tenantId, [row.id]);
  return showUser(row, groups.get(row.id) ?? [], base);
};

/** An account belongs to one tenant: an address of another tenant's is only seen when it is written. */
const unlessTaken = async <T>(email: string, write: Promise<T>): Promise<T> => {
  try {
    return await write;
  } catch (error) {
    throw error instanceof UniqueConstraintViolationException ? new AddressTaken(email) : error;
  }
};

/** Refuses a userName that names another user of the tenant, which is locked. */
const requireFreeName = async (
  work: Work,
  tenantId: string,
  { userName, exceptId }: { userName: string; exceptId?: string },
): Promise<void> => {
  const filter = [{ attribute: "username", value: userName }];
  const { rows } = await findUsers(work, tenantId, filter, { startIndex: 1, count: 2 });
  if (rows.some(({ id }) => id !== exceptId)) throw notUnique("A user with this userName exists already");
};

/** Stores what the provider says of a user. */
const store = async (
  { db, now }: Work,
  { tenantId, userId }: { tenantId: string; userId: string },
  draft: Draft,
): Promise<void> => {
  const { externalId, displayName, formatted, givenName, familyName } = draft;
  await sql`
    insert into scim_users (user_id, tenant_id, user_name, external_id, display_name, formatted_name,
      given_name, family_name, gives_email, updated_at)
    values (${userId}::uuid, ${tenantId}::uuid, ${userNameOf(draft)}, ${externalId}, ${displayName},
      ${formatted}, ${givenName}, ${familyName}, ${addressOf(draft).isGiven},
      ${now.toISOString()}::timestamptz)
    on conflict (user_id) do update set user_name = excluded.user_name, external_id = excluded.external_id,
      display_name = excluded.display_name, formatted_name = excluded.formatted_name,
      given_name = excluded.given_name, family_name = excluded.family_name,
      gives_email = excluded.gives_email, updated_at = excluded.updated_at`.execute(db);
};

/**
 * Makes a member of the tenant, with the default role. Somebody with the address who waits to be accepted
 * becomes that member, without what could sign in to their account until now.
 *
 * @throws ScimError uniqueness for a userName or address of a user, invalidValue for an address outside the
 * verified domains; PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED
 */
export const createScimUser = async (work: Work, scope: ScimScope, draft: Draft): Promise<Resource> => {
  const { tenantId } = scope;
  const [userName, { email }] = [userNameOf(draft), addressOf(draft)];
  const tenant = await lockTenant(work, tenantId);
  await requireFreeName(work, tenantId, { userName });
  await requireOwnAddress(work, tenantId, email);
  // Locked, so that they cannot change the address meanwhile.
  const lock = { lockMode: LockMode.PESSIMISTIC_WRITE, refresh: true } as const;
  const known = await work.em.findOne(User, { email, tenantId }, lock);
  if (known && known.status !== "PENDING") throw new AddressTaken(email);
  await endInvitations(work, { tenantId, email }, "scim");
  await requireSeat(work, tenant);
  const { defaultRole: role } = await readSettings(work, tenantId);
  const { name, isGiven } = nameOf(draft, email);
  const fields = {
    name,
    role,
    emailVerified: true,
    profileCompleted: isGiven,
    status: draft.active ? ("ACTIVE" as const) : ("SUSPENDED" as const),
  };
  const user = known
    ? await accept(work, known, fields)
    : await unlessTaken(email, addUser(work, tenantId, { ...fields, email, passwordHash: null }));
  await store(work, { tenantId, userId: user.id }, draft);
  await record(work, user, "member.provisioned", { email, role, userName });
  return getScimUser(work, scope, user.id);
};

/** Makes somebody who asked to join a member. */
const accept = async (
  work: Work,
  user: User,
  fields: Omit<NewUser, "email" | "passwordHash">,
): Promise<User> => {
  if (!user.emailVerified) await disownStranger(work, user);
  Object.assign(user, { ...fields, updatedAt: work.now });
  await work.em.flush();
  return user;
};

const record = (
  work: Work,
  { id, tenantId }: Pick<User, "id" | "tenantId">,
  action: string,
  data: Record<string, unknown> = {},
): Promise<void> =>
  audit(work, { action, target: { type: "user", id }, tenantId, data: { ...data, by: "scim" } });

type Locked = { row: UserRow; member: User; owners: User[] };

/** Locks the tenant, its OWNERs and a user, as changes of a team do. @throws NOT_FOUND, OtherVersion */
const lockUser = async (work: Work, scope: ScimScope, { id, ifMatch }: Change): Promise<Locked> => {
  const { tenantId } = scope;
  await lockTenant(work, tenantId);
  const row = await mustFind(work, scope, id);
  await sql`
    select 1 from users where tenant_id = ${tenantId}::uuid and (role = 'OWNER' or id = ${row.id}::uuid)
    order by id for update`.execute(work.db);
  if (ifMatch !== undefined) requireVersion(ifMatch, await shown(work, scope, row));
  const where = { tenantId, $or: [{ role: "OWNER" as const }, { id: row.id }] };
  const users = await work.em.find(User, where, { refresh: true });
  const member = users.find((user) => user.id === row.id);
  if (!member) throw notFound("User");
  return { row, member, owners: users.filter(isActiveOwner) };
};

/**
 * Changes a user as `next` says, given what is known of them. Deactivation ends their sessions.
 *
 * @throws NOT_FOUND; OtherVersion; ScimError uniqueness, invalidValue; CONFLICT LAST_OWNER, INVALID_STATE for
 * the break-glass OWNER, and for the address of any OWNER; PAYMENT_REQUIRED
 */
export const changeScimUser = async (
  work: Work,
  scope: ScimScope,
  { mail, ...change }: Change & { mail: Mail },
  next: (known: Draft) => Draft,
): Promise<Resource> => {
  const { tenantId } = scope;
  const locked = await lockUser(work, scope, change);
  const { row, member } = locked;
  // Whom a super-admin has disabled is shown as inactive, which is nothing that the provider has said.
  const before = { ...draftOf(row), active: member.status === "ACTIVE" };
  const draft = withinPlan(scope, before, next(before));
  const userName = userNameOf(draft);
  if (userName.toLowerCase() !== userNameOf(before).toLowerCase())
    await requireFreeName(work, tenantId, { userName, exceptId: member.id });
  const { email } = addressOf(draft);
  const { name } = nameOf(draft, email);
  if (name !== nameOf(before, row.email).name) member.name = name;
  if (email !== member.email) await moveAddress(work, { member, mail }, email);
  await moveActive(work, locked, draft.active);
  if (JSON.stringify(draft) !== JSON.stringify(before) || row.userName === null) {
    await store(work, { tenantId, userId: member.id }, draft);
    member.updatedAt = work.now;
    await record(work, member, "member.updated", { userName, email });
  }
  await work.em.flush();
  return getScimUser(work, scope, member.id);
};

/** A plan without SCIM leaves deactivating, whatever else is sent with it. @throws PAYMENT_REQUIRED */
const withinPlan = ({ plan }: ScimScope, before: Draft, draft: Draft): Draft => {
  if (hasFeature({ plan }, "sso")) return draft;
  if (draft.active) throw featureUnavailable(plan, "sso");
  return { ...before, active: false };
};

/** Changes the address, which the tenant's domain vouches for; links that were mailed to the old one end. */
const moveAddress = async (
  work: Work,
  { member, mail }: { member: User; mail: Mail },
  email: string,
): Promise<void> => {
  const { id: userId, tenantId, name, email: oldEmail } = member;
  await refuseForBreakGlass(work, member);
  // With the address goes the way to a new password.
  if (member.role === "OWNER")
    throw conflict("INVALID_STATE", "An OWNER changes their address themselves: PATCH /auth/me");
  await requireOwnAddress(work, tenantId, email);
  if ((await work.em.count(User, { email, tenantId })) > 0) throw new AddressTaken(email);
  Object.assign(member, { email, emailVerified: true });
  await unlessTaken(email, work.em.flush());
  await endUserTokens(work, userId, ["VERIFY_EMAIL", "CHANGE_EMAIL", "RESET_PASSWORD"]);
  // Some providers name people by their address: the next sign-in may be under the new one.
  await releaseLinksOf(work, userId);
  const values = { name, newEmail: email };
  await mail.queue(work, { template: "email-changed", to: oldEmail, values, tenantId, userId });
  await record(work, member, "user.email_changed", { oldEmail, newEmail: email });
};

const moveActive = async (work: Work, locked: Locked, isActive: boolean): Promise<void> => {
  const { member } = locked;
  // By itself: whom a super-admin has disabled may be let in again.
  if (isActive === (member.status === "ACTIVE")) return;
  if (isActive) {
    const roles = await rolesByGroups(work, member.tenantId, [member.id]);
    const role = member.role === "OWNER" ? member.role : (roles.get(member.id) ?? member.role);
    Object.assign(member, { status: "ACTIVE", role });
    await record(work, member, "member.reactivated", { role });
  } else {
    requireOtherOwner(locked);
    await refuseForBreakGlass(work, member);
    member.status = "SUSPENDED";
    await releaseLinksOf(work, member.id);
    await revokeSessions(work, member.id, { reason: "USER_DISABLED" });
    await record(work, member, "member.suspended");
  }
  work.afterCommit(forgetSessions);
};

/**
 * Removes a member with their account and sessions.
 * @throws NOT_FOUND, OtherVersion, CONFLICT LAST_OWNER, INVALID_STATE for the break-glass OWNER
 */
export const deleteScimUser = async (work: Work, scope: ScimScope, change: Change): Promise<void> => {
  const locked = await lockUser(work, scope, change);
  const { member } = locked;
  requireOtherOwner(locked);
  await refuseForBreakGlass(work, member);
  await record(work, member, "member.removed", { email: member.email, role: member.role });
  await work.em.nativeDelete(User, { id: member.id });
  work.afterCommit(forgetSessions);
};
