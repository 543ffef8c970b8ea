import type { Webhook } from "./registration.ts";
import { isoOf } from "../../kernel/iso-time.ts";

/** Converts a webhook to its API form: its secret is shown only on creation. */
export const showWebhook = (webhook: Webhook) => ({
  id: webhook.id,
  tenantId: webhook.tenantId,
  projectId: webhook.projectId ?? null,
  url: webhook.url,
  events: webhook.events,
  description: webhook.description ?? null,
  status: webhook.status,
  disabledReason: webhook.disabledReason ?? null,
  secretHint: webhook.secretHint,
  previousSecretExpiresAt: webhook.previousSecret == null ? null : isoOf(webhook.previousSecretExpiresAt),
  createdBy: webhook.createdBy ?? null,
  lastSuccessAt: isoOf(webhook.lastSuccessAt),
  lastFailureAt: isoOf(webhook.lastFailureAt),
  failingSince: isoOf(webhook.failingSince),
  createdAt: webhook.createdAt.toISOString(),
  updatedAt: webhook.updatedAt.toISOString(),
});
