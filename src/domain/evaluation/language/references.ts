import { z } from "zod";
import { isPath, Key, Scalar } from "./syntax.ts";

/** What can be read of a player, by the name rules use. */
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

/** What only `$ref` can name. */
const REFERENCE_FIELDS = ["event.type", "event.timestamp", "player.id", "player.displayName"] as const;
export type ReferenceField = (typeof REFERENCE_FIELDS)[number];

export const ATTRIBUTES = "attributes.";
const CURRENCIES = "currencies.";
export const PROPERTIES = "event.properties.";
export const PLAYER = "player.";

/** The names of a player's values, for messages. */
export const PLAYER_VALUES = [...PLAYER_FIELDS, "currencies.{key} or attributes.{path}"].join(", ");

/** Whether `field` names a value of a player: a field, `currencies.{key}` or `attributes.{path}`. */
export const isPlayerValue = (field: string): boolean => {
  if (field.startsWith(ATTRIBUTES)) return isPath(field.slice(ATTRIBUTES.length));
  if (field.startsWith(CURRENCIES)) return Key.safeParse(field.slice(CURRENCIES.length)).success;
  return (PLAYER_FIELDS as readonly string[]).includes(field);
};

/** The key of the currency that `field` names, if it names one. */
export const currencyOf = (field: string): string | undefined =>
  field.startsWith(CURRENCIES) ? field.slice(CURRENCIES.length) : undefined;

/** Whether a name is one that only `$ref` can have. */
export const isReferenceField = (text: string): text is ReferenceField =>
  (REFERENCE_FIELDS as readonly string[]).includes(text);

const isReference = (text: string): boolean => {
  if (isReferenceField(text)) return true;
  if (text.startsWith(PROPERTIES)) return isPath(text.slice(PROPERTIES.length));
  return text.startsWith(PLAYER) && isPlayerValue(text.slice(PLAYER.length));
};

/** A value looked up when the rule runs; `default` stands in where there is none. */
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
