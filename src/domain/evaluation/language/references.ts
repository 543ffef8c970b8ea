import { z } from "zod";
import { isPath, Key, Scalar } from "./syntax.ts";

/** Player values that rules can read, by name. */
const PLAYER_FIELDS = [
  "xp",
  "level",
  "lives",
  "status",
  "timezone",
  "locale",
  "country",
  "tags",
  "createdAt",
  "lastSeenAt",
  "externalUserId",
] as const;
export type PlayerField = (typeof PLAYER_FIELDS)[number];

/** Names that only `$ref` can use. */
const REFERENCE_FIELDS = ["event.type", "event.timestamp", "player.id", "player.displayName"] as const;
export type ReferenceField = (typeof REFERENCE_FIELDS)[number];

export const ATTRIBUTES = "attributes.";
const CURRENCIES = "currencies.";
export const PROPERTIES = "event.properties.";
export const PLAYER = "player.";

/** The names of a player's values, for messages. */
export const PLAYER_VALUES = [...PLAYER_FIELDS, "currencies.{key} or attributes.{path}"].join(", ");

/** Returns whether `field` names a value of a player: a field, `currencies.{key}` or `attributes.{path}`. */
export const isPlayerValue = (field: string): boolean => {
  if (field.startsWith(ATTRIBUTES)) return isPath(field.slice(ATTRIBUTES.length));
  if (field.startsWith(CURRENCIES)) return Key.safeParse(field.slice(CURRENCIES.length)).success;
  return (PLAYER_FIELDS as readonly string[]).includes(field);
};

/** Returns the key of the currency that `field` names, if any. */
export const currencyOf = (field: string): string | undefined =>
  field.startsWith(CURRENCIES) ? field.slice(CURRENCIES.length) : undefined;

/** Returns whether a name is reserved for `$ref`. */
export const isReferenceField = (text: string): text is ReferenceField =>
  (REFERENCE_FIELDS as readonly string[]).includes(text);

const isReference = (text: string): boolean => {
  if (isReferenceField(text)) return true;
  if (text.startsWith(PROPERTIES)) return isPath(text.slice(PROPERTIES.length));
  return text.startsWith(PLAYER) && isPlayerValue(text.slice(PLAYER.length));
};

/** A value resolved when the rule runs; `default` applies where there is none. */
export const Reference = z.strictObject({
  $ref: z
    .string()
    .max(400)
    .refine(
      isReference,
      "must be event.type, event.timestamp, event.properties.…, player.…, player.currencies.… " +
        "or player.attributes.…",
    ),
  default: Scalar.optional(),
});
export type Reference = z.output<typeof Reference>;

export const isReferenceObject = (value: unknown): value is Reference =>
  value !== null && typeof value === "object" && "$ref" in value;
