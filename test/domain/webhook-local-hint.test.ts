import assert from "node:assert/strict";
import { checkUrl } from "../../src/domain/delivery/webhooks/registration.ts";
import { createWebhookSender } from "../../src/platform/webhook-sender.ts";

describe("the address of a webhook", () => {
  const webhookSender = createWebhookSender({ allowCidrs: [], ports: [443], allowLocal: false });
  after(() => webhookSender.close());

  it("on the developer's machine is refused with how to allow it, except in production", async () => {
    for (const url of [
      "http://localhost:9000/hook",
      "https://127.0.0.1/hook",
      "https://receiver.internal/x",
    ]) {
      const refusal = (isProduction: boolean) => checkUrl({ webhookSender, config: { isProduction } }, url);
      const expected = { code: "VALIDATION_ERROR", reason: "URL_NOT_ALLOWED" };
      await assert.rejects(refusal(false), { ...expected, message: /WEBHOOKS_ALLOW_LOCAL=on/ });
      await assert.rejects(refusal(true), (error: Error) => !error.message.includes("WEBHOOKS_ALLOW_LOCAL"));
    }
  });
});
