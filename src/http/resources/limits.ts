import { z } from "zod";
import { BODY_LIMIT, MATCHMAKE_BODY_LIMIT } from "../../domain/limits.ts";
import { PAGE_DEPTH_MAX, PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX } from "../../domain/paging.ts";
import {
  BATCH_MAX_BYTES,
  BATCH_MAX_EVENTS,
  FUTURE_LIMIT_MS,
  JSON_MAX_DEPTH,
  PROPERTIES_MAX_BYTES,
} from "../../domain/tracking/event-input.ts";
import { route } from "../route.ts";

const Limit = z
  .object({
    name: z.string().meta({ example: "event.batch.events" }),
    value: z.number(),
    unit: z.enum(["bytes", "items", "levels", "ms"]),
    appliesTo: z.string(),
  })
  .meta({ id: "Limit" });
type Limit = z.infer<typeof Limit>;

const limit = (name: string, value: number, unit: Limit["unit"], appliesTo: string): Limit => ({
  name,
  value,
  unit,
  appliesTo,
});

/** The limits that callers meet, as the code that keeps them states them. */
export const LIMITS: readonly Limit[] = [
  limit("request.body", BODY_LIMIT, "bytes", "the body of a request, unless another limit is named"),
  limit("request.body.depth", JSON_MAX_DEPTH, "levels", "objects and arrays inside one another in a body"),
  limit("matchmaking.body", MATCHMAKE_BODY_LIMIT, "bytes", "the body of a matchmaking request"),
  limit("list.limit.default", PAGE_LIMIT_DEFAULT, "items", "a page when `limit` is not given"),
  limit("list.limit", PAGE_LIMIT_MAX, "items", "a page"),
  limit("list.depth", PAGE_DEPTH_MAX, "items", "how far pages may reach"),
  limit("event.batch.events", BATCH_MAX_EVENTS, "items", "events of one batch"),
  limit("event.batch.body", BATCH_MAX_BYTES, "bytes", "the body of a batch"),
  limit("event.properties", PROPERTIES_MAX_BYTES, "bytes", "the properties of one event as JSON"),
  limit("event.ahead", FUTURE_LIMIT_MS, "ms", "how far ahead of the server's clock an event may be"),
];

export const limitRoutes = [
  route({
    method: "get",
    path: "/limits",
    id: "listLimits",
    tag: "Limits",
    summary: "List the limits of the service",
    access: "public",
    project: "none",
    response: z.object({ data: z.array(Limit) }),
    run: async () => ({ data: [...LIMITS] }),
  }),
];
