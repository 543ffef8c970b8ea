import type { Json } from "../../../kernel/events/events.ts";

/** An event as sent to webhooks. */
export type WebhookEvent = { id: string; type: string; projectId: string; createdAt: string; data: Json };
