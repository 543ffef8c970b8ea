import { z } from "zod";
import type { LOOP_ROLES } from "../causes.ts";
import { isIanaName } from "../../kernel/zones.ts";

const HTTPS = /^https$/;
const URL_MAX = 2_048;

/** What a definition is called. */
export const Name = z.string().min(1).max(100);
/** What a definition says about itself. */
export const Description = z.string().max(2_000);
export const IconUrl = z.url({ protocol: HTTPS }).max(URL_MAX);
export const ImageUrl = z.url({ protocol: HTTPS, error: "must be an address of https" }).max(URL_MAX);

type PatchField<T> =
  T extends z.ZodOptional<infer Inner extends z.ZodType>
    ? z.ZodOptional<z.ZodNullable<Inner>>
    : T extends z.ZodDefault<infer Inner extends z.ZodType>
      ? z.ZodOptional<Inner>
      : T extends z.ZodType
        ? z.ZodOptional<T>
        : never;

const patchField = (field: z.ZodType): z.ZodType => {
  if (field instanceof z.ZodOptional) return (field.unwrap() as z.ZodType).nullable().optional();
  return (field instanceof z.ZodDefault ? (field.unwrap() as z.ZodType) : field).optional();
};

/** Returns the fields of a patch: each may be left out, and null clears one that a definition may leave out. */
export const patchOf = <S extends Record<string, z.ZodType>>(shape: S) =>
  Object.fromEntries(Object.entries(shape).map(([name, field]) => [name, patchField(field)])) as {
    [Name in keyof S]: PatchField<S[Name]>;
  };

/** Keeps a number within the whole numbers that are exact in JavaScript and JSON. */
export const toSafe = (value: number): number =>
  Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, value));

/** Reads a value from JSON; undefined where the path leads nowhere. */
export type Reader = (root: unknown) => unknown;

/** Only what JSON contains: own properties, none of a prototype, and not the length of a list. */
const own = (value: unknown, name: string): unknown =>
  value !== null && typeof value === "object" && Object.hasOwn(value, name) && !isLength(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;

const isLength = (value: object, name: string): boolean => name === "length" && Array.isArray(value);

/** Names that JSON can only hold as its own: nothing inherits them, so that reading needs no look first. */
const isNeverInherited = (name: string): boolean => !(name in Object.prototype) && !(name in Array.prototype);

/** Splits `path` once; one-segment paths, the common case, skip the loop. */
export const compilePath = (path: string): Reader => {
  const segments = path.split(".");
  const [first, ...rest] = segments as [string, ...string[]];
  if (rest.length === 0 && isNeverInherited(first))
    return (root) =>
      root !== null && typeof root === "object" ? (root as Record<string, unknown>)[first] : undefined;
  if (rest.length === 0) return (root) => own(root, first);
  return (root) => {
    let value = own(root, first);
    for (const name of rest) value = own(value, name);
    return value;
  };
};

/** Maximum length of a definition's key. */
export const KEY_MAX = 64;

/** The stable key by which definitions refer to one another. */
export const Key = z
  .string()
  .regex(
    new RegExp(`^[a-z0-9][a-z0-9_-]{0,${KEY_MAX - 1}}$`),
    `must be 1 to ${KEY_MAX} lower-case letters, digits, - or _, not starting with - or _`,
  );

/** A key that names a field of players' progress: one that all objects inherit would be found in any. */
export const FieldKey = Key.refine((key) => !(key in Object.prototype), "is a reserved word");

/** Event types that a rule listens to: an exact type, `prefix.*`, or `*` for every custom event. */
export const EventPattern = z
  .string()
  .regex(
    /^(\*|[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}|[A-Za-z0-9_][A-Za-z0-9_.:-]{0,97}\.\*)$/,
    'must be an event type such as "order.paid", a prefix such as "order.*", or "*"',
  );

const SEGMENT = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$/;
const FORBIDDEN: ReadonlySet<string> = new Set(["__proto__", "prototype", "constructor"]);
export const PATH_MAX_SEGMENTS = 5;

export const isPath = (text: string): boolean => {
  const segments = text.split(".");
  return (
    segments.length <= PATH_MAX_SEGMENTS &&
    segments.every((name) => SEGMENT.test(name) && !FORBIDDEN.has(name))
  );
};

/** A path in JSON, `a.b.c`. */
export const Path = z
  .string()
  .refine(isPath, `must be a path of at most ${PATH_MAX_SEGMENTS} names joined by dots`);

const SCALAR_TEXT_MAX = 1_000;

export const Scalar = z.union([z.string().max(SCALAR_TEXT_MAX), z.number(), z.boolean(), z.null()], {
  error: "must be a string of at most 1,000 characters, a number, a boolean or null",
});
export type Scalar = z.output<typeof Scalar>;

const isScalar = (value: unknown): boolean => {
  if (typeof value === "string") return value.length <= SCALAR_TEXT_MAX;
  return value === null || typeof value === "boolean" || Number.isFinite(value);
};

const checkScalars = (items: unknown, context: z.RefinementCtx): unknown => {
  if (!Array.isArray(items) || items.every(isScalar)) return items;
  const message = "must contain only strings of at most 1,000 characters, numbers, booleans and null";
  context.addIssue({ code: "custom", message, input: items });
  return z.NEVER;
};

/**
 * A list of Scalars. An invalid one is not parsed: a document may have thousands of items, and rejecting each
 * by a union costs as much as parsing a whole condition.
 */
export const scalarList = (min: number, max: number) =>
  z.preprocess(checkScalars, z.array(Scalar).min(min).max(max));

/** A record of at most `max` names, counted before any of them is parsed. */
export const smallRecord = <S extends z.ZodType<object>>(schema: S, max: number, message: string) =>
  z.preprocess((record, context) => {
    const isObject = record !== null && typeof record === "object";
    if (!isObject || Object.keys(record).length <= max) return record;
    context.addIssue({ code: "custom", message, input: record });
    return z.NEVER;
  }, schema);

/** An IANA time zone such as `Europe/Berlin`. */
export const Zone = z.string().max(64).refine(isIanaName, "must be an IANA time zone");

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

/**
 * Two values of one schema. A list of two, and no tuple: form builders show no field for the `prefixItems` of
 * those.
 */
export const pairOf = <S extends z.ZodType>(schema: S) =>
  z.array(schema).length(2) as unknown as z.ZodType<[z.output<S>, z.output<S>], [z.input<S>, z.input<S>]>;

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

/** The kinds of definitions that a rule can name by key. */
export type NamedKind = Exclude<keyof typeof LOOP_ROLES, "level" | "boost"> | "leaderboard";

/** A mention of another definition; `path` leads to it from the rule, such as `actions.0.currencyKey`. */
export type Mention = { kind: NamedKind; key: string; path: string };

/** Returns the mentions of one or several keys in the field `path`; none where the field is absent. */
export const mentionsAt = (
  path: string,
  kind: NamedKind,
  keys: string | readonly string[] | undefined,
): Mention[] => {
  const all = typeof keys === "string" ? [keys] : (keys ?? []);
  return all.map((key) => ({ kind, key, path }));
};

const ASSETS: Readonly<Record<string, NamedKind>> = {
  currency: "currency",
  score: "leaderboard",
  reward: "reward",
};

/** Returns the mention in `currency:coins` and the like, of boosts and budgets; none for `xp` and `lives`. */
export const assetMentions = (path: string, asset: string): Mention[] => {
  const [name = "", key = ""] = asset.split(":", 2);
  return Object.hasOwn(ASSETS, name) ? mentionsAt(path, ASSETS[name]!, key) : [];
};

/** Returns the mention in a player's field: the currency of `currencies.coins`. */
export const fieldMentions = (path: string, field: string): Mention[] =>
  mentionsAt(path, "currency", currencyOf(field));
