import type { WebhookEvent } from "./catalogue.ts";
import examples from "./examples.json" with { type: "json" };

/**
 * A payload of each type, as a test has seen it arrive. `UPDATE_EXAMPLES=1` has test/http/webhook-examples.test.ts
 * write them.
 */
export const EXAMPLES: Readonly<Record<string, WebhookEvent>> = examples;
