import { defineEntity, p } from "@mikro-orm/core";
import type { Role } from "../caller.ts";

export const UserSchema = defineEntity({
  name: "User",
  tableName: "users",
  properties: {
    id: p.uuid().primary(),
    tenantId: p.uuid(),
    /** Lower case; unique over the whole platform, because a login names no tenant. */
    email: p.text(),
    name: p.text(),
    passwordHash: p.text(),
    role: p.text().$type<Role>(),
    emailVerified: p.boolean(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});
/** A person who uses the console. */
export class User extends UserSchema.class {}
UserSchema.setClass(User);
