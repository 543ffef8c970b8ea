import { defineEntity, p } from "@mikro-orm/core";

/**
 * ACTIVE: healthy. FAILED: a delivery was given up since the last success; it still gets events. DISABLED: it
 * has failed for days, or has answered 410; it gets no new ones. PAUSED by its owners: events wait.
 */
export const WEBHOOK_STATUSES = ["ACTIVE", "FAILED", "DISABLED", "PAUSED"] as const;
export type WebhookStatus = (typeof WEBHOOK_STATUSES)[number];

export const WebhookSchema = defineEntity({
  name: "Webhook",
  tableName: "webhooks",
  properties: {
    id: p.uuid().primary(),
    tenantId: p.uuid(),
    /** null: all projects of the tenant, but no sandbox. */
    projectId: p.uuid().nullable(),
    url: p.text(),
    /** Types, `prefix.*` or `*`: see event-types.ts. */
    events: p.array(),
    description: p.text().nullable(),
    status: p.text().$type<WebhookStatus>(),
    disabledReason: p.text().nullable(),
    /** Encrypted under the webhook's id. */
    secret: p.text(),
    /** The last four characters. */
    secretHint: p.text(),
    /** Encrypted too; signs beside the current one until it expires. */
    previousSecret: p.text().nullable(),
    previousSecretExpiresAt: p.datetime(3).nullable(),
    createdBy: p.text().nullable(),
    lastSuccessAt: p.datetime(3).nullable(),
    lastFailureAt: p.datetime(3).nullable(),
    /** The first failed attempt since the last success. */
    failingSince: p.datetime(3).nullable(),
    /** Number of deliveries given up since the last success. */
    exhausted: p.integer(),
    pausedAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
    deletedAt: p.datetime(3).nullable(),
  },
});
/** An endpoint to which a tenant has events delivered. */
export class Webhook extends WebhookSchema.class {}
WebhookSchema.setClass(Webhook);
