import { defineEntity, p } from "@mikro-orm/core";
import type { Json } from "../kernel/events/events.ts";

export type PlayerStatus = "ACTIVE" | "SUSPENDED" | "BANNED" | "MERGED" | "ERASED";

/**
 * A hot table: scalar keys, no relations. Read and edited as an entity, changed in batches by progression.
 */
export const PlayerSchema = defineEntity({
  name: "Player",
  tableName: "players",
  properties: {
    projectId: p.uuid().primary(),
    id: p.uuid().primary(),
    externalUserId: p.text(),
    displayName: p.text().nullable(),
    avatarUrl: p.text().nullable(),
    status: p.text().$type<PlayerStatus>(),
    xp: p.bigint("number"),
    level: p.integer(),
    timezone: p.text().nullable(),
    locale: p.text().nullable(),
    country: p.text().nullable(),
    attributes: p.json<Json>(),
    metadata: p.json<Json>(),
    tags: p.array(),
    seq: p.bigint("number"),
    ledgerSeq: p.bigint("number"),
    ledgerHash: p.text().nullable(),
    lives: p.integer().nullable(),
    livesAnchorAt: p.datetime(3).nullable(),
    livesUnlimitedUntil: p.datetime(3).nullable(),
    zoneChangedAt: p.datetime(3).nullable(),
    /** Before `createdAt`, else null. */
    firstSeenAt: p.datetime(3).nullable(),
    lastSeenAt: p.datetime(3).nullable(),
    /** The player that this one was merged into or renamed to; never merged itself. */
    mergedInto: p.uuid().nullable(),
    /** Deleted by REST: SUSPENDED, and hidden from lists and boards until the status changes. */
    deletedAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});
export class Player extends PlayerSchema.class {}
PlayerSchema.setClass(Player);
