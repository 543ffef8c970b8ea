import { z } from "zod";
import { ADMINS, BUILDERS, userOf } from "../../domain/kernel/caller.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import {
  checkUrl,
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  rotateSecret,
  updateWebhook,
  WEBHOOK_ORDERS,
  WEBHOOK_STATUSES,
} from "../../domain/delivery/webhooks/registration.ts";
import { ROTATION_GRACE_SECONDS, ROTATION_GRACE_SECONDS_MAX } from "../../domain/kernel/limits.ts";
import { showWebhook } from "../../domain/delivery/webhooks/show.ts";
import { group } from "../route.ts";
import { pageReply, sortedBy } from "./list-bodies.ts";
import {
  Description,
  MadeWebhookBody,
  NEEDS_WEBHOOKS,
  Patterns,
  ProjectOf,
  Secret,
  Url,
  WebhookBody,
} from "./webhook-bodies.ts";
import { Deleted, deleted } from "./plain-bodies.ts";

const common = group({ tag: "Webhooks", project: "none", errors: ["PAYMENT_REQUIRED"] });
const read = common.with({ access: { roles: BUILDERS, needs: NEEDS_WEBHOOKS } });
const write = common.with({ access: { roles: ADMINS, needs: NEEDS_WEBHOOKS } });

const readRoutes = [
  read.get("/webhooks", "listWebhooks", {
    summary: "List webhooks",
    description: "Newest first.",
    query: PageQuery.extend({
      ...sortedBy(WEBHOOK_ORDERS),
      status: z.enum(WEBHOOK_STATUSES).optional(),
      projectId: z.uuid().optional().meta({ description: "Those of this project alone" }),
    }),
    response: pageBody(WebhookBody),
    run: async (work, { caller, query }) => {
      const { webhooks, ...total } = await listWebhooks(work, userOf(caller).tenantId, query);
      return pageReply(webhooks.map(showWebhook), total, query);
    },
  }),
  read.get("/webhooks/{webhookId}", "getWebhook", {
    summary: "Get a webhook",
    response: WebhookBody,
    run: async (work, { caller, params }) =>
      showWebhook(await getWebhook(work, userOf(caller).tenantId, params.webhookId)),
  }),
];

const makingRoutes = [
  write.post("/webhooks", "createWebhook", {
    summary: "Register a webhook",
    description:
      "Events that are committed from now on are sent to `url`, signed with the secret, which is shown " +
      "only here. 400 URL_NOT_ALLOWED for an address that is not public.",
    body: z.strictObject({
      url: Url,
      events: Patterns,
      secret: Secret.optional(),
      projectId: ProjectOf,
      description: Description,
    }),
    example: { url: "https://example.com/hooks/laurel", events: ["player.level_up"] },
    status: 201,
    response: MadeWebhookBody,
    prepare: (app, { body }) => checkUrl(app, body.url),
    run: async (work, { caller, body }, app) => {
      const made = await createWebhook(work, app.secretBox, userOf(caller).tenantId, body);
      return { ...showWebhook(made.webhook), secret: made.secret };
    },
  }),
  write.post("/webhooks/{webhookId}/rotate-secret", "rotateWebhookSecret", {
    summary: "Give a webhook a new secret",
    description:
      "The old secret signs too for as long as `gracePeriodSeconds` says, in `webhook-signature`; " +
      "`X-Service-Signature` has the new one at once.",
    body: z.strictObject({
      gracePeriodSeconds: z
        .int()
        .min(0)
        .max(ROTATION_GRACE_SECONDS_MAX)
        .default(ROTATION_GRACE_SECONDS)
        .meta({ description: "0 ends the old one at once" }),
      secret: Secret.optional(),
    }),
    example: { gracePeriodSeconds: 3600 },
    response: MadeWebhookBody,
    run: async (work, { caller, params, body }, app) => {
      const made = await rotateSecret(work, app.secretBox, {
        tenantId: userOf(caller).tenantId,
        id: params.webhookId,
        graceSeconds: body.gracePeriodSeconds,
        secret: body.secret,
      });
      return { ...showWebhook(made.webhook), secret: made.secret };
    },
  }),
];

const changingRoutes = [
  write.patch("/webhooks/{webhookId}", "updateWebhook", {
    summary: "Change, pause or enable a webhook",
    description:
      "The new values apply to everything sent from now on, retries of earlier events included. ACTIVE " +
      "enables one that is PAUSED or DISABLED: see `POST /webhooks/{webhookId}/recover` for what it " +
      "has missed.",
    body: z.strictObject({
      url: Url.optional(),
      events: Patterns.optional(),
      description: Description,
      projectId: ProjectOf,
      status: z.enum(["ACTIVE", "PAUSED"]).optional(),
    }),
    example: { status: "PAUSED" },
    response: WebhookBody,
    prepare: (app, { body }) => checkUrl(app, body.url),
    run: async (work, { caller, params, body }) =>
      showWebhook(await updateWebhook(work, userOf(caller).tenantId, params.webhookId, body)),
  }),
  write.delete("/webhooks/{webhookId}", "deleteWebhook", {
    summary: "Delete a webhook",
    description: "Nothing more is sent to it, not even pending retries.",
    response: Deleted,
    run: (work, { caller, params }) =>
      deleted(deleteWebhook(work, userOf(caller).tenantId, params.webhookId)),
  }),
];

export const webhookRoutes = [...readRoutes, ...makingRoutes, ...changingRoutes];
