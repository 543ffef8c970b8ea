import { defineEntity, p } from "@mikro-orm/core";

/** Methods of authentication. */
export const SIGN_IN_METHODS = ["PASSWORD", "GOOGLE", "GITHUB", "INVITATION", "PASSKEY", "SSO"] as const;
export type SignInMethod = (typeof SIGN_IN_METHODS)[number];

export const SessionSchema = defineEntity({
  name: "Session",
  tableName: "sessions",
  properties: {
    id: p.uuid().primary(),
    tenantId: p.uuid(),
    userId: p.uuid(),
    method: p.text().$type<SignInMethod>(),
    ip: p.text(),
    userAgent: p.text(),
    createdAt: p.datetime(3),
    lastUsedAt: p.datetime(3),
    /** When a second factor was last proved in it. */
    mfaAt: p.datetime(3).nullable(),
    /** Not changed by refreshing. */
    expiresAt: p.datetime(3),
    revokedAt: p.datetime(3).nullable(),
    /** LOGOUT, PASSWORD_CHANGED, MFA_CHANGED, REFRESH_TOKEN_REUSED, ... */
    revokedFor: p.text().nullable(),
  },
});
/** One sign-in of a user on one device. */
export class Session extends SessionSchema.class {}
SessionSchema.setClass(Session);
