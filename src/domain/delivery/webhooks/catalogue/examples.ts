import type { WebhookEvent } from "./webhook-event.ts";

import examples from "./examples.json" with { type: "json" };

/**
 * A payload of each type, as received in a test. With `UPDATE_EXAMPLES=1` test/http/webhook-examples.full.test.ts
 * writes them anew.
 */
export const EXAMPLES: Readonly<Record<string, WebhookEvent>> = examples;
