import {
  BATCH_MAX_BYTES,
  BATCH_MAX_EVENTS,
  FUTURE_LIMIT_MS,
  PROPERTIES_MAX_BYTES,
} from "../../domain/tracking/event-input.ts";
import { REQUEST_CHARACTERS_MAX } from "../../domain/tracking/event-schemas.ts";
import { EVENT_TYPES_MAX } from "../../domain/tracking/event-type-recorder.ts";
import { SCHEMAS_MAX } from "../../domain/tracking/event-types.ts";
import { SCHEMA_MAX_BYTES, SCHEMA_MAX_PARTS } from "../../domain/tracking/json-schema/schema.ts";
import { LONG_ITEM_CHARS, SHORT_REFUSALS_EXPLAINED } from "../item-refusals.ts";
import { type Limit, limit } from "./limit.ts";

export const EVENT_LIMITS: readonly Limit[] = [
  limit("event.batch.events", BATCH_MAX_EVENTS, "items", "events of one batch"),
  limit("event.batch.body", BATCH_MAX_BYTES, "bytes", "the body of a batch"),
  limit("event.properties", PROPERTIES_MAX_BYTES, "bytes", "the properties of one event as JSON"),
  limit("event.ahead", FUTURE_LIMIT_MS, "ms", "how far ahead of the server's clock an event may be"),
  limit("event.types", EVENT_TYPES_MAX, "items", "types of events that a project may have"),
  limit("event.schemas", SCHEMAS_MAX, "items", "event types of a project that may have a schema"),
  limit("event.schema", SCHEMA_MAX_BYTES, "bytes", "the schema of an event type, as JSON"),
  limit("event.schema.parts", SCHEMA_MAX_PARTS, "items", "schemas inside such a schema"),
  limit(
    "event.schemas.request",
    REQUEST_CHARACTERS_MAX,
    "items",
    "characters of the schemas, as JSON, that the events of one request are checked against",
  ),
  limit(
    "batch.refusals.short",
    SHORT_REFUSALS_EXPLAINED,
    "items",
    `refused items of one batch, of fewer than ${LONG_ITEM_CHARS} characters, that are told why`,
  ),
];
