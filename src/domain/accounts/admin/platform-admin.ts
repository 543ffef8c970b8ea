import { defineEntity, p } from "@mikro-orm/core";

export const PlatformAdminSchema = defineEntity({
  name: "PlatformAdmin",
  tableName: "platform_admins",
  properties: {
    id: p.uuid().primary(),
    /** Lower case. */
    email: p.text(),
    name: p.text(),
    passwordHash: p.text(),
    /** Whether a second factor is set; kept by `noteFactors`. */
    mfaEnabled: p.boolean(),
    /** Incremented to end all earlier tokens. */
    sessionVersion: p.integer(),
    disabledAt: p.datetime(3).nullable(),
    lastLoginAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});
/** An operator of the platform; not a user of any tenant. */
export class PlatformAdmin extends PlatformAdminSchema.class {}
PlatformAdminSchema.setClass(PlatformAdmin);
