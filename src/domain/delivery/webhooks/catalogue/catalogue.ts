import { z } from "zod";
import type { CustomData, Json } from "../../../kernel/events/events.ts";
import { WEBHOOK_TYPES } from "./event-types.ts";
import { NOISY_TYPES } from "../../../kernel/events/event-types.ts";
import type { Entry } from "./entry.ts";
import { EXAMPLES } from "./examples.ts";
import { leaderboardTypes } from "./leaderboard.ts";
import { lobbyTypes } from "./lobby.ts";
import { chatTypes, ruleTypes } from "./other.ts";
import { reportTypes } from "./report.ts";
import { playerTypes } from "./player.ts";
import { adventureTypes } from "./adventure.ts";
import { questTypes } from "./quest.ts";
import { CauseShape, Data, PLAYER, Text } from "./shapes.ts";
import type { WebhookEvent } from "./webhook-event.ts";

/** A type's entry in the catalogue. */
export type EventTypeInfo = {
  type: string;
  /** When it is sent. */
  occurs: string;
  /** Whether `*` covers it; other types are frequent and must be named. */
  isInWildcard: boolean;
  /** false: the service does not emit such events yet. */
  isAvailable: boolean;
  /** JSON Schema of the whole payload; null while it is not available. */
  schema: Json | null;
  /** A payload received in a test; null while it is not available. */
  example: WebhookEvent | null;
};

/** Stands for the types of events that rules emit. */
export const CUSTOM_TYPE = "custom.*";

const customType: Entry<CustomData> = {
  occurs: "a rule emitted an event of your own for webhooks; its type is `custom.` and your name for it",
  data: z.object({ ...PLAYER, eventType: Text, properties: Data, cause: CauseShape }),
};

const ENTRIES: Readonly<Record<string, Entry>> = {
  ...playerTypes,
  ...questTypes,
  ...adventureTypes,
  ...leaderboardTypes,
  ...lobbyTypes,
  ...chatTypes,
  ...ruleTypes,
  ...reportTypes,
  [CUSTOM_TYPE]: customType,
};

/** Returns the schema of events of an available type; undefined for others. */
export const shapeOf = (type: string): z.ZodType | undefined => {
  const entry = ENTRIES[type.startsWith("custom.") ? CUSTOM_TYPE : type];
  if (!entry) return undefined;
  const literal = type === CUSTOM_TYPE ? z.string().regex(/^custom\./) : z.literal(type);
  return z.object({
    id: z.uuid().meta({ description: "The same on each attempt: drop what you have seen" }),
    type: literal,
    projectId: z.uuid(),
    createdAt: z.iso.datetime().meta({ description: "When it was committed" }),
    data: entry.data,
  });
};

/**
 * Open: tests add `test`, and shortened events `truncated`; receivers must accept later additions. Where
 * there is a format, its pattern only makes the document long.
 */
const publishedSchema = (shape: z.ZodType): Json =>
  z.toJSONSchema(shape, {
    io: "input",
    override: ({ jsonSchema }) => {
      if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
    },
  });

const infoOf = (type: string): EventTypeInfo => {
  const shape = shapeOf(type);
  return {
    type,
    occurs: ENTRIES[type]?.occurs ?? "not available yet",
    isInWildcard: !NOISY_TYPES.has(type),
    isAvailable: shape !== undefined,
    schema: shape ? publishedSchema(shape) : null,
    example: EXAMPLES[type] ?? null,
  };
};

let catalogue: readonly EventTypeInfo[] | undefined;

/** Returns every type that can be subscribed to, in the order of the specification's list and then ours. */
export const eventTypes = (): readonly EventTypeInfo[] => {
  catalogue ??= [...WEBHOOK_TYPES, CUSTOM_TYPE].map(infoOf);
  return catalogue;
};
