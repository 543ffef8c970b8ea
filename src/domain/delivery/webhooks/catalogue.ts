import { z } from "zod";
import { exampleOf } from "../../kernel/example.ts";
import {
  CUSTOM_ENTRY,
  type Entry,
  EVENT_ENTRIES,
  type EventData,
  type EventType,
} from "../../kernel/events/domain-events.ts";
import { NOISY_TYPES, SENT_EVENT_TYPES } from "../../kernel/events/event-types.ts";
import type { Json } from "../../kernel/events/events.ts";
import type { QuestOutline } from "../../evaluation/quests/show.ts";

const CUSTOM = "custom.";
const CUSTOM_PATTERN = /^custom\.(\*|[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}(\.\*)?)$/;
/** Whether rules can emit events of the type. */
const isCustomType = (type: string): boolean => CUSTOM_PATTERN.test(type) && !type.endsWith("*");

/** Every type of the service's own that webhooks can receive. */
export const WEBHOOK_TYPES: readonly string[] = [...SENT_EVENT_TYPES];

/** Whether events of the type go to webhooks and into the feed, if anybody subscribes. */
export const isWebhookType = (type: string): boolean => SENT_EVENT_TYPES.has(type) || type.startsWith(CUSTOM);

/**
 * Whether a subscription covers a type. A pattern is a type, `prefix.*` for those that begin with `prefix.`,
 * or `*` for all but NOISY_TYPES.
 */
export const isSubscribed = (patterns: readonly string[], type: string): boolean =>
  patterns.some((pattern) => {
    if (pattern === "*") return !NOISY_TYPES.has(type);
    return pattern.endsWith(".*") ? type.startsWith(pattern.slice(0, -1)) : pattern === type;
  });

/** Types by name, by the beginning of the name and, if given, all that are not in `except`. */
type Types = { names: string[]; prefixes: string[]; except?: string[] };

/** Returns the types that subscriptions cover, as `isSubscribed` decides. */
export const typesOf = (patterns: readonly string[]): Types => ({
  names: patterns.filter((pattern) => !pattern.endsWith("*")),
  prefixes: patterns.filter((pattern) => pattern.endsWith(".*")).map((pattern) => pattern.slice(0, -1)),
  ...(patterns.includes("*") ? { except: [...NOISY_TYPES] } : {}),
});

/** Whether a subscription may name it: an existing type, one of the integrator's own, or a group of them. */
export const isPattern = (pattern: string): boolean => {
  if (pattern === "*") return true;
  if (pattern.startsWith(CUSTOM)) return CUSTOM_PATTERN.test(pattern);
  if (pattern.endsWith(".*")) return WEBHOOK_TYPES.some((type) => type.startsWith(pattern.slice(0, -1)));
  return WEBHOOK_TYPES.includes(pattern);
};

/** An event as sent to webhooks. */
export const WebhookEvent = z
  .object({
    id: z.uuid(),
    type: z.string(),
    projectId: z.uuid(),
    createdAt: z.iso.datetime(),
    data: z.record(z.string(), z.unknown()),
  })
  .meta({ id: "WebhookEvent" });
export type WebhookEvent = z.output<typeof WebhookEvent>;

/** A type's entry in the catalogue. */
export const EventTypeInfo = z
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
    example: WebhookEvent.nullable().meta({ description: "A payload as it arrives" }),
  })
  .meta({ id: "WebhookEventType" });
export type EventTypeInfo = z.output<typeof EventTypeInfo>;

/** Stands for the types of events that rules emit. */
export const CUSTOM_TYPE = "custom.*";

const ENTRIES: Readonly<Record<string, Entry>> = { ...EVENT_ENTRIES, [CUSTOM_TYPE]: CUSTOM_ENTRY };

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
  const schema = shape ? publishedSchema(shape) : null;
  return {
    type,
    occurs: ENTRIES[type]?.occurs ?? "not available yet",
    isInWildcard: !NOISY_TYPES.has(type),
    isAvailable: shape !== undefined,
    schema,
    example: schema ? (exampleOf(schema, {}, { type }) as WebhookEvent) : null,
  };
};

let catalogue: readonly EventTypeInfo[] | undefined;

/** Returns every type that can be subscribed to, in the order of the specification's list and then ours. */
export const eventTypes = (): readonly EventTypeInfo[] => {
  catalogue ??= [...WEBHOOK_TYPES, CUSTOM_TYPE].map(infoOf);
  return catalogue;
};

/** Type of a test whose caller names none. */
export const TEST_TYPE = "webhook.test";

/** Returns sample data of a type from its example; undefined for a type without any. */
export const sampleOf = (type: string): Json | undefined => {
  if (type === TEST_TYPE) return { message: "This is a test. Nothing has happened." };
  const data = eventTypes().find((info) => info.type === (isCustomType(type) ? CUSTOM_TYPE : type))?.example
    ?.data;
  if (isCustomType(type)) return { ...data, eventType: type.slice("custom.".length) };
  return type === CUSTOM_TYPE ? undefined : data;
};

type Row = { type: EventType; data: Json };
/** An event for webhooks, which may have another type than the row that tells of it. */
type Sent = { type: string; data: Json };

/** Returns the event `quest.progress` that a line of the player's stream tells of. */
const progressOf = (line: EventData<"quest.updated">, progress: NonNullable<typeof line.progress>): Sent => {
  const { playerId, externalUserId } = line;
  const { id: playerQuestId, questKey, cycleKey, percent, steps } = line.quest as QuestOutline;
  const { previousPercent, justCompleted } = progress;
  const data: EventData<"quest.progress"> = {
    playerId,
    externalUserId,
    playerQuestId: playerQuestId!,
    questKey,
    cycleKey,
    percent,
    previousPercent,
    steps: steps.map(({ stepKey, value, target, state }) => ({
      stepKey,
      value,
      target,
      done: state === "DONE",
      justCompleted: justCompleted.includes(stepKey),
    })),
  };
  return { type: "quest.progress", data };
};

/** Returns the type of event that a row of a type may tell webhooks of. */
export const maySendAs = (type: EventType): string => (type === "quest.updated" ? "quest.progress" : type);

/** Returns the event that webhooks receive of a row of the outbox: mostly the row's own. */
export const sentAs = ({ type, data }: Row): Sent => {
  if (type !== "quest.updated") return { type, data };
  const line = data as EventData<"quest.updated">;
  return line.progress ? progressOf(line, line.progress) : { type, data };
};
