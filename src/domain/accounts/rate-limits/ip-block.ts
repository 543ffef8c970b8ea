import { defineEntity, p } from "@mikro-orm/core";

export const BLOCK_SOURCES = ["MANUAL", "AUTO"] as const;
export type BlockSource = (typeof BLOCK_SOURCES)[number];

export const IpBlockSchema = defineEntity({
  name: "IpBlock",
  tableName: "ip_blocks",
  properties: {
    id: p.uuid().primary(),
    /** CIDR. */
    network: p.string().columnType("cidr"),
    reason: p.text(),
    source: p.text().$type<BlockSource>(),
    createdBy: p.text(),
    /** Null for a permanent block. */
    expiresAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
  },
});
/** A network whose requests are rejected. */
export class IpBlock extends IpBlockSchema.class {}
IpBlockSchema.setClass(IpBlock);
