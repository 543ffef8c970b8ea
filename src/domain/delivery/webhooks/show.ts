import type { Webhook } from "./registration.ts";

const iso = (at: Date | null | undefined): string | null => at?.toISOString() ?? null;

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
  previousSecretExpiresAt: webhook.previousSecret == null ? null : iso(webhook.previousSecretExpiresAt),
  createdBy: webhook.createdBy ?? null,
  lastSuccessAt: iso(webhook.lastSuccessAt),
  lastFailureAt: iso(webhook.lastFailureAt),
  failingSince: iso(webhook.failingSince),
  createdAt: webhook.createdAt.toISOString(),
  updatedAt: webhook.updatedAt.toISOString(),
});
