import type { FilterQuery } from "@mikro-orm/core";
import { sql } from "kysely";
import { audit, auditAll } from "../audit/audit.ts";
import { hashRandomSecret, newRandomSecret } from "../auth/one-time-secrets.ts";
import { User } from "../auth/user.ts";
import { normaliseEmail } from "../email/address.ts";
import type { Mail } from "../email/mail.ts";
import { Invitation, type InvitationStatus, lockForInviter, statusOf, type TeamActor } from "./accept.ts";
import type { Tenant } from "../tenants/tenant.ts";
import { limitsOf, planLimitExceeded, type Role } from "../../kernel/caller.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import { isId, newId } from "../../kernel/ids.ts";
import { entityOrder, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import { findPage, LOCKED, type Total, type Work } from "../../kernel/work.ts";
import { shown } from "../../kernel/json.ts";

/** Whether users who have asked to join count as well. */
type Counted = { withWaiting: boolean };

/** Counts accepted members, and invitations that can still be accepted. */
export const seatsTaken = async (
  { db, now }: Work,
  tenantId: string,
  { withWaiting }: Counted = { withWaiting: false },
): Promise<number> => {
  const { rows } = await sql<{ taken: number }>`
    select (select count(*) from users
        where tenant_id = ${tenantId}::uuid and (${withWaiting} or status <> 'PENDING'))
      + (select count(*) from invitations where tenant_id = ${tenantId}::uuid and status = 'PENDING'
        and expires_at > ${now.toISOString()}::timestamptz) as taken`.execute(db);
  return rows[0]?.taken ?? 0;
};

/**
 * Checks that the plan has room for one more. The tenant must be locked until the commit.
 *
 * @throws PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED
 */
export const requireSeat = async (work: Work, tenant: Tenant, counted?: Counted): Promise<void> => {
  const { members } = limitsOf(tenant);
  if (members === null) return;
  const used = await seatsTaken(work, tenant.id, counted);
  if (used < members) return;
  throw planLimitExceeded(
    `The plan ${tenant.plan} has room for ${members} members, pending invitations included; ` +
      "remove one or choose a larger plan",
    { metric: "members", limit: members, used },
  );
};

const INVITATION_DAYS = 7;

/** Converts an invitation to the API representation for a role: a VIEWER sees no addresses. */
export const showInvitation = (invitation: Invitation, reader: Role, now: Date) => ({
  ...shown(invitation, ["id", "role", "invitedBy", "expiresAt", "sentAt", "createdAt"]),
  ...(reader === "VIEWER" ? {} : { email: invitation.email }),
  status: statusOf(invitation, now),
});

/** PENDING ones expire by themselves, without an update of the row. */
const withStatus = (
  tenantId: string,
  status: InvitationStatus | undefined,
  now: Date,
): FilterQuery<Invitation> => {
  if (status === undefined) return { tenantId };
  if (status === "PENDING") return { tenantId, status, expiresAt: { $gt: now } };
  if (status !== "EXPIRED") return { tenantId, status };
  return { tenantId, $or: [{ status }, { status: "PENDING", expiresAt: { $lte: now } }] };
};

/** Orders of the list. */
export const INVITATION_ORDERS = {
  by: { createdAt: "createdAt", expiresAt: "expiresAt" },
  usual: "desc",
} as const;

/** Returns invitations, newest first. */
export const listInvitations = async (
  work: Work,
  tenantId: string,
  query: PageQuery & Ordered<SortOf<typeof INVITATION_ORDERS>> & { status?: InvitationStatus | undefined },
): Promise<Total & { rows: Invitation[] }> => {
  const where = withStatus(tenantId, query.status, work.now);
  return findPage(work, Invitation, where, { query, orderBy: entityOrder(INVITATION_ORDERS, query) });
};

/** @throws NOT_FOUND also for another tenant's */
const getInvitation = async (
  { em }: Work,
  tenantId: string,
  id: string,
  options: typeof LOCKED | { refresh: true } = { refresh: true },
): Promise<Invitation> => {
  const found = isId(id) ? await em.findOne(Invitation, { id, tenantId }, options) : null;
  if (!found) throw notFound("Invitation");
  return found;
};

/**
 * Checks whether an address can be invited. Accounts in other tenants do not count, so that their existence
 * is not revealed.
 *
 * @throws CONFLICT ALREADY_MEMBER, INVITATION_ALREADY_PENDING
 */
const requireInvitable = async (work: Work, tenantId: string, address: string): Promise<void> => {
  const email = normaliseEmail(address);
  const member = await work.em.findOne(User, { tenantId, email });
  if (member) {
    const message =
      member.status === "PENDING"
        ? "They have asked to join: accept them with POST /team/members"
        : "They are a member of the tenant already";
    throw conflict("ALREADY_MEMBER", message);
  }
  const open = { tenantId, email, status: "PENDING", expiresAt: { $gt: work.now } } as const;
  if ((await work.em.count(Invitation, open)) > 0)
    throw conflict("INVITATION_ALREADY_PENDING", "They have been invited already; resend that invitation");
};

type Invitee = { email: string; role: Role };

/**
 * Checks everything that may reject an invitation. Called before its mail is counted, so that a rejected one
 * counts against no limit.
 *
 * @throws FORBIDDEN INSUFFICIENT_ROLE, CONFLICT ALREADY_MEMBER, INVITATION_ALREADY_PENDING, PAYMENT_REQUIRED
 * PLAN_LIMIT_EXCEEDED
 */
export const requireMayInvite = async (
  work: Work,
  actor: TeamActor,
  { email, role }: Invitee,
): Promise<{ tenant: Tenant; inviter: User }> => {
  const locked = await lockForInviter(work, actor, role);
  await requireInvitable(work, actor.tenantId, email);
  await requireSeat(work, locked.tenant);
  return locked;
};

/**
 * Invites an address to the tenant and mails the link, valid once for 7 days.
 *
 * @throws as `requireMayInvite`, SERVICE_UNAVAILABLE EMAIL_NOT_CONFIGURED
 */
export const invite = async (
  { mail }: { mail: Mail },
  work: Work,
  actor: TeamActor,
  { email: address, role }: Invitee,
): Promise<Invitation> => {
  const { em, now } = work;
  const { tenantId } = actor;
  const email = normaliseEmail(address);
  const { tenant, inviter } = await requireMayInvite(work, actor, { email, role });
  await endExpired(work, tenantId, email);
  const token = newRandomSecret();
  const invitation = em.create(Invitation, {
    id: newId(),
    tenantId,
    email,
    role,
    tokenHash: hashRandomSecret(token),
    status: "PENDING",
    invitedBy: inviter.id,
    expiresAt: daysFrom(now),
    sentAt: now,
    createdAt: now,
    updatedAt: now,
  });
  await em.flush();
  await send(mail, work, { invitation, token, tenantName: tenant.name, inviterName: inviter.name });
  await auditInvitation(work, invitation, "invitation.created");
  return invitation;
};

const daysFrom = (now: Date): Date => new Date(now.getTime() + INVITATION_DAYS * 86_400_000);

/** At most one invitation of an address is PENDING in the table: expired ones are closed first. */
const endExpired = async ({ db, now }: Work, tenantId: string, email: string): Promise<void> => {
  const at = now.toISOString();
  await sql`
    update invitations set status = 'EXPIRED', updated_at = ${at}::timestamptz
    where tenant_id = ${tenantId}::uuid and lower(email) = ${email} and status = 'PENDING'
      and expires_at <= ${at}::timestamptz`.execute(db);
};

type Sent = { invitation: Invitation; token: string; tenantName: string; inviterName: string };

const send = (mail: Mail, work: Work, { invitation, token, tenantName, inviterName }: Sent) =>
  mail.queue(work, {
    template: "invitation",
    to: invitation.email,
    values: { tenantName, inviterName, role: invitation.role, token },
    tenantId: invitation.tenantId,
    userId: null,
  });

/**
 * Sends a new link, valid for 7 days from now; the old one becomes invalid. The invitation is from now on
 * that of the user who resends it, so it outlives the membership of the first inviter.
 *
 * @throws NOT_FOUND, CONFLICT INVALID_STATE unless PENDING or EXPIRED, and as `invite`
 */
export const resendInvitation = async (
  { mail }: { mail: Mail },
  work: Work,
  actor: TeamActor,
  id: string,
): Promise<Invitation> => {
  const { now } = work;
  const { tenantId } = actor;
  const { role } = await getInvitation(work, tenantId, id);
  const { tenant, inviter } = await lockForInviter(work, actor, role);
  const invitation = await getInvitation(work, tenantId, id, LOCKED);
  const status = requireResendable(invitation, now);
  if (status === "EXPIRED") {
    await requireInvitable(work, tenantId, invitation.email);
    await requireSeat(work, tenant);
    await endExpired(work, tenantId, normaliseEmail(invitation.email));
    await getInvitation(work, tenantId, id);
  }
  const token = newRandomSecret();
  const renewed = { tokenHash: hashRandomSecret(token), status: "PENDING", invitedBy: inviter.id };
  Object.assign(invitation, renewed, { expiresAt: daysFrom(now), sentAt: now, updatedAt: now });
  await work.em.flush();
  await send(mail, work, { invitation, token, tenantName: tenant.name, inviterName: inviter.name });
  await auditInvitation(work, invitation, "invitation.resent");
  return invitation;
};

/** As `requireMayInvite`, for an existing invitation. @throws as `resendInvitation` */
export const requireMayResend = async (work: Work, actor: TeamActor, id: string): Promise<Invitation> => {
  const invitation = await getInvitation(work, actor.tenantId, id);
  await lockForInviter(work, actor, invitation.role);
  requireResendable(invitation, work.now);
  return invitation;
};

/** @throws CONFLICT INVALID_STATE */
const requireResendable = (invitation: Invitation, now: Date): InvitationStatus => {
  const status = statusOf(invitation, now);
  if (status === "PENDING" || status === "EXPIRED") return status;
  throw conflict(
    "INVALID_STATE",
    `The invitation is ${status}; invite them again with POST /team/invitations`,
  );
};

/** Revokes an invitation. @throws NOT_FOUND, FORBIDDEN INSUFFICIENT_ROLE, CONFLICT INVALID_STATE */
export const revokeInvitation = async (work: Work, actor: TeamActor, id: string): Promise<Invitation> => {
  const { tenantId } = actor;
  const { role } = await getInvitation(work, tenantId, id);
  await lockForInviter(work, actor, role);
  const invitation = await getInvitation(work, tenantId, id, LOCKED);
  const status = statusOf(invitation, work.now);
  if (status !== "PENDING") throw conflict("INVALID_STATE", `The invitation is ${status}`);
  Object.assign(invitation, { status: "REVOKED", updatedAt: work.now });
  await auditInvitation(work, invitation, "invitation.revoked");
  return invitation;
};

/** How somebody has become a member instead of by their invitation. */
type OtherWay = "sso" | "acceptance";

/** Ends the invitation of an address whose owner has become a member in another way: the audit log tells. */
export const endInvitations = async (
  work: Work,
  { tenantId, email }: { tenantId: string; email: string },
  by: OtherWay,
): Promise<void> => {
  const { rows } = await sql<{ id: string; email: string; role: Role }>`
    update invitations set status = 'REVOKED', updated_at = ${work.now.toISOString()}::timestamptz
    where tenant_id = ${tenantId}::uuid and lower(email) = ${email} and status = 'PENDING'
    returning id, email, role`.execute(work.db);
  const ended = rows.map(({ id, ...invited }) => {
    const target = { type: "invitation", id };
    return { action: "invitation.revoked", target, tenantId, data: { ...invited, by } };
  });
  if (ended.length > 0) await auditAll(work, ended);
};

const auditInvitation = (work: Work, { id, tenantId, email, role }: Invitation, action: string) =>
  audit(work, { action, target: { type: "invitation", id }, tenantId, data: { email, role } });
