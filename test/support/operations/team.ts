import { randomUUID } from "node:crypto";
import { hashRandomSecret, newRandomSecret } from "../../../src/domain/accounts/auth/one-time-secrets.ts";
import { Invitation } from "../../../src/domain/accounts/team/accept.ts";
import { newId } from "../../../src/domain/kernel/ids.ts";
import { Tenant as TenantRow } from "../../../src/domain/accounts/tenants/tenant.ts";
import { aTenant, startApp, type Tenant } from "../app/app.ts";
import { aMember } from "../app/member.ts";
import type { Call, Known } from "./operations.ts";
import type { Side } from "../app/sides.ts";

const anEmail = (): string => `${randomUUID()}@example.com`;

/** An invitation by the OWNER, with the token that its mail would have. */
export const anInvitation = async (
  { tenantId, userId }: Pick<Tenant, "tenantId" | "userId">,
  given: Partial<Pick<Invitation, "email" | "role" | "expiresAt" | "invitedBy" | "status">> = {},
): Promise<{ id: string; token: string; email: string }> => {
  const { app } = await startApp();
  const [token, email] = [newRandomSecret(), given.email ?? anEmail()];
  const id = newId();
  await app.transact(async ({ em, now }) => {
    em.create(Invitation, {
      id,
      tenantId,
      email,
      role: "VIEWER",
      tokenHash: hashRandomSecret(token),
      status: "PENDING",
      invitedBy: userId,
      expiresAt: new Date(now.getTime() + 86_400_000),
      sentAt: now,
      createdAt: now,
      updatedAt: now,
      ...given,
    });
  });
  return { id, token, email };
};

/** Writes into a tenant's row what no operation would. */
export const putTenant = async (tenantId: string, row: Partial<TenantRow>): Promise<void> => {
  const { app } = await startApp();
  await app.transact(async ({ em }) => {
    Object.assign(await em.findOneOrFail(TenantRow, { id: tenantId }), row);
  });
};

/** What is done to a whole tenant is done to one of its own. */
const ofOwnTenant = async (
  path: string,
  prepare: (tenant: Tenant) => Promise<unknown> = async () => undefined,
): Promise<Call> => {
  const tenant = await aTenant(await startApp());
  const body = await prepare(tenant);
  return { path, token: tenant.token, ...(body === undefined ? {} : { body }) };
};

const member = async ({ tenant }: Side): Promise<string> =>
  (await aMember(await startApp(), tenant.tenantId, "VIEWER")).userId;
const invitation = async ({ tenant }: Side): Promise<string> => (await anInvitation(tenant)).id;

const ofInvitation = (suffix = ""): Known => ({
  call: async (side) => ({ path: `/team/invitations/${await invitation(side)}${suffix}`, body: {} }),
});

export const teamOperations: Record<string, Known> = {
  getTenant: { call: () => ({ path: "/tenant" }) },
  updateTenant: {
    call: () => ({ path: "/tenant", body: { name: "A studio" } }),
    also: [() => ({ redirectUris: ["https://example.com/in"] })],
  },
  deleteTenant: {
    call: () => ofOwnTenant("/tenant", async ({ password }) => ({ currentPassword: password })),
  },
  restoreTenant: {
    call: () =>
      ofOwnTenant("/tenant/restore", async ({ tenantId }) => {
        await putTenant(tenantId, { deleteAfter: new Date(Date.now() + 86_400_000) });
        return {};
      }),
  },
  requestApproval: {
    call: () =>
      ofOwnTenant("/tenant/approval-request", async ({ tenantId }) => {
        await putTenant(tenantId, { approvalStatus: "REJECTED" });
        return {};
      }),
  },
  transferOwnership: {
    call: () =>
      ofOwnTenant("/tenant/transfer-ownership", async ({ tenantId, password }) => {
        const { userId } = await aMember(await startApp(), tenantId, "ADMIN");
        return { userId, currentPassword: password };
      }),
    foreign: async (own, other) => {
      const userId = other.tenant.tenantId === own.tenant.tenantId ? randomUUID() : other.tenant.userId;
      const body = { userId, currentPassword: own.tenant.password };
      return [{ path: "/tenant/transfer-ownership", body }];
    },
  },

  listMembers: { call: () => ({ path: "/team/members?role=MEMBER&status=ACTIVE&sort=name&order=asc" }) },
  addMember: { call: () => ({ path: "/team/members", body: { email: anEmail(), role: "MEMBER" } }) },
  getMember: { call: async (side) => ({ path: `/team/members/${await member(side)}` }) },
  updateMember: {
    call: async (side) => ({
      path: `/team/members/${await member(side)}`,
      body: { role: "DESIGNER", status: "SUSPENDED" },
    }),
  },
  removeMember: { call: async (side) => ({ path: `/team/members/${await member(side)}` }) },
  removeMemberByQuery: {
    call: async (side) => ({ path: `/team/members?id=${await member(side)}` }),
    foreign: async (own, other) =>
      other.tenant.tenantId === own.tenant.tenantId
        ? []
        : [{ path: `/team/members?id=${await member(other)}` }],
  },
  leaveTeam: {
    call: async ({ tenant }) => ({
      path: "/team/leave",
      body: {},
      token: (await aMember(await startApp(), tenant.tenantId, "VIEWER")).token,
    }),
  },

  listInvitations: { call: () => ({ path: "/team/invitations?status=PENDING" }) },
  createInvitation: {
    call: () => ({ path: "/team/invitations", body: { email: anEmail(), role: "ADMIN" } }),
  },
  resendInvitation: ofInvitation("/resend"),
  revokeInvitation: ofInvitation(),
  revokeInvitationByQuery: {
    call: async (side) => ({ path: `/team/invitations?id=${await invitation(side)}` }),
    foreign: async (own, other) =>
      other.tenant.tenantId === own.tenant.tenantId
        ? []
        : [{ path: `/team/invitations?id=${await invitation(other)}` }],
  },
  readInvitation: {
    call: async ({ tenant }) => ({
      path: `/team/invitations/accept?token=${(await anInvitation(tenant)).token}`,
    }),
  },
  acceptInvitation: {
    call: async ({ tenant }) => {
      const { token } = await anInvitation(tenant);
      return {
        path: "/team/invitations/accept",
        body: { token, name: "Ada Lovelace", password: "Brass-Lantern-58" },
      };
    },
  },

  listAuditLog: {
    call: () => ({
      path: "/audit-log?action=project.created&from=2026-01-01T00:00:00Z&to=2100-01-01T00:00:00Z",
    }),
  },
};
