import { isJsonObject } from "./json.ts";
import { z } from "zod";

/**
 * Finds lists longer than their schema permits, objects with too many names and documents with too many
 * bytes, before anything is parsed: zod reads every item of a list before it checks the length.
 */

/** Maximum names of an object, whatever its schema lists. */
export const NAMES_MAX = 5_000;

/** A list or object that is too large, as a zod issue. */
export type Oversize = z.core.$ZodIssue;

/** Checks a value; `path` leads to it and is restored afterwards. */
type Look = (value: unknown, path: PropertyKey[]) => Oversize | undefined;

/** Returns the bytes of a value as compact JSON. */
export const bytesOf = (value: object): number => Buffer.byteLength(JSON.stringify(value));

/** Maximum depth of the search: deeper values are refused for their depth. */
const LEVELS_MAX = 40;

/**
 * Returns the characters that remain of `left` after the JSON of `value`, which is read no further than that.
 */
const without = (value: unknown, left: number, levels = LEVELS_MAX): number => {
  if (left <= 0) return left;
  if (typeof value === "string") return left - value.length - 2;
  if (typeof value !== "object" || value === null) return left - 1;
  if (levels === 0) return left - 2;
  return Array.isArray(value)
    ? withoutItems(value, left - 2, levels - 1)
    : withoutFields(value as Record<string, unknown>, left - 2, levels - 1);
};

const withoutItems = (items: readonly unknown[], left: number, levels: number): number => {
  let rest = left;
  for (let i = 0; i < items.length && rest > 0; i++) rest = without(items[i], rest, levels);
  return rest;
};

const withoutFields = (fields: Record<string, unknown>, left: number, levels: number): number => {
  let rest = left;
  for (const name in fields) {
    if (rest <= 0) break;
    rest = without(fields[name], rest - name.length - 2, levels);
  }
  return rest;
};

/**
 * Returns whether a value certainly has at least so many characters of JSON: strings count unescaped,
 * punctuation not at all. The cost does not grow with the value.
 */
export const isLongJson = (value: unknown, chars: number): boolean => without(value, chars) <= 0;

/** Returns whether a value has at most `max` bytes of JSON, without serialising one that is far larger. */
export const fitsBytes = (value: object, max: number): boolean =>
  !isLongJson(value, max + 1) && bytesOf(value) <= max;

type Def = {
  type: string;
  innerType?: z.ZodType;
  element?: z.ZodType;
  shape?: Record<string, z.ZodType>;
  valueType?: z.ZodType;
  items?: z.ZodType[];
  in?: z.ZodType;
  out?: z.ZodType;
  options?: readonly z.ZodType[];
  discriminator?: string;
};

const defOf = (schema: z.ZodType): Def => schema._zod.def;
const NOTHING: Look = () => undefined;
const within = (look: Look, value: unknown, path: PropertyKey[], name: PropertyKey): Oversize | undefined => {
  path.push(name);
  const found = look(value, path);
  path.pop();
  return found;
};

type MaxCheck = { _zod: { def: { check: string; maximum?: number; length?: number } } };

/** Returns the check of a list's schema that bounds its length, with the bound. */
const boundOf = (schema: z.ZodType): { inst?: MaxCheck; max: number } => {
  let bound: { inst?: MaxCheck; max: number } = { max: Number.POSITIVE_INFINITY };
  for (const inst of (schema._zod.def.checks ?? []) as MaxCheck[]) {
    const { check, maximum, length } = inst._zod.def;
    const max = check === "max_length" ? maximum! : check === "length_equals" ? length! : Infinity;
    if (max < bound.max) bound = { inst, max };
  }
  return bound;
};

/** Builds the issue with the message that the schema itself would give. */
const tooBig = (
  value: object,
  path: readonly PropertyKey[],
  { inst, max }: { inst?: MaxCheck; max: number },
): Oversize => {
  const origin = Array.isArray(value) ? "array" : "object";
  const bound = { origin, maximum: max, inclusive: true, inst } as const;
  const issue = { code: "too_big", ...bound, input: value, path: [...path] };
  return z.core.util.finalizeIssue(issue as z.core.$ZodRawIssue, undefined, z.core.config());
};

const ofList = (schema: z.ZodType): Look => {
  const bound = boundOf(schema);
  const look = lookOf(defOf(schema).element!);
  return (value, path) => {
    if (!Array.isArray(value)) return undefined;
    if (value.length > bound.max) return tooBig(value, path, bound);
    for (let i = 0; i < value.length; i++) {
      const found = within(look, value[i], path, i);
      if (found) return found;
    }
    return undefined;
  };
};

const ofTuple = (schema: z.ZodType): Look => {
  const { items = [] } = defOf(schema);
  return (value, path) =>
    Array.isArray(value) && value.length > items.length
      ? tooBig(value, path, { max: items.length })
      : undefined;
};

const hasTooManyNames = (value: object): boolean => {
  let names = 0;
  for (const name in value) if (Object.hasOwn(value, name) && ++names > NAMES_MAX) return true;
  return false;
};

const ofObject = (schema: z.ZodType): Look => {
  const looks = Object.entries(defOf(schema).shape ?? {}).map(
    ([name, inner]) => [name, lookOf(inner)] as const,
  );
  return (value, path) => {
    if (!isJsonObject(value)) return undefined;
    if (hasTooManyNames(value)) return tooBig(value, path, { max: NAMES_MAX });
    for (const [name, look] of looks) {
      const found = Object.hasOwn(value, name) ? within(look, value[name], path, name) : undefined;
      if (found) return found;
    }
    return undefined;
  };
};

const ofNames = (schema: z.ZodType): Look => {
  const look = lookOf(defOf(schema).valueType!);
  return (value, path) => {
    if (!isJsonObject(value)) return undefined;
    if (hasTooManyNames(value)) return tooBig(value, path, { max: NAMES_MAX });
    for (const name of Object.keys(value)) {
      const found = within(look, value[name], path, name);
      if (found) return found;
    }
    return undefined;
  };
};

/** Unwraps optional, nullable, lazy and the like. */
const bare = (schema: z.ZodType): z.ZodType => {
  const { type, innerType, in: from, out } = defOf(schema);
  if (innerType) return bare(innerType);
  // Its getter would create another schema each time.
  if (type === "lazy") return bare((schema as z.ZodLazy<z.ZodType>)._zod.innerType);
  if (type === "pipe") return bare(defOf(from!).type === "transform" ? out! : from!);
  return schema;
};

/** Returns whether an option of a union may be meant by `value`. */
type MayMean = (value: object) => boolean;

const isList: MayMean = (value) => Array.isArray(value);
const isNoList: MayMean = (value) => !Array.isArray(value);
const NEVER: MayMean = () => false;

/** By the required names of the schema, as far as they are distinctive. */
const hasNames = (schema: z.ZodType): MayMean => {
  const names = Object.entries(defOf(schema).shape!).flatMap(([name, inner]) =>
    inner._zod.optin === "optional" ? [] : [name],
  );
  return (value) => isNoList(value) && names.every((name) => Object.hasOwn(value, name));
};

const mayMean = (schema: z.ZodType): MayMean => {
  const { type, options = [] } = defOf(schema);
  if (type === "array" || type === "tuple") return isList;
  if (type === "record") return isNoList;
  if (type === "object") return hasNames(schema);
  if (type !== "union") return NEVER;
  const inner = options.map((option) => mayMean(bare(option)));
  return (value) => inner.some((may) => may(value));
};

/** For options that are distinguished by the value of one name. */
const ofNamedUnion = (schema: z.ZodType, name: string): Look => {
  const looks = new Map<unknown, Look>();
  for (const option of defOf(schema).options!) {
    for (const value of bare(option)._zod.propValues?.[name] ?? []) looks.set(value, lookOf(option));
  }
  return (value, path) => (isJsonObject(value) ? looks.get(value[name])?.(value, path) : undefined);
};

/** Only where a single option can be meant: searching several would be exponential in the depth. */
const ofUnion = (schema: z.ZodType): Look => {
  const { options = [], discriminator } = defOf(schema);
  if (discriminator !== undefined) return ofNamedUnion(schema, discriminator);
  const those = options.map((option) => ({ may: mayMean(bare(option)), look: lookOf(option) }));
  return (value, path) => {
    if (value === null || typeof value !== "object") return undefined;
    const [first, ...others] = those.filter(({ may }) => may(value));
    return first && others.length === 0 ? first.look(value, path) : undefined;
  };
};

const MAKERS: Readonly<Record<string, (schema: z.ZodType) => Look>> = {
  array: ofList,
  tuple: ofTuple,
  object: ofObject,
  record: ofNames,
  union: ofUnion,
};

const known = new WeakMap<z.ZodType, Look>();

/** Maximum bytes of values of some schemas, by the unwrapped schema. */
const bytesMax = new WeakMap<z.ZodType, number>();

/** Bounds values of a schema in bytes of compact JSON, for `findOversize`. Returns the schema. */
export const boundBytes = <S extends z.ZodType>(schema: S, max: number): S => {
  bytesMax.set(bare(schema), max);
  return schema;
};

/** Returns the name of the field with the most characters of JSON, the first of those that exceed `max`. */
const largestOf = (value: Record<string, unknown>, max: number): string => {
  const sizes = Object.entries(value).map(([name, part]) => ({ name, left: without(part, max) }));
  return sizes.reduce((largest, one) => (one.left < largest.left ? one : largest)).name;
};

const withBytes = (schema: z.ZodType, look: Look): Look => {
  const max = bytesMax.get(schema);
  if (max === undefined) return look;
  return (value, path) => {
    const found = look(value, path);
    if (found || !isJsonObject(value) || fitsBytes(value, max)) return found;
    const message = `is the largest part of a document that may have ${max} bytes of JSON`;
    return { code: "custom", path: [...path, largestOf(value, max)], message, input: value };
  };
};

/** Built with the first value, since a schema may contain itself. */
const lookOf = (schema: z.ZodType): Look => {
  let made: Look | undefined;
  return (value, path) => {
    if (!made) {
      const inner = bare(schema);
      made = known.get(inner) ?? withBytes(inner, MAKERS[defOf(inner).type]?.(inner) ?? NOTHING);
      known.set(inner, made);
    }
    return made(value, path);
  };
};

/** Returns the first part of `value` that is too large for `schema`, if any. Linear in the value. */
export const findOversize = (schema: z.ZodType, value: unknown): Oversize | undefined =>
  lookOf(schema)(value, []);

/** As `schema.safeParse`, but finds oversized parts before anything is parsed. */
export const parseSized = <S extends z.ZodType>(
  schema: S,
  value: unknown,
): z.ZodSafeParseResult<z.output<S>> => {
  const found = findOversize(schema, value);
  return found
    ? { success: false, error: new z.ZodError([found]) as z.ZodError<z.output<S>> }
    : schema.safeParse(value);
};
