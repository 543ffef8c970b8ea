import { crc32 } from "node:zlib";
import { defineEntity, p } from "@mikro-orm/core";
import { randomBase62, toBase62 } from "../auth/base62.ts";
import type { AdminScope } from "../caller.ts";

export const PlatformTokenSchema = defineEntity({
  name: "PlatformToken",
  tableName: "platform_tokens",
  properties: {
    id: p.uuid().primary(),
    name: p.text(),
    secretHash: p.text(),
    scopes: p.array<AdminScope>(),
    /** As `actorOf` has it. */
    createdBy: p.text(),
    lastUsedAt: p.datetime(3).nullable(),
    expiresAt: p.datetime(3).nullable(),
    revokedAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
  },
});
/** What a machine that serves the platform, such as a CI job, shows instead of a login. */
export class PlatformToken extends PlatformTokenSchema.class {}
PlatformTokenSchema.setClass(PlatformToken);

const START = "svc_admin_";
const SHAPE = /^svc_admin_[0-9A-Za-z]{42}$/;
const RANDOM_CHARACTERS = 36;
const CHECKSUM_CHARACTERS = 6;

/** `svc_admin_`, 36 random base62 characters (214 bits), 6 of CRC-32. */
export const newPlatformSecret = (): string => {
  const body = START + randomBase62(RANDOM_CHARACTERS);
  return body + checksum(body);
};

/** Whether a bearer means to be a platform token, right or wrong. */
export const looksLikePlatformSecret = (text: string): boolean => text.startsWith(START);

/** Whether this could be one of our secrets; told without the database. */
export const isPlatformSecret = (text: string): boolean =>
  SHAPE.test(text) && checksum(text.slice(0, -CHECKSUM_CHARACTERS)) === text.slice(-CHECKSUM_CHARACTERS);

const checksum = (body: string): string => toBase62(crc32(body), CHECKSUM_CHARACTERS);
