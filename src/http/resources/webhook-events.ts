import { z } from "zod";
import type { App } from "../../app.ts";
import { DEVELOPERS, EVERY_ROLE, tenantOf } from "../../domain/kernel/caller.ts";
import { PAGE_LIMIT_MAX } from "../../domain/kernel/paging.ts";
import { eventTypes } from "../../domain/delivery/webhooks/catalogue/catalogue.ts";
import { readFeed } from "../../domain/delivery/webhooks/feed.ts";
import { makeTestEvent } from "../../domain/delivery/webhooks/delivery-list.ts";
import { group } from "../route.ts";
import { NEEDS_WEBHOOKS } from "./webhook-bodies.ts";

const TYPE_MAX = 120;
const TYPES_MAX = 50;
const CURSOR_MAX = 32;

const common = group({ tag: "Webhooks", project: "caller", errors: ["PAYMENT_REQUIRED", "GONE"] });

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

export const WebhookEventBody = z
  .object({
    id: z.uuid(),
    type: z.string(),
    projectId: z.uuid(),
    createdAt: z.iso.datetime(),
    data: z.record(z.string(), z.unknown()),
  })
  .meta({ id: "WebhookEvent" });

const EventTypeBody = z
  .object({
    type: z.string(),
    occurs: z.string().meta({ description: "When it is sent" }),
    isInWildcard: z
      .boolean()
      .meta({ description: "`*` covers it; the others are many, and are to be named" }),
    isAvailable: z.boolean().meta({ description: "false: the service does not bring it about yet" }),
    schema: z
      .record(z.string(), z.unknown())
      .nullable()
      .meta({ description: "JSON Schema (2020-12) of the whole payload; more fields may come" }),
    example: WebhookEventBody.nullable().meta({ description: "A payload as it arrives" }),
  })
  .meta({ id: "WebhookEventType" });

const anyone = group({
  tag: "Webhooks",
  project: "none",
  access: { scope: "webhooks:read", roles: EVERY_ROLE },
});

export const webhookEventRoutes = [
  anyone.get("/webhooks/event-types", "listWebhookEventTypes", {
    summary: "List the types of events that webhooks are sent",
    description: "With the shape of each, and an example. `prefix.*` subscribes to those that begin so.",
    response: z.object({ data: z.array(EventTypeBody) }),
    outside: async () => ({ data: eventTypes().map((info) => ({ ...info })) }),
  }),
  common.get("/webhook-events", "listWebhookEvents", {
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
      data: z.array(WebhookEventBody),
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
  common.post("/webhook-events/test", "createTestWebhookEvent", {
    summary: "Make a test event",
    description:
      "Puts an example of the type into the feed and sends it to the webhooks that want the type, as if it " +
      "had happened; `data.test` is true, and nothing else changes.",
    access: { scope: "webhooks:write", roles: DEVELOPERS, needs: NEEDS_WEBHOOKS },
    body: z.strictObject({ eventType: z.string().min(1).max(TYPE_MAX) }),
    example: { eventType: "player.level_up" },
    status: 201,
    response: z.object({
      event: WebhookEventBody,
      deliveries: z.int().meta({ description: "Webhooks that it goes to" }),
    }),
    outside: (app: App, { projectId, body }) =>
      app.transact(async (work) => {
        const made = await makeTestEvent(work, { projectId, ...body });
        return { ...made, event: made.event as never };
      }),
  }),
];
