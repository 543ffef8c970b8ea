import { z } from "zod";
import {
  type Actor,
  ADMINS,
  type Caller,
  EVERY_ROLE,
  MEMBER_STATUSES,
  OWN_ACCOUNT,
  type Role,
  ROLES,
  userOf,
} from "../../domain/kernel/caller.ts";
import {
  countInvitationMail,
  INVITATION_STATUSES,
  joinByInvitation,
  readInvitation,
} from "../../domain/accounts/team/accept.ts";
import type { App } from "../../app.ts";
import type { Work } from "../../domain/kernel/work.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import {
  INVITATION_ORDERS,
  invite,
  listInvitations,
  requireMayInvite,
  requireMayResend,
  resendInvitation,
  revokeInvitation,
  showInvitation,
} from "../../domain/accounts/team/invitations.ts";
import { normaliseEmail } from "../../domain/accounts/email/address.ts";
import { Name } from "../../domain/accounts/tenants/tenant.ts";
import { group } from "../route.ts";
import {
  changeMember,
  findWaiting,
  getMember,
  listMembers,
  MEMBER_SORTS,
  removeMember,
  showMember,
} from "../../domain/accounts/team/members.ts";
import { resetMemberMfa } from "../../domain/accounts/mfa/factors.ts";
import { requireChangeProof, requireRecentProof } from "../../domain/accounts/mfa/step-up.ts";
import { Email, LoginBody, NewPassword } from "./registration.ts";
import { deleted, Deleted, Order, paged, pageReply } from "./bodies.ts";
import { OwnPassword, proofParts, provenAgain, selfOf } from "./mfa-login.ts";

/** A role as callers may write it: MEMBER is an alias of VIEWER. */
const RoleInput = z
  .enum([...ROLES, "MEMBER"])
  .transform((role): Role => (role === "MEMBER" ? "VIEWER" : role))
  .meta({ description: "MEMBER is another name of VIEWER", override: { type: "string" } });

const MemberBody = z
  .object({
    id: z.uuid(),
    userId: z.uuid(),
    email: z.string().optional().meta({ description: "Not shown to a VIEWER" }),
    name: z.string(),
    role: z.enum(ROLES),
    status: z.enum(MEMBER_STATUSES).meta({ description: "PENDING: asked to join and waits" }),
    emailVerified: z.boolean().optional().meta({ description: "Not shown to a VIEWER" }),
    mfaEnabled: z
      .boolean()
      .optional()
      .meta({ description: "Whether they have a second factor; not shown to a VIEWER" }),
    lastLoginAt: z.iso.datetime().nullable().optional().meta({ description: "Not shown to a VIEWER" }),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "Member" });

const InvitationBody = z
  .object({
    id: z.uuid(),
    email: z.string().optional().meta({ description: "Not shown to a VIEWER" }),
    role: z.enum(ROLES),
    status: z.enum(INVITATION_STATUSES),
    invitedBy: z.uuid().meta({ description: "The member who last sent it" }),
    expiresAt: z.iso.datetime(),
    sentAt: z.iso.datetime(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "Invitation" });

const TOKEN_MAX = 100;
const Token = z.string().min(1).max(TOKEN_MAX).meta({ description: "From the link of the mail" });
const common = group({ tag: "Team", project: "none" });
const write = common.with({ access: { roles: ADMINS } });
const mailing = common.with({
  access: { roles: ADMINS, needs: { verifiedEmail: true } },
  errors: ["PAYMENT_REQUIRED"],
  response: InvitationBody,
});

const revoke = async (work: Work, caller: Caller, id: string) => {
  const user = userOf(caller);
  return showInvitation(await revokeInvitation(work, user, id), user.role, work.now);
};

/** Giving or taking the role OWNER hands over the tenant: a second factor is asked for again. */
const proveForOwner = async (app: App, actor: Actor, isOwners: boolean): Promise<void> => {
  if (isOwners) await requireRecentProof(app, selfOf(actor));
};

const isOwner = (app: App, caller: Caller, memberId: string): Promise<boolean> =>
  app.transact(async (work) => (await getMember(work, userOf(caller).tenantId, memberId)).role === "OWNER");

const accepting = common.with({ access: "public", errors: ["GONE", "CONFLICT"] });

const read = common.with({ access: { roles: EVERY_ROLE } });

const whoOf = ({ config }: App, caller: Caller) => ({ actor: userOf(caller), rule: config });

export const teamRoutes = [
  read.get("/team/members", "listMembers", {
    summary: "List the team",
    description: "With those who have asked to join. A VIEWER sees no addresses.",
    query: PageQuery.extend({
      sort: z.enum(MEMBER_SORTS).default("createdAt"),
      order: Order,
      role: RoleInput.optional(),
      status: z.enum(MEMBER_STATUSES).optional(),
    }),
    response: pageBody(MemberBody),
    run: async (work, { caller, query }) => {
      const { tenantId, role: reader } = userOf(caller);
      return pageReply(await listMembers(work, { tenantId, reader }, query), "rows", query, (member) =>
        showMember(member, reader),
      );
    },
  }),
  write.post("/team/members", "addMember", {
    summary: "Add to the team",
    description:
      "Admits a user who has asked to join with this address; anybody else gets an invitation. " +
      "The answer holds the one or the other.",
    access: { roles: ADMINS, needs: { verifiedEmail: true } },
    body: z.object({ email: Email, role: RoleInput }),
    example: { email: "grace@example.com", role: "DEVELOPER" },
    status: 201,
    errors: ["PAYMENT_REQUIRED"],
    response: z.object({ member: MemberBody.optional(), invitation: InvitationBody.optional() }),
    requires: (app, { actor, body }) => proveForOwner(app, actor, body.role === "OWNER"),
    prepare: async (app, { caller, body }) => {
      const { email } = body;
      const { tenantId } = userOf(caller);
      const isWaiting = await app.transact(async (work) => {
        const waiting = await findWaiting(work, tenantId, email);
        if (!waiting) await requireMayInvite(work, userOf(caller), body);
        return waiting !== undefined;
      });
      if (!isWaiting) await countInvitationMail(app, tenantId, normaliseEmail(email));
    },
    run: async (work, { caller, body: { email, role } }, app) => {
      const { tenantId, role: reader } = userOf(caller);
      const waiting = await findWaiting(work, tenantId, email);
      if (waiting) {
        const change = { role, status: "ACTIVE" } as const;
        const member = await changeMember(work, whoOf(app, caller), waiting.id, change);
        return { member: showMember(member, reader) };
      }
      const invitation = await invite(app, work, userOf(caller), { email, role });
      return { invitation: showInvitation(invitation, reader, work.now) };
    },
  }),
  read.get("/team/members/{memberId}", "getMember", {
    summary: "Get a member",
    response: MemberBody,
    run: async (work, { caller, params }) => {
      const { tenantId, role } = userOf(caller);
      return showMember(await getMember(work, tenantId, params.memberId), role);
    },
  }),
  write.patch("/team/members/{memberId}", "updateMember", {
    summary: "Change a member",
    description:
      "Role and status; ACTIVE also lets in who has asked to join. An ADMIN may not touch an OWNER, and a " +
      "tenant keeps one OWNER at least. Requests of the member feel it within 5 seconds. To make or change " +
      "an OWNER, whoever has a second factor proves it within 10 minutes before.",
    body: z.object({ role: RoleInput.optional(), status: z.enum(["ACTIVE", "SUSPENDED"]).optional() }),
    example: { role: "DESIGNER" },
    errors: ["PAYMENT_REQUIRED"],
    response: MemberBody,
    prepare: async (app, { actor, caller, params, body }) =>
      proveForOwner(app, actor, body.role === "OWNER" || (await isOwner(app, caller, params.memberId))),
    run: async (work, { caller, params, body }, app) => {
      const member = await changeMember(work, whoOf(app, caller), params.memberId, body);
      return showMember(member, userOf(caller).role);
    },
  }),
  write.post("/team/members/{memberId}/reset-mfa", "resetMemberMfa", {
    summary: "Reset a member's second factor",
    description:
      "For a member who has lost it: removes their authenticator app, passkeys and recovery codes, ends " +
      "their sessions and tells them by mail. An ADMIN may not touch an OWNER; the only OWNER asks a " +
      "super-admin. With a second factor of your own, prove it with POST /auth/mfa/verify first, unless " +
      "you did in the last 10 minutes; with neither password nor factor, sign in within 10 minutes before.",
    body: z.object({ currentPassword: OwnPassword }),
    example: { currentPassword: "Engine-No-1" },
    response: MemberBody,
    prepare: (app, { actor, body }) => requireChangeProof(proofParts(app, actor), selfOf(actor), body),
    run: async (work, { caller, params }, app) => {
      const member = await resetMemberMfa(work, app.mail, userOf(caller), params.memberId);
      return showMember(member, userOf(caller).role);
    },
  }),
  write.delete("/team/members/{memberId}", "removeMember", {
    summary: "Remove a member",
    description:
      "With their account and sessions. API keys that they made stay. To remove an OWNER, whoever has a " +
      "second factor proves it within 10 minutes before.",
    response: Deleted,
    prepare: async (app, { actor, caller, params }) =>
      proveForOwner(app, actor, await isOwner(app, caller, params.memberId)),
    run: (work, { caller, params }) => deleted(removeMember(work, userOf(caller), params.memberId)),
  }),
  write.delete("/team/members", "removeMemberByQuery", {
    summary: "Remove a member",
    description: "As DELETE /team/members/{memberId}, with the id in the query.",
    query: z.object({ id: z.string().max(100) }),
    response: Deleted,
    prepare: async (app, { actor, caller, query }) =>
      proveForOwner(app, actor, await isOwner(app, caller, query.id)),
    run: (work, { caller, query }) => deleted(removeMember(work, userOf(caller), query.id)),
  }),
  common.post("/team/leave", "leaveTeam", {
    access: OWN_ACCOUNT,
    summary: "Leave the team",
    description:
      "Ends your account and its sessions. The last OWNER cannot leave. Whoever has a second factor proves " +
      "it within 10 minutes before.",
    response: Deleted,
    ...provenAgain,
    run: (work, { caller }) => deleted(removeMember(work, userOf(caller), userOf(caller).userId)),
  }),
  common.get("/team/invitations", "listInvitations", {
    summary: "List invitations",
    description: "Newest first. A VIEWER sees no addresses.",
    access: { roles: EVERY_ROLE },
    ...paged(InvitationBody, INVITATION_ORDERS, {
      status: z.enum(INVITATION_STATUSES).optional(),
    }),
    run: async (work, { caller, query }) => {
      const { tenantId, role } = userOf(caller);
      return pageReply(await listInvitations(work, tenantId, query), "rows", query, (invitation) =>
        showInvitation(invitation, role, work.now),
      );
    },
  }),
  mailing.post("/team/invitations", "createInvitation", {
    summary: "Invite to the team",
    description:
      "Mails a link that is good once for 7 days. An OWNER may give every role, an ADMIN all but OWNER.",
    body: z.object({ email: Email, role: RoleInput }),
    example: { email: "grace@example.com", role: "DESIGNER" },
    status: 201,
    requires: (app, { actor, body }) => proveForOwner(app, actor, body.role === "OWNER"),
    prepare: async (app, { caller, body }) => {
      const user = userOf(caller);
      await app.transact((work) => requireMayInvite(work, user, body));
      await countInvitationMail(app, user.tenantId, normaliseEmail(body.email));
    },
    run: async (work, { caller, body }, app) => {
      const user = userOf(caller);
      return showInvitation(await invite(app, work, user, body), user.role, work.now);
    },
  }),
  mailing.post("/team/invitations/{invitationId}/resend", "resendInvitation", {
    summary: "Resend an invitation",
    description: "With a new link for 7 days; the old link is dead. Also for one that has expired.",
    prepare: async (app, { caller, params }) => {
      const user = userOf(caller);
      const { email } = await app.transact((work) => requireMayResend(work, user, params.invitationId));
      await countInvitationMail(app, user.tenantId, email);
    },
    run: async (work, { caller, params }, app) => {
      const user = userOf(caller);
      const invitation = await resendInvitation(app, work, user, params.invitationId);
      return showInvitation(invitation, user.role, work.now);
    },
  }),
  write.delete("/team/invitations/{invitationId}", "revokeInvitation", {
    summary: "Take an invitation back",
    response: InvitationBody,
    run: (work, { caller, params }) => revoke(work, caller, params.invitationId),
  }),
  write.delete("/team/invitations", "revokeInvitationByQuery", {
    summary: "Take an invitation back",
    description: "As DELETE /team/invitations/{invitationId}, with the id in the query.",
    query: z.object({ id: z.string().max(100) }),
    response: InvitationBody,
    run: (work, { caller, query }) => revoke(work, caller, query.id),
  }),
  accepting.get("/team/invitations/accept", "readInvitation", {
    summary: "Read an invitation",
    description: "The invitation behind a link; does not consume it.",
    query: z.object({ token: Token }),
    response: z.object({
      email: z.string(),
      tenantName: z.string(),
      role: z.enum(ROLES),
      authUrl: z.string().nullable().meta({
        description: "Path of the single sign-on that the tenant enforces, at which the invitation counts",
      }),
    }),
    run: (work, { query }) => readInvitation(work, query.token),
  }),
  accepting.post("/team/invitations/accept", "acceptInvitation", {
    summary: "Accept an invitation",
    description: "Makes the account that the invitation is for, and logs in. The link proves the address.",
    body: z.object({ token: Token, name: Name, password: NewPassword }),
    example: { token: "the token of the mail", name: "Grace Hopper", password: "Copper-Kettle-91" },
    session: "begins",
    response: LoginBody,
    outside: (app, { body }) => joinByInvitation(app, body),
  }),
];
