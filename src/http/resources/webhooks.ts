import { z } from "zod";
import {
  checkUrl,
  createWebhook,
  deleteWebhook,
  getWebhook,
  isSigningSecret,
  listWebhooks,
  PATTERNS_MAX,
  rotateSecret,
  SECRET_MAX,
  SECRET_MIN,
  showWebhook,
  updateWebhook,
  URL_MAX,
  WEBHOOK_ORDERS,
  WEBHOOK_STATUSES,
} from "../../domain/delivery/webhooks/registration.ts";
import { ADMINS, BUILDERS, DEVELOPERS, EVERY_ROLE, tenantOf, userOf } from "../../domain/kernel/caller.ts";
import { PAGE_LIMIT_MAX } from "../../domain/kernel/paging.ts";
import { EventTypeInfo, eventTypes, WebhookEvent } from "../../domain/delivery/webhooks/catalogue.ts";
import { readFeed } from "../../domain/delivery/webhooks/feed.ts";
import { makeTestEvent } from "../../domain/delivery/webhooks/delivery-list.ts";
import { group } from "../route.ts";
import { deleted, Deleted, graceSeconds, paged, pageReply } from "./bodies.ts";

const DESCRIPTION_MAX = 255;
/** Maximum length of a type of events, or of a pattern. */
export const TYPE_MAX = 120;

/** Webhooks require an approved tenant with a plan that includes them. */
export const NEEDS_WEBHOOKS = { approval: true, feature: "webhooks" } as const;

const Url = z
  .string()
  .trim()
  .min(1)
  .max(URL_MAX)
  .meta({
    description:
      "An https address that all the world can reach. It is looked up again for each attempt, and " +
      "redirects are not followed",
    example: "https://example.com/hooks/laurel",
  });
const Patterns = z
  .array(z.string().min(1).max(TYPE_MAX))
  .min(1)
  .max(PATTERNS_MAX)
  .meta({
    description:
      "Types of `GET /webhooks/event-types`, `prefix.*` for all that begin so, `custom.{eventType}` for " +
      "what rules emit, or `*` for all but the noisy ones",
    example: ["player.level_up", "leaderboard.*"],
  });
export const Secret = z
  .string()
  .min(SECRET_MIN)
  .max(SECRET_MAX)
  .regex(/^[\x21-\x7e]+$/, "must be printable ASCII without blanks")
  .refine(isSigningSecret, `must have base64 of ${SECRET_MIN} bytes or more behind whsec_`)
  .meta({ description: "Signs what is sent. Default: a new one, `whsec_` and 32 random bytes in base64" });
export const Description = z.string().trim().max(DESCRIPTION_MAX).nullish();
const ProjectOf = z
  .string()
  .max(64)
  .nullish()
  .meta({ description: "Only events of this project; null: of all but sandboxes" });

const Time = z.iso.datetime().nullable();

const WebhookBody = z
  .object({
    id: z.uuid(),
    tenantId: z.uuid(),
    projectId: z.uuid().nullable(),
    url: z.string(),
    events: z.array(z.string()),
    description: z.string().nullable(),
    status: z.enum(WEBHOOK_STATUSES).meta({
      description:
        "FAILED: a delivery was given up since the last success; it still gets events. DISABLED: it has " +
        "failed for days, or answered 410; it gets no new ones. PAUSED: events wait, up to 72 hours",
    }),
    disabledReason: z.string().nullable(),
    secretHint: z.string().meta({ description: "The last four characters of the secret" }),
    previousSecretExpiresAt: Time.meta({ description: "Until then the old secret signs too" }),
    createdBy: z.string().nullable(),
    lastSuccessAt: Time,
    lastFailureAt: Time,
    failingSince: Time.meta({ description: "The first failed attempt since the last success" }),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "Webhook" });

const MadeWebhookBody = WebhookBody.extend({
  secret: z.string().meta({ description: "Shown only here" }),
});

const TYPES_MAX = 50;
const CURSOR_MAX = 32;

const ofProject = group({ tag: "Webhooks", project: "caller", errors: ["PAYMENT_REQUIRED", "GONE"] });

const Types = z
  .string()
  .min(1)
  .max(TYPE_MAX * TYPES_MAX)
  .transform((text) => text.split(",").map((type) => type.trim()))
  .refine((types) => types.length <= TYPES_MAX, { error: `must be at most ${TYPES_MAX} types` })
  .optional()
  .meta({
    description: "Types or patterns as a webhook has them, separated by commas",
    override: { type: "string" },
  });

const anyone = group({
  tag: "Webhooks",
  project: "none",
  access: { scope: "webhooks:read", roles: EVERY_ROLE },
});

export const webhooks = group({ tag: "Webhooks", project: "none", errors: ["PAYMENT_REQUIRED"] });
export const readWebhooks = webhooks.with({ access: { roles: BUILDERS, needs: NEEDS_WEBHOOKS } });
export const writeWebhooks = webhooks.with({ access: { roles: ADMINS, needs: NEEDS_WEBHOOKS } });

export const webhookRoutes = [
  anyone.get("/webhooks/event-types", "listWebhookEventTypes", {
    summary: "List the types of events that webhooks are sent",
    description: "With the shape of each, and an example. `prefix.*` subscribes to those that begin so.",
    response: z.object({ data: z.array(EventTypeInfo) }),
    outside: async () => ({ data: eventTypes().map((info) => ({ ...info })) }),
  }),
  ofProject.get("/webhook-events", "listWebhookEvents", {
    summary: "Read the events that webhooks are sent",
    description:
      "For integrators behind a firewall. Read on with `nextCursor`: no event is missed, and none is given " +
      "twice. A page ends at 1 MiB of events, or 10,000 events further, whatever their types, with " +
      "`hasMore`. The feed begins when it is first read, or " +
      "with the project's first webhook, ends when nobody has read it for 30 days, and is kept as long as " +
      "deliveries are: 410 CURSOR_EXPIRED for a cursor from before.",
    access: { scope: "webhooks:read", roles: DEVELOPERS, needs: NEEDS_WEBHOOKS },
    query: z.object({
      limit: z.coerce.number().int().min(1).max(PAGE_LIMIT_MAX).default(PAGE_LIMIT_MAX),
      cursor: z
        .string()
        .min(1)
        .max(CURSOR_MAX)
        .optional()
        .meta({
          description:
            "`nextCursor` of the page before; `latest` begins behind all there is. Default: the oldest " +
            "event kept",
        }),
      types: Types,
    }),
    response: z.object({
      data: z.array(WebhookEvent),
      pagination: z.object({
        limit: z.int(),
        nextCursor: z.string().meta({ description: "Given also when there is nothing new" }),
        hasMore: z.boolean(),
      }),
    }),
    run: async (work, { caller, projectId, query }) => {
      const { data, ...pagination } = await readFeed(work, { tenantId: tenantOf(caller), projectId }, query);
      return { data: data as never, pagination: { limit: query.limit, ...pagination } };
    },
  }),
  ofProject.post("/webhook-events/test", "createTestWebhookEvent", {
    summary: "Make a test event",
    description:
      "Puts an example of the type into the feed and sends it to the webhooks that want the type, as if it " +
      "had happened; `data.test` is true, and nothing else changes.",
    access: { scope: "webhooks:write", roles: DEVELOPERS, needs: NEEDS_WEBHOOKS },
    body: z.strictObject({ eventType: z.string().min(1).max(TYPE_MAX) }),
    example: { eventType: "player.level_up" },
    status: 201,
    response: z.object({
      event: WebhookEvent,
      deliveries: z.int().meta({ description: "Webhooks that it goes to" }),
    }),
    run: async (work, { projectId, body }) => {
      const made = await makeTestEvent(work, { projectId, ...body });
      return { ...made, event: made.event as never };
    },
  }),
  readWebhooks.get("/webhooks", "listWebhooks", {
    summary: "List webhooks",
    description: "Newest first.",
    ...paged(WebhookBody, WEBHOOK_ORDERS, {
      status: z.enum(WEBHOOK_STATUSES).optional(),
      projectId: z.uuid().optional().meta({ description: "Those of this project alone" }),
    }),
    run: async (work, { caller, query }) =>
      pageReply(await listWebhooks(work, userOf(caller).tenantId, query), "webhooks", query, showWebhook),
  }),
  readWebhooks.get("/webhooks/{webhookId}", "getWebhook", {
    summary: "Get a webhook",
    response: WebhookBody,
    run: async (work, { caller, params }) =>
      showWebhook(await getWebhook(work, userOf(caller).tenantId, params.webhookId)),
  }),
  writeWebhooks.post("/webhooks", "createWebhook", {
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
  writeWebhooks.post("/webhooks/{webhookId}/rotate-secret", "rotateWebhookSecret", {
    summary: "Give a webhook a new secret",
    description:
      "The old secret signs too for as long as `gracePeriodSeconds` says, in `webhook-signature`; " +
      "`X-Service-Signature` has the new one at once.",
    body: z.strictObject({
      gracePeriodSeconds: graceSeconds("0 ends the old one at once"),
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
  writeWebhooks.patch("/webhooks/{webhookId}", "updateWebhook", {
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
  writeWebhooks.delete("/webhooks/{webhookId}", "deleteWebhook", {
    summary: "Delete a webhook",
    description: "Nothing more is sent to it, not even pending retries.",
    response: Deleted,
    run: (work, { caller, params }) =>
      deleted(deleteWebhook(work, userOf(caller).tenantId, params.webhookId)),
  }),
];
