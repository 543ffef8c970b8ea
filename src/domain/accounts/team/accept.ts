import { defineEntity, p, UniqueConstraintViolationException } from "@mikro-orm/core";
import { sql } from "kysely";
import { audit } from "../audit/audit.ts";
import { hashRandomSecret } from "../auth/one-time-secrets.ts";
import { type Passwords, refuseWeakPassword } from "../auth/passwords.ts";
import { forgetSessions, type SignedIn, startSession } from "../auth/sessions.ts";
import type { Tokens } from "../auth/tokens.ts";
import { User } from "../auth/user.ts";
import { normaliseEmail } from "../email/address.ts";
import type { Mail } from "../email/mail.ts";
import { type CountingParts, countUse, LIMITS } from "../rate-limits/limiter.ts";
import { isUnproved, releaseUnproved } from "../sso/domains.ts";
import { enforcedUrl } from "../sso/enforcement.ts";
import { addUser, lockTenant, Tenant } from "../tenants/tenant.ts";
import type { Role } from "../../kernel/caller.ts";
import { conflict, DomainError, forbidden, notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import type { Transact, Work } from "../../kernel/work.ts";

/** Returns whether a role may grant another: an OWNER all, an ADMIN all but OWNER, others none. */
const mayGrant = (by: Role, role: Role): boolean => by === "OWNER" || (by === "ADMIN" && role !== "OWNER");

/** @throws FORBIDDEN INSUFFICIENT_ROLE */
export const requireGrant = (by: Role, role: Role): void => {
  if (mayGrant(by, role)) return;
  throw forbidden("INSUFFICIENT_ROLE", `The role ${by} may not give or take away the role ${role}`);
};

/**
 * Counts a mail that the recipient did not request: per tenant 1 a minute and 5 a day to an address, and 50
 * an hour. Tenants are counted separately, so that none uses up the limits of another. Not to be called in a
 * transaction. @throws RateLimited EMAIL_RATE
 */
export const countInvitationMail = async (
  parts: CountingParts,
  tenantId: string,
  email: string,
): Promise<void> => {
  const key = `invitation:${tenantId}:${email}`;
  const counts = [
    { bucket: LIMITS.mailTenant, key: `invitation:${tenantId}` },
    { bucket: LIMITS.mailMinute, key },
    { bucket: LIMITS.mailDay, key },
  ];
  await countUse(parts, counts, "EMAIL_RATE", "Too many invitations by mail");
};

export const INVITATION_STATUSES = ["PENDING", "ACCEPTED", "REVOKED", "EXPIRED"] as const;
export type InvitationStatus = (typeof INVITATION_STATUSES)[number];

const InvitationSchema = defineEntity({
  name: "Invitation",
  tableName: "invitations",
  properties: {
    id: p.uuid().primary(),
    tenantId: p.uuid(),
    /** Lower case; only a verified owner of this address may accept. */
    email: p.text(),
    role: p.text().$type<Role>(),
    tokenHash: p.text(),
    status: p.text().$type<InvitationStatus>(),
    invitedBy: p.uuid(),
    expiresAt: p.datetime(3),
    sentAt: p.datetime(3),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});
/** An invitation of an address to join a tenant. */
export class Invitation extends InvitationSchema.class {}
InvitationSchema.setClass(Invitation);

/** The membership that an invitation grants to the verified owner of its address. */
export type Invited = { invitationId: string; tenantId: string; role: Role };

/** An invitation that can be accepted now, with its tenant. */
type OpenInvitation = { invitation: Invitation; tenant: Tenant };

/** Returns the current status: a PENDING one expires by itself. */
export const statusOf = (invitation: Invitation, now: Date): InvitationStatus =>
  invitation.status === "PENDING" && invitation.expiresAt <= now ? "EXPIRED" : invitation.status;

/**
 * Returns the invitation of a mailed token, without consuming it.
 *
 * @throws NOT_FOUND for an unknown token, GONE INVITATION_EXPIRED, INVITATION_REVOKED (also when the inviter
 * has lost the right to invite), CONFLICT INVALID_STATE when accepted before, FORBIDDEN TENANT_SUSPENDED
 */
export const findInvitation = async (work: Work, token: string): Promise<OpenInvitation> => {
  const where = { tokenHash: hashRandomSecret(token) };
  const invitation = await work.em.findOne(Invitation, where, { refresh: true });
  return requireOpen(work, invitation);
};

const requireOpen = async ({ em, now }: Work, invitation: Invitation | null): Promise<OpenInvitation> => {
  const tenant = invitation && (await em.findOne(Tenant, { id: invitation.tenantId, deletedAt: null }));
  if (!invitation || !tenant) throw notFound("Invitation");
  refuseUnless(statusOf(invitation, now));
  const { tenantId, invitedBy, role } = invitation;
  const inviter = await em.findOne(User, { id: invitedBy, tenantId, status: "ACTIVE", disabledAt: null });
  if (!inviter || !mayGrant(inviter.role, role)) throw revoked();
  if (tenant.approvalStatus === "SUSPENDED")
    throw forbidden("TENANT_SUSPENDED", "The tenant that invites you is suspended");
  return { invitation, tenant };
};

const refuseUnless = (status: InvitationStatus): void => {
  if (status === "REVOKED") throw revoked();
  if (status === "ACCEPTED")
    throw conflict("INVALID_STATE", "The invitation was accepted already; log in instead");
  if (status === "EXPIRED")
    throw new DomainError("GONE", "The invitation has expired; ask for a new one", {
      reason: "INVITATION_EXPIRED",
    });
};

const revoked = (): DomainError =>
  new DomainError("GONE", "The invitation was revoked; ask for a new one", {
    reason: "INVITATION_REVOKED",
  });

/**
 * Consumes an invitation, in the commit that creates the member. The token alone proves the address when it
 * came by mail; `email` is the address of the invitee. Of several concurrent uses, one succeeds.
 *
 * @throws as `findInvitation`, and FORBIDDEN INVITATION_EMAIL_MISMATCH
 */
export const consumeInvitation = async (work: Work, token: string, email: string): Promise<Invited> => {
  const tokenHash = hashRandomSecret(token);
  const known = await work.em.findOne(Invitation, { tokenHash });
  if (!known) throw notFound("Invitation");
  await lockWithTenant(work, known);
  const { invitation } = await findInvitation(work, token);
  if (invitation.email !== normaliseEmail(email)) {
    const message = "The invitation is for another email address; use the address that it was sent to";
    throw forbidden("INVITATION_EMAIL_MISMATCH", message);
  }
  return closeAccepted(work, invitation);
};

/**
 * The tenant is locked first, as where invitations are created: so seats are counted before or after, never
 * in between.
 */
const lockWithTenant = async (work: Work, { id, tenantId }: Invitation): Promise<void> => {
  await lockTenant(work, tenantId);
  await sql`select 1 from invitations where id = ${id}::uuid for update`.execute(work.db);
};

const closeAccepted = async (work: Work, invitation: Invitation): Promise<Invited> => {
  Object.assign(invitation, { status: "ACCEPTED", updatedAt: work.now });
  const { id, tenantId, role } = invitation;
  const target = { type: "invitation", id };
  await audit(work, {
    action: "invitation.accepted",
    target,
    tenantId,
    data: { email: invitation.email, role },
  });
  return { invitationId: id, tenantId, role };
};

/**
 * As `consumeInvitation`, for somebody whose address the tenant's identity provider vouches for, in place of
 * the mailed token. @returns undefined where there is no invitation that can be accepted now
 */
export const consumeInvitationOf = async (
  work: Work,
  { tenantId, email, isEligible }: { tenantId: string; email: string; isEligible: (role: Role) => boolean },
): Promise<Invited | undefined> => {
  const where = { tenantId, email, status: "PENDING" } as const;
  const known = await work.em.findOne(Invitation, where);
  if (!known || !isEligible(known.role)) return undefined;
  await lockWithTenant(work, known);
  const invitation = await work.em.findOneOrFail(Invitation, { id: known.id }, { refresh: true });
  try {
    await requireOpen(work, invitation);
  } catch (error) {
    if (error instanceof DomainError) return undefined;
    throw error;
  }
  return closeAccepted(work, invitation);
};

type JoinParts = { transact: Transact; tokens: Tokens; passwords: Passwords; mail: Mail };
type Joining = { token: string; name: string; password: string };

/** Returns the details of an invitation for its link. @throws as `findInvitation` */
export const readInvitation = async (work: Work, token: string) => {
  const { invitation, tenant } = await findInvitation(work, token);
  const { email, role } = invitation;
  return { email, tenantName: tenant.name, role, authUrl: await enforcedUrl(work, tenant.id) };
};

/**
 * Creates the account that an invitation is for, and signs it in. The token proves the address. A waiting
 * account registered under it without that proof is replaced; one of another tenant gives the address up, if
 * this one has proved the domain.
 *
 * @throws as `findInvitation`, CONFLICT EMAIL_ALREADY_EXISTS for an address that has an account,
 * VALIDATION_ERROR PASSWORD_TOO_WEAK
 */
export const joinByInvitation = async (
  { transact, tokens, passwords, mail }: JoinParts,
  { token, name, password }: Joining,
): Promise<SignedIn> => {
  const { email, tenantId } = await transact(async (work) => {
    const { invitation } = await findInvitation(work, token);
    if (!(await isUnproved(work, mail, invitation))) await requireFree(work, invitation);
    return invitation;
  });
  refuseWeakPassword(password, { email, name });
  const passwordHash = await passwords.hash(password);
  return transact(async (work) => {
    const { role } = await consumeInvitation(work, token, email);
    await releaseUnproved(work, mail, { email, tenantId });
    await requireFree(work, { email, tenantId });
    const removed = await work.em.nativeDelete(User, { email, tenantId, status: "PENDING" });
    if (removed > 0) work.afterCommit(forgetSessions);
    const account = { email, name, passwordHash, emailVerified: true };
    const user = await addUser(work, tenantId, { ...account, role, status: "ACTIVE" });
    return startSession(work, tokens, user, { method: "INVITATION" });
  }).catch((error: unknown) => {
    throw error instanceof UniqueConstraintViolationException ? taken() : error;
  });
};

/**
 * @throws CONFLICT EMAIL_ALREADY_EXISTS unless the address is free, or of a user who waits for this tenant
 */
const requireFree = async (
  { em }: Work,
  { email, tenantId }: { email: string; tenantId: string },
): Promise<void> => {
  const user = await em.findOne(User, { email });
  if (user && !(user.tenantId === tenantId && user.status === "PENDING")) throw taken();
};

const taken = () =>
  conflict(
    "EMAIL_ALREADY_EXISTS",
    "An account with this email address exists already; an account belongs to one tenant",
  );

/** The user who changes a team: their role is read again, since that of the request may be 5 s old. */
export type TeamActor = { tenantId: string; userId: string };

type LockedTeam = { tenant: Tenant; caller: User; member: User; owners: User[] };

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

/** Reads the row: the role of the request may be 5 s old. @throws FORBIDDEN INSUFFICIENT_ROLE */
export const requireOwner = async (
  { em }: Work,
  { tenantId, userId }: TeamActor,
  refusal: string,
): Promise<User> => {
  const user = await em.findOne(User, { id: userId, tenantId }, { refresh: true });
  if (user && isActiveOwner(user)) return user;
  throw forbidden("INSUFFICIENT_ROLE", refusal);
};

/** For a change after which `member` is no longer an OWNER. @throws CONFLICT LAST_OWNER */
export const requireOtherOwner = ({ member, owners }: LockedTeam): void => {
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
