import { webhookBody } from "./bodies.ts";
import type { Foreign, Known } from "./operations.ts";
import { isOneTenant, type Side } from "../app/sides.ts";

/** An operation on one webhook. */
const ofWebhook = (suffix = "", body?: unknown): Known => ({
  call: async (side) => ({ path: `/webhooks/${await side.webhook()}${suffix}`, body }),
});

/** A webhook of another tenant's project; one of another project of the tenant is right. */
const foreignProject = async (own: Side, other: Side, path: string): Promise<Foreign[]> =>
  isOneTenant(own, other) ? [] : [{ path, body: { ...webhookBody(), projectId: other.tenant.projectId } }];

/** Webhooks, what was sent to them, and the feed. */
export const webhookOperations: Record<string, Known> = {
  listWebhooks: { call: () => ({ path: "/webhooks?status=ACTIVE" }) },
  createWebhook: {
    call: ({ tenant }) => ({
      path: "/webhooks",
      body: { ...webhookBody(), secret: "a-secret-of-the-sweeps", projectId: tenant.projectId },
    }),
    foreign: (own, other) => foreignProject(own, other, "/webhooks"),
  },
  getWebhook: ofWebhook(),
  updateWebhook: {
    ...ofWebhook("", { ...webhookBody(), projectId: null, status: "PAUSED" }),
    foreign: async (own, other) => foreignProject(own, other, `/webhooks/${await own.webhook()}`),
  },
  deleteWebhook: ofWebhook(),
  recoverWebhook: ofWebhook("/recover", { since: "2026-01-01T00:00:00Z", until: "2026-01-02T00:00:00Z" }),
  testWebhook: ofWebhook("/test", { eventType: "player.level_up" }),
  listWebhookDeliveries: ofWebhook("/deliveries?status=failed&eventType=player.level_up"),
  getWebhookDelivery: { call: async (side) => ({ path: await side.delivery() }) },
  retryWebhookDelivery: { call: async (side) => ({ path: `${await side.delivery()}/retry`, body: {} }) },
  listWebhookEventTypes: { call: () => ({ path: "/webhooks/event-types" }) },
  listWebhookEvents: { call: () => ({ path: "/webhook-events?limit=5&types=player.created" }) },
  createTestWebhookEvent: {
    call: () => ({ path: "/webhook-events/test", body: { eventType: "player.level_up" } }),
  },
  rotateWebhookSecret: ofWebhook("/rotate-secret", {
    gracePeriodSeconds: 60,
    secret: "another-secret-of-the-sweeps",
  }),
};
