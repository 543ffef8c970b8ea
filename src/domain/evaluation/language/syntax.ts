import { z } from "zod";
import { isIanaName } from "../../kernel/zones.ts";

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
