import { z } from "zod";
import { MEMBER_STATUSES, type Role, ROLES } from "../../domain/kernel/caller.ts";
import { INVITATION_STATUSES } from "../../domain/accounts/team/accept.ts";

/** A role as callers may write it: MEMBER is an alias of VIEWER. */
export const RoleInput = z
  .enum([...ROLES, "MEMBER"])
  .transform((role): Role => (role === "MEMBER" ? "VIEWER" : role))
  .meta({ description: "MEMBER is another name of VIEWER", override: { type: "string" } });

export const MemberBody = z
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

export const InvitationBody = z
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
