import { z } from "zod";
import type { App } from "../../app.ts";
import {
  ADMINS,
  type Caller,
  EVERY_ROLE,
  MEMBER_STATUSES,
  OWN_ACCOUNT,
  userOf,
} from "../../domain/kernel/caller.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import { countInvitationMail } from "../../domain/accounts/team/accept.ts";
import { invite, requireMayInvite, showInvitation } from "../../domain/accounts/team/invitations.ts";
import {
  acceptMember,
  changeMember,
  findWaiting,
  getMember,
  listMembers,
  MEMBER_SORTS,
  removeMember,
  showMember,
} from "../../domain/accounts/team/members.ts";
import { normaliseEmail } from "../../domain/accounts/email/address.ts";
import { group } from "../route.ts";
import { resetMemberMfa } from "../../domain/accounts/mfa/factors.ts";
import { requireChangeProof } from "../../domain/accounts/mfa/step-up.ts";
import { Email } from "./auth-bodies.ts";
import { OwnPassword, proofParts, selfOf } from "./mfa-bodies.ts";
import { Order, pageReply } from "./list-bodies.ts";
import { Deleted } from "./plain-bodies.ts";
import { InvitationBody, MemberBody, RoleInput } from "./team-bodies.ts";

const common = group({ tag: "Team", project: "none" });
const read = common.with({ access: { roles: EVERY_ROLE } });
const write = common.with({ access: { roles: ADMINS } });

const whoOf = ({ config }: App, caller: Caller) => ({ actor: userOf(caller), rule: config });

const remove = (app: App, caller: Caller, memberId: string): Promise<{ deleted: true }> =>
  app.transact(async (work) => {
    await removeMember(work, userOf(caller), memberId);
    return { deleted: true };
  });

const list = read.get("/team/members", "listMembers", {
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
    const { members, ...total } = await listMembers(work, { tenantId, reader }, query);
    const shown = members.map((member) => showMember(member, reader));
    return pageReply(shown, total, query);
  },
});

const add = write.post("/team/members", "addMember", {
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
      const member = await acceptMember(work, whoOf(app, caller), waiting.id, role);
      return { member: showMember(member, reader) };
    }
    const invitation = await invite(app, work, userOf(caller), { email, role });
    return { invitation: showInvitation(invitation, reader, work.now) };
  },
});

export const teamRoutes = [
  list,
  add,
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
      "tenant keeps one OWNER at least. Requests of the member feel it within 5 seconds.",
    body: z.object({ role: RoleInput.optional(), status: z.enum(["ACTIVE", "SUSPENDED"]).optional() }),
    example: { role: "DESIGNER" },
    errors: ["PAYMENT_REQUIRED"],
    response: MemberBody,
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
    description: "With their account and sessions. API keys that they made stay.",
    response: Deleted,
    outside: (app, { caller, params }) => remove(app, caller, params.memberId),
  }),
  write.delete("/team/members", "removeMemberByQuery", {
    summary: "Remove a member",
    description: "As DELETE /team/members/{memberId}, with the id in the query.",
    query: z.object({ id: z.string().max(100) }),
    response: Deleted,
    outside: (app, { caller, query }) => remove(app, caller, query.id),
  }),
  common.post("/team/leave", "leaveTeam", {
    access: OWN_ACCOUNT,
    summary: "Leave the team",
    description: "Ends your account and its sessions. The last OWNER cannot leave.",
    response: Deleted,
    outside: (app, { caller }) => remove(app, caller, userOf(caller).userId),
  }),
];
