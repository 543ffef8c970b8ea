import type { Cell } from "./permissions.ts";

/** Who may call the operations of webhooks. */
export const WEBHOOK_PERMISSIONS: Readonly<Record<string, Cell>> = {
  listWebhooks: { roles: "OAGD" },
  getWebhook: { roles: "OAGD" },
  createWebhook: { roles: "OA" },
  updateWebhook: { roles: "OA" },
  deleteWebhook: { roles: "OA" },
  rotateWebhookSecret: { roles: "OA" },
  recoverWebhook: { roles: "OA" },
  testWebhook: { roles: "OAD" },
  listWebhookDeliveries: { roles: "OAGD" },
  getWebhookDelivery: { roles: "OAGD" },
  retryWebhookDelivery: { roles: "OAD" },
  listWebhookEventTypes: { roles: "OAGDV", scope: "webhooks:read" },
  listWebhookEvents: { roles: "OAD", scope: "webhooks:read" },
  createTestWebhookEvent: { roles: "OAD", scope: "webhooks:write" },
};
