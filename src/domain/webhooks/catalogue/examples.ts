import type { WebhookEvent } from "./catalogue.ts";

/**
 * A payload of each type, as a test has seen it arrive (test/http/webhook-examples.test.ts, which also writes
 * this file).
 */
export const EXAMPLES: Readonly<Record<string, WebhookEvent>> = {};
