import { defineEntity, p } from "@mikro-orm/core";
import type { Role } from "../../kernel/caller.ts";

export const INVITATION_STATUSES = ["PENDING", "ACCEPTED", "REVOKED", "EXPIRED"] as const;
export type InvitationStatus = (typeof INVITATION_STATUSES)[number];

export const InvitationSchema = defineEntity({
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
