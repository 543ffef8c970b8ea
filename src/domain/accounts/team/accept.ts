import { sql } from "kysely";
import type { Role } from "../../kernel/caller.ts";
import { hashRandomSecret } from "../auth/random-secret.ts";
import { normaliseEmail } from "../email/address.ts";
import { User } from "../auth/user.ts";
import { audit } from "../audit/audit.ts";
import { conflict, DomainError, forbidden, notFound } from "../../kernel/errors.ts";
import { lockTenant } from "../tenants/lock-tenant.ts";
import { Tenant } from "../tenants/tenant.ts";
import type { Work } from "../../kernel/work.ts";
import { mayGrant } from "./grants.ts";
import { Invitation, type InvitationStatus } from "./invitation.ts";

/** The membership that an invitation grants to the verified owner of its address. */
export type Invited = { invitationId: string; tenantId: string; role: Role };

/** An invitation that can be accepted now, with its tenant. */
export type OpenInvitation = { invitation: Invitation; tenant: Tenant };

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
