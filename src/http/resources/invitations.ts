import { z } from "zod";
import type { App } from "../../app.ts";
import { ADMINS, type Caller, EVERY_ROLE, ROLES, userOf } from "../../domain/kernel/caller.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import {
  countInvitationMail,
  INVITATION_STATUSES,
  joinByInvitation,
  readInvitation,
} from "../../domain/accounts/team/accept.ts";
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
import { Name } from "../../domain/accounts/tenants/text.ts";
import { group } from "../route.ts";
import { Email, LoginBody, NewPassword } from "./auth-bodies.ts";
import { pageReply, sortedBy } from "./list-bodies.ts";
import { InvitationBody, RoleInput } from "./team-bodies.ts";

const TOKEN_MAX = 100;
const Token = z.string().min(1).max(TOKEN_MAX).meta({ description: "From the link of the mail" });
const common = group({ tag: "Team", project: "none" });
const write = common.with({ access: { roles: ADMINS } });
const mailing = common.with({
  access: { roles: ADMINS, needs: { verifiedEmail: true } },
  errors: ["PAYMENT_REQUIRED"],
  response: InvitationBody,
});

const revoke = (app: App, caller: Caller, id: string) =>
  app.transact(async (work) => {
    const user = userOf(caller);
    return showInvitation(await revokeInvitation(work, user, id), user.role, work.now);
  });

const managing = [
  common.get("/team/invitations", "listInvitations", {
    summary: "List invitations",
    description: "Newest first. A VIEWER sees no addresses.",
    access: { roles: EVERY_ROLE },
    query: PageQuery.extend({
      ...sortedBy(INVITATION_ORDERS),
      status: z.enum(INVITATION_STATUSES).optional(),
    }),
    response: pageBody(InvitationBody),
    run: async (work, { caller, query }) => {
      const { tenantId, role } = userOf(caller);
      const { invitations, ...total } = await listInvitations(work, tenantId, query);
      const shown = invitations.map((invitation) => showInvitation(invitation, role, work.now));
      return pageReply(shown, total, query);
    },
  }),
  mailing.post("/team/invitations", "createInvitation", {
    summary: "Invite to the team",
    description:
      "Mails a link that is good once for 7 days. An OWNER may give every role, an ADMIN all but OWNER.",
    body: z.object({ email: Email, role: RoleInput }),
    example: { email: "grace@example.com", role: "DESIGNER" },
    status: 201,
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
    outside: (app, { caller, params }) => revoke(app, caller, params.invitationId),
  }),
  write.delete("/team/invitations", "revokeInvitationByQuery", {
    summary: "Take an invitation back",
    description: "As DELETE /team/invitations/{invitationId}, with the id in the query.",
    query: z.object({ id: z.string().max(100) }),
    response: InvitationBody,
    outside: (app, { caller, query }) => revoke(app, caller, query.id),
  }),
];

const accepting = common.with({ access: "public", errors: ["GONE", "CONFLICT"] });

export const invitationRoutes = [
  ...managing,
  accepting.get("/team/invitations/accept", "readInvitation", {
    summary: "Read an invitation",
    description: "The invitation behind a link; does not consume it.",
    query: z.object({ token: Token }),
    response: z.object({ email: z.string(), tenantName: z.string(), role: z.enum(ROLES) }),
    run: (work, { query }) => readInvitation(work, query.token),
  }),
  accepting.post("/team/invitations/accept", "acceptInvitation", {
    summary: "Accept an invitation",
    description: "Makes the account that the invitation is for, and logs in. The link proves the address.",
    takesNoIdempotencyKey: true,
    body: z.object({ token: Token, name: Name, password: NewPassword }),
    example: { token: "the token of the mail", name: "Grace Hopper", password: "Copper-Kettle-91" },
    response: LoginBody,
    outside: (app, { body }) => joinByInvitation(app, body),
  }),
];
