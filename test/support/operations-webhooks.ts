import { webhookBody } from "./operation-bodies.ts";
import type { Known } from "./operations.ts";

/** An operation on one webhook. */
const ofWebhook = (suffix = "", body?: unknown): Known => ({
  call: async (side) => ({ path: `/webhooks/${await side.webhook()}${suffix}`, body }),
});

/** Webhooks, what was sent to them, and the feed. */
export const webhookOperations: Record<string, Known> = {
  listWebhooks: { call: () => ({ path: "/webhooks?status=ACTIVE" }) },
  createWebhook: {
    call: ({ tenant }) => ({
      path: "/webhooks",
      body: { ...webhookBody(), secret: "a-secret-of-the-sweeps", projectId: tenant.projectId },
    }),
    foreign: (_own, { tenant }) =>
      Promise.resolve([{ path: "/webhooks", body: { ...webhookBody(), projectId: tenant.projectId } }]),
  },
  getWebhook: ofWebhook(),
  updateWebhook: ofWebhook("", { ...webhookBody(), projectId: null, status: "PAUSED" }),
  deleteWebhook: ofWebhook(),
  rotateWebhookSecret: ofWebhook("/rotate-secret", {
    gracePeriodSeconds: 60,
    secret: "another-secret-of-the-sweeps",
  }),
};
