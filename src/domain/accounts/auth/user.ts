import { defineEntity, p } from "@mikro-orm/core";
import type { MemberStatus, Role } from "../../kernel/caller.ts";

const UserSchema = defineEntity({
  name: "User",
  tableName: "users",
  properties: {
    id: p.uuid().primary(),
    tenantId: p.uuid(),
    /** Lower case; unique over the whole platform, because a login names no tenant. */
    email: p.text(),
    name: p.text(),
    /** Null for a user who only signs in through a provider. */
    passwordHash: p.text().nullable(),
    role: p.text().$type<Role>(),
    status: p.text().$type<MemberStatus>(),
    emailVerified: p.boolean(),
    /** False after a sign-up through a provider that gave no name. */
    profileCompleted: p.boolean(),
    /** Whether a second factor is set; kept by mfa/factors.ts. */
    mfaEnabled: p.boolean(),
    lastLoginAt: p.datetime(3).nullable(),
    /** Disabled for the whole platform by a super-admin. */
    disabledAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});
/** A person who uses the console. */
export class User extends UserSchema.class {}
UserSchema.setClass(User);
