import { z } from "zod";
import type { Json } from "../../kernel/events/events.ts";
import { isReservedType } from "../../kernel/events/event-types.ts";
import { emitCustom } from "../emit.ts";
import { RuleFailure } from "../running/outcome.ts";
import { smallRecord } from "../language/syntax.ts";
import {
  actionFields,
  actionKind,
  compileValues,
  isPassable,
  NamedValues,
  PASSED_ON_MAX_BYTES,
} from "./action.ts";

const PROPERTIES_MAX = 50;

/** Destinations of an emitted event: other rules, webhooks, the live stream, the player's inbox. */
export const CHANNELS = ["rules", "webhook", "realtime", "inbox"] as const;

const schema = z.strictObject({
  type: z.literal("emit_event"),
  ...actionFields,
  eventType: z
    .string()
    .regex(/^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$/, "must be an event type such as order.paid")
    .refine((type) => !isReservedType(type), "is reserved for the service's own events"),
  properties: smallRecord(NamedValues, PROPERTIES_MAX, `more than ${PROPERTIES_MAX} properties`).default({}),
  channels: z.array(z.enum(CHANNELS)).min(1).max(CHANNELS.length),
});

type Resolved = { eventType: string; properties: Json; channels: readonly string[] };

const TOO_LARGE = `the properties are larger than ${PASSED_ON_MAX_BYTES / 1_024} KiB`;

/** Emits an event of the integrator's own. Oversized properties fail the rule. */
export const emitEvent = actionKind<typeof schema, Resolved>({
  type: "emit_event",
  summary: "Emits an event of your own, for other rules, webhooks, the live stream or the inbox",
  schema,
  causes: ({ eventType, channels }) => (channels.includes("rules") ? [eventType] : []),
  canFail: () => true,
  compile: ({ eventType, properties, channels }) => {
    const valuesOf = compileValues(properties);
    return (turn) => ({ eventType, properties: valuesOf(turn), channels });
  },
  perform: (turn, resolved, { cause, actionId }) => {
    if (!isPassable(resolved.properties)) throw new RuleFailure(actionId, TOO_LARGE);
    emitCustom(turn, { ...resolved, cause });
  },
});
