import { defineEntity, p } from "@mikro-orm/core";
import { isCheckedSecret, newCheckedSecret } from "../auth/checked-secret.ts";
import type { AdminScope } from "../../kernel/caller.ts";

export const PlatformTokenSchema = defineEntity({
  name: "PlatformToken",
  tableName: "platform_tokens",
  properties: {
    id: p.uuid().primary(),
    name: p.text(),
    secretHash: p.text(),
    scopes: p.array<AdminScope>(),
    /** In the format of `actorOf`. */
    createdBy: p.text(),
    lastUsedAt: p.datetime(3).nullable(),
    expiresAt: p.datetime(3).nullable(),
    revokedAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
  },
});
/** The credential of a machine that serves the platform, such as a CI job. */
export class PlatformToken extends PlatformTokenSchema.class {}
PlatformTokenSchema.setClass(PlatformToken);

const KIND = "admin";

/** `svc_admin_`, 36 random base62 characters (214 bits), 6 of CRC-32. */
export const newPlatformSecret = (): string => newCheckedSecret(KIND);

/** Returns whether a bearer has the prefix of a platform token, valid or not. */
export const looksLikePlatformSecret = (text: string): boolean => text.startsWith(`svc_${KIND}_`);

/** Returns whether this has the format of a platform token, without access to the database. */
export const isPlatformSecret = (text: string): boolean =>
  looksLikePlatformSecret(text) && isCheckedSecret(text);
