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

/** Names that only references can use. */
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

/** Returns whether a name is reserved for references. */
export const isReferenceField = (text: string): text is ReferenceField =>
  (REFERENCE_FIELDS as readonly string[]).includes(text);

const isReference = (text: string): boolean => {
  if (isReferenceField(text)) return true;
  if (text.startsWith(PROPERTIES)) return isPath(text.slice(PROPERTIES.length));
  return text.startsWith(PLAYER) && isPlayerValue(text.slice(PLAYER.length));
};

const ReferenceName = z
  .string()
  .max(400)
  .refine(
    isReference,
    "must be event.type, event.timestamp, event.properties.…, player.…, player.currencies.… " +
      "or player.attributes.…",
  );

const hasOneName = (
  { ref, $ref }: { ref?: string | undefined; $ref?: string | undefined },
  context: z.RefinementCtx,
): void => {
  if ((ref === undefined) !== ($ref === undefined)) return;
  const [path, message] = ref === undefined ? ["ref", "is required"] : ["$ref", "goes without ref"];
  context.addIssue({ code: "custom", path: [path], message, continue: false });
};

/**
 * A value resolved when the rule runs; `default` applies where there is none. Rules of before have `$ref` in
 * place of `ref`: tools take that for a keyword of theirs, so schemas do not show it.
 */
export const Reference = z
  .strictObject({
    ref: ReferenceName.optional(),
    $ref: ReferenceName.optional(),
    default: Scalar.optional(),
  })
  .superRefine(hasOneName)
  .meta({ id: "RuleReference" });
export type Reference = z.output<typeof Reference>;

/** Shows a schema of references to tools, as `override` of `z.toJSONSchema`. */
export const describeReference: NonNullable<z.core.ToJSONSchemaParams["override"]> = ({
  zodSchema,
  jsonSchema,
}) => {
  if (zodSchema !== Reference || !jsonSchema.properties) return;
  const { ref, default: fallback } = jsonSchema.properties;
  jsonSchema.properties = { ref: ref!, default: fallback! };
  jsonSchema.required = ["ref"];
};

export const isReferenceObject = (value: unknown): value is Reference =>
  value !== null && typeof value === "object" && ("ref" in value || "$ref" in value);

/** Returns what a reference names, such as `player.level`. */
export const referentOf = ({ ref, $ref }: Reference): string => ref ?? $ref ?? "";

/** Fields of actions that hold values by name: `ref` is such a name there. */
export const NAMED_VALUES: ReadonlySet<string> = new Set(["set", "increment", "properties", "meta"]);

/** A reference somewhere in a condition or an action; `path` leads to what it names. */
type Found = { path: PropertyKey[]; referent: string };

/** Returns all references in a checked condition, group or action. */
export const referencesIn = (value: unknown, path: PropertyKey[] = []): Found[] => {
  if (value === null || typeof value !== "object") return [];
  const isRecord = path.length === 1 && NAMED_VALUES.has(String(path[0]));
  if (!isRecord && isReferenceObject(value)) {
    const name = value.ref === undefined ? "$ref" : "ref";
    return [{ path: [...path, name], referent: referentOf(value) }];
  }
  return Object.entries(value).flatMap(([key, inner]) =>
    referencesIn(inner, [...path, Array.isArray(value) ? Number(key) : key]),
  );
};
