import { z } from "zod";
import { DESIGNERS, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import {
  ENFORCEMENTS,
  EVENT_TYPE_ORDERS,
  getEventType,
  listEventTypes,
  putEventSchema,
} from "../../domain/tracking/event-schemas.ts";
import { SCHEMA_MAX_BYTES } from "../../domain/tracking/json-schema/schema.ts";
import { SAMPLE_PLAYERS_MIN } from "../../domain/tracking/event-type-recorder.ts";
import { group } from "../route.ts";
import { pageReply, Search, sortedBy } from "./list-bodies.ts";

const JsonObject = z.record(z.string(), z.unknown());

const EventType = z
  .object({
    name: z.string().meta({ example: "order.paid" }),
    total: z.int().meta({ description: "Events of the type that were taken up, some seconds late" }),
    firstSeenAt: z.iso.datetime().nullable(),
    lastSeenAt: z.iso.datetime().nullable(),
    properties: z.array(
      z.object({
        path: z.string(),
        types: z.array(z.string()),
        samples: z.array(z.unknown()).meta({
          description: `Short values that at least ${SAMPLE_PLAYERS_MIN} players have sent`,
        }),
      }),
    ),
    schema: JsonObject.nullable(),
    enforcement: z.enum(ENFORCEMENTS),
  })
  .meta({ id: "EventType" });

const common = group({ tag: "Events", project: "caller" });
const read = common.with({ access: { scope: "events:read", roles: EVERY_ROLE } });

const Params = z.object({
  name: z
    .string()
    .max(100)
    .regex(/^[A-Za-z0-9_][A-Za-z0-9_.:-]*$/, "must be an event type"),
});

export const eventTypeRoutes = [
  read.get("/event-types", "listEventTypes", {
    summary: "List event types and the schemas of their properties",
    query: PageQuery.extend({
      ...sortedBy(EVENT_TYPE_ORDERS),
      search: Search,
      enforcement: z.enum(ENFORCEMENTS).optional(),
    }),
    response: pageBody(EventType),
    run: async (work, { projectId, query }) =>
      pageReply(await listEventTypes(work, projectId, query), "types", query),
  }),
  read.get("/event-types/{name}", "getEventType", {
    summary: "Get an event type",
    params: Params,
    response: EventType,
    run: (work, { projectId, params }) => getEventType(work, projectId, params.name),
  }),
  common.put("/event-types/{name}", "putEventType", {
    access: { scope: "config:manage", roles: DESIGNERS },
    summary: "Give an event type a schema",
    description:
      "JSON Schema 2020-12 for the properties of its events, without regular expressions and references to " +
      `other documents, at most ${SCHEMA_MAX_BYTES / 1024} KiB; format says something to people only. WARN ` +
      "takes an event that does not fit, with warnings; REJECT does not. It counts within 5 seconds.",
    params: Params,
    body: z.strictObject({
      schema: JsonObject.nullable().meta({
        example: { type: "object", required: ["amount"], properties: { amount: { type: "number" } } },
      }),
      enforcement: z.enum(ENFORCEMENTS),
    }),
    example: {
      schema: {
        type: "object",
        required: ["amount"],
        properties: { amount: { type: "number", minimum: 0 } },
      },
      enforcement: "WARN",
    },
    response: EventType,
    run: (work, { projectId, params, body }) =>
      putEventSchema(work, projectId, { name: params.name, ...body }),
  }),
];
