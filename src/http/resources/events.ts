import { z } from "zod";
import {
  type Actor,
  type Caller,
  customerOf,
  DESIGNERS,
  DEVELOPERS,
  EVERY_ROLE,
  tenantOf,
} from "../../domain/kernel/caller.ts";
import {
  ENFORCEMENTS,
  EVENT_TYPE_ORDERS,
  EventType,
  getEventType,
  listEventTypes,
  putEventSchema,
} from "../../domain/tracking/event-schemas.ts";
import { group, Reply } from "../route.ts";
import {
  BATCH_MAX_BYTES,
  BATCH_MAX_EVENTS,
  EventInput,
  IDEMPOTENCY_KEY_MAX,
  type NewEvent,
  projectsOf,
  readEvent,
  withIgnored,
} from "../../domain/tracking/event-input.ts";
import { EXTERNAL_ID_MAX } from "../../domain/kernel/limits.ts";
import { IsoTime } from "../../domain/kernel/iso-time.ts";
import type { App } from "../../app.ts";
import { DomainError, invalid } from "../../domain/kernel/errors.ts";
import type { Json } from "../../domain/kernel/events/events.ts";
import { Data } from "../../domain/kernel/events/shapes.ts";
import { findPlayer } from "../../domain/progression/players/players.ts";
import { mapInSlices } from "../../domain/kernel/slices.ts";
import {
  type BatchResult as Batch,
  EventResult,
  trackBatch,
  WAIT_MAX_EVENTS,
} from "../../domain/tracking/group-commit.ts";
import {
  EVENT_SOURCES,
  EVENT_STATUSES,
  EVENT_TYPES_ASKED_MAX,
  EventWithEffects,
  getEvent,
  ListedEvent,
  listEvents,
} from "../../domain/tracking/events.ts";
import { CHECKS_MAX_MS, SCHEMA_MAX_BYTES } from "../../domain/tracking/json-schema.ts";
import { findRuleId } from "../../domain/rules/rules.ts";
import type { Transact } from "../../domain/kernel/work.ts";
import { explainedInPart, SHORT_REFUSALS_EXPLAINED } from "../item-refusals.ts";
import { PropertyPath, textList } from "./analytics-fields.ts";
import { AfterId, ByRule, cursorBody, Direction, Flag, paged, pageReply, Search } from "./bodies.ts";

const common = group({ tag: "Events", project: "caller" });
const read = group({ tag: "Events", access: { scope: "events:read", roles: EVERY_ROLE }, project: "caller" });

const Params = z.object({
  name: z
    .string()
    .max(100)
    .regex(/^[A-Za-z0-9_][A-Za-z0-9_.:-]*$/, "must be an event type"),
});

/**
 * One event, in the field names of a batch item or with `name` for eventType and `playerId` for the player.
 */
const SingleEvent = EventInput.partial().extend({
  name: z.string().optional().meta({ description: "Another name of eventType" }),
  playerId: z
    .string()
    .optional()
    .meta({ description: "Id or externalUserId of the player, instead of externalUserId" }),
});

/** An item of a batch. */
const BatchEvent = EventInput.meta({ id: "NewEvent" });
const { eventType, externalUserId, ...others } = EventInput.shape;
const aliases = SingleEvent.shape;
/** What a single event must have, as the document shows it; `readEvent` refuses what lacks it. */
const DescribedEvent = z
  .intersection(
    z.object(others),
    z.intersection(
      z.union([z.object({ eventType }), z.object({ name: aliases.name.unwrap() })]),
      z.union([z.object({ externalUserId }), z.object({ playerId: aliases.playerId.unwrap() })]),
    ),
  )
  .meta({ id: "NewSingleEvent" });

const BatchResult = z.object({
  accepted: z.int(),
  rejected: z.int(),
  skipped: z.int(),
  results: z
    .array(EventResult.partial({ eventId: true, skipped: true, message: true }))
    .meta({ description: "In the order of the events" }),
});

const WaitQuery = z.object({
  wait: Flag.meta({
    description: `true: answer once processed, at most 2 s; batches up to ${WAIT_MAX_EVENTS} events`,
  }),
});

/** A user's events may belong to several projects, which the request as a whole does not name. */
const within = ({ transactAs }: App, actor: Actor, projectIds: readonly string[]): Transact =>
  transactAs({ role: "web", tenantId: tenantOf(actor.caller), projectIds, by: actor });

/** Looks the player up in the project that the event itself may name. */
const byAlias = async (
  app: App,
  { actor, projectId }: { actor: Actor; projectId: string | undefined },
  body: Json,
): Promise<Json> => {
  const { name, playerId, ...event } = body;
  if (name !== undefined) event["eventType"] ??= name;
  if (playerId !== undefined && event["externalUserId"] === undefined) {
    if (typeof playerId !== "string") throw invalid("playerId", "must be a string");
    const player =
      projectId === undefined
        ? undefined
        : await within(app, actor, [projectId])((work) => findPlayer(work, projectId, playerId));
    event["externalUserId"] = player?.externalUserId ?? playerId.replace(/^ext:/, "");
  }
  return event;
};

/** Stores the valid ones of `inputs`; with `wait`, returns the outcome after the commit. */
const track = async (
  app: App,
  actor: Actor,
  inputs: readonly (NewEvent | DomainError)[],
): Promise<{ result: Batch; outcome: (app: App) => Promise<Batch> }> => {
  const events = inputs.filter((input): input is NewEvent => !(input instanceof DomainError));
  const projectIds = projectsOf(events);
  const { result, settle } = await trackBatch(app, { sender: customerOf(actor.caller), inputs });
  return {
    result,
    outcome: (later) => settle({ ...later, transact: within(later, actor, projectIds) }),
  };
};

const reader = async (
  app: App,
  { caller, projectId, inputs }: { caller: Caller; projectId: string; inputs: readonly unknown[] },
): Promise<(input: unknown) => NewEvent> => {
  const { resolve } = await app.projectRules(caller, projectId, inputs);
  const context = { now: app.clock(), resolve, checks: { leftMs: CHECKS_MAX_MS } };
  return (input) => readEvent(input, context);
};

const write = group({
  tag: "Events",
  access: { scope: "events:write", roles: DEVELOPERS },
  project: "optional",
  errors: ["PAYMENT_REQUIRED"],
});

const isRejected = ({ status }: EventResult): boolean => status === "REJECTED";
const inBrief = ({ status }: EventResult) => ({ status });

/** Maximum characters of the value of a property that is asked for. */
const VALUE_MAX = 500;

type ByProperty = {
  [name in "property" | "value" | "from" | "externalUserId" | "playerId"]?: string | undefined;
};

/** @throws VALIDATION_ERROR for half a question, and for one about all events: properties have no index */
const checkProperty = ({ property, value, from, playerId, ...query }: ByProperty): void => {
  if ((property === undefined) !== (value === undefined))
    throw invalid(property === undefined ? "property" : "value", "property and value go together");
  if (property !== undefined && (from ?? playerId ?? query.externalUserId) === undefined)
    throw invalid("property", "goes with from, externalUserId or playerId");
};

export const eventRoutes = [
  write.post("/events", "trackEvent", {
    namesIgnored: true,
    summary: "Track an event",
    description:
      "A duplicate of an idempotencyKey answers 200 with status DUPLICATE; an invalid event answers 400. " +
      "Beyond the events of the plan it answers 402.",
    query: WaitQuery,
    body: SingleEvent,
    example: {
      externalUserId: "user-1",
      eventType: "lesson.completed",
      properties: { score: 80, lesson: "fractions" },
      timestamp: "2026-01-31T12:00:00Z",
      idempotencyKey: "lesson-4711-user-1",
    },
    described: DescribedEvent,
    response: EventResult,
    prepare: async (app, { caller, projectId, body, actor, ignored }) => {
      const sent = { ...body, eventType: body.eventType ?? body.name };
      const rules = await app.projectRules(caller, projectId, [sent]);
      const named = { actor, projectId: rules.resolve(body.projectId)?.id };
      const event = readEvent(await byAlias(app, named, body), { now: app.clock(), ...rules });
      return withIgnored(event, ignored);
    },
    outside: async (app, { query, actor, prepared }) => {
      const { result, outcome } = await track(app, actor, [prepared]);
      const finish = async (later: App) => (await outcome(later)).results[0]!;
      return new Reply(200, result.results[0]!, {}, query.wait ? finish : undefined);
    },
  }),
  write.post("/events/batch", "trackEvents", {
    summary: "Track events in a batch",
    description:
      `1 to ${BATCH_MAX_EVENTS} events. A bad event is REJECTED in its place and harms no other.` +
      ` After ${SHORT_REFUSALS_EXPLAINED} bad ones that are very short, further such have nothing but ` +
      "their status. Beyond the events of the plan the whole batch answers 402, and nothing of it is stored.",
    bodyLimit: BATCH_MAX_BYTES,
    takesGzip: true,
    itemised: true,
    query: WaitQuery,
    body: z.object({ events: z.array(z.unknown()) }),
    example: {
      events: [
        {
          externalUserId: "user-1",
          eventType: "lesson.completed",
          properties: { score: 80 },
          timestamp: "2026-01-31T12:00:00Z",
          idempotencyKey: "lesson-4711-user-1",
        },
        { externalUserId: "user-2", eventType: "lesson.started" },
      ],
    },
    described: z.object({ events: z.array(BatchEvent).min(1).max(BATCH_MAX_EVENTS) }),
    response: BatchResult,
    prepare: async (app, { caller, projectId, body }) => {
      const { events } = body;
      if (events.length === 0) throw invalid("events", "must not be empty");
      if (events.length > BATCH_MAX_EVENTS) {
        throw invalid("events", `must hold at most ${BATCH_MAX_EVENTS} events`, "BATCH_TOO_MANY_ITEMS");
      }
      const readOne = await reader(app, { caller, projectId, inputs: events });
      return mapInSlices(events, (input) => {
        try {
          return readOne(input);
        } catch (error) {
          if (error instanceof DomainError) return error;
          throw error;
        }
      });
    },
    outside: async (app, { query, actor, body, prepared }) => {
      const { result, outcome } = await track(app, actor, prepared);
      const shown = (batch: Batch) => ({
        ...batch,
        results: explainedInPart(body.events, batch.results, isRejected, inBrief),
      });
      const finish = async (later: App) => shown(await outcome(later));
      return new Reply<z.input<typeof BatchResult>>(200, shown(result), {}, query.wait ? finish : undefined);
    },
  }),
  read.get("/events", "listEvents", {
    summary: "List events by arrival, newest first",
    description:
      "A page ends at 1 MiB of properties. An event that another server takes in at the same moment may come " +
      "before one that was listed already, and is not among those after it.",
    query: AfterId.extend({
      order: Direction.optional().meta({ description: "asc with after, otherwise desc" }),
      after: z.uuid().optional().meta({ description: "Events that arrived after the one with this id" }),
      eventType: textList({ max: EVENT_TYPES_ASKED_MAX })
        .optional()
        .meta({
          description: `Of one of these types, at most ${EVENT_TYPES_ASKED_MAX}: by comma, or given several times`,
        }),
      externalUserId: z.string().max(EXTERNAL_ID_MAX).optional(),
      idempotencyKey: z
        .string()
        .max(IDEMPOTENCY_KEY_MAX)
        .optional()
        .meta({ description: "Exactly this key: one event at most" }),
      playerId: z
        .string()
        .max(259)
        .optional()
        .meta({ description: "Id of the player, or ext: and the externalUserId" }),
      source: z.enum(EVENT_SOURCES).optional(),
      status: z.enum(EVENT_STATUSES).optional(),
      from: IsoTime.optional().meta({ description: "timestamp from, inclusive" }),
      to: IsoTime.optional().meta({ description: "timestamp until, exclusive" }),
      property: PropertyPath.optional().meta({
        description:
          "Path of a property, such as order.country, that is `value`; goes with from, externalUserId or playerId",
      }),
      value: z.string().max(VALUE_MAX).optional().meta({
        description: "What `property` is: 5, true and null are also found as texts",
      }),
      ruleId: ByRule.meta({ description: "Id or key of a rule that fired for it" }),
      include: z.enum(["effects"]).optional().meta({ description: "effectCounts of each" }),
    }),
    response: cursorBody(ListedEvent, z.uuid()),
    run: async (work, { projectId, query }) => {
      const { playerId: playerRef, include, ruleId: ruleRef, ...filters } = query;
      checkProperty(query);
      const ruleId = await findRuleId(work, projectId, ruleRef);
      const asked = { ...filters, playerRef, ruleId, withEffects: include !== undefined };
      const { events, nextCursor } = await listEvents(work, projectId, asked);
      return { data: events, pagination: { limit: query.limit, nextCursor } };
    },
  }),
  read.get("/events/{eventId}", "getEvent", {
    summary: "Get an event and its effects",
    params: z.object({ eventId: z.string() }),
    response: EventWithEffects,
    run: (work, { projectId, params }) => getEvent(work, projectId, params.eventId),
  }),
  read.get("/event-types", "listEventTypes", {
    summary: "List event types and the schemas of their properties",
    ...paged(EventType, EVENT_TYPE_ORDERS, {
      search: Search,
      enforcement: z.enum(ENFORCEMENTS).optional(),
    }),
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
      schema: Data.nullable().meta({
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
