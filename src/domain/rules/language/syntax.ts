import { z } from "zod";
import { isIanaName } from "./zones.ts";

/** The stable name by which definitions refer to one another. */
export const Key = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9_-]{0,63}$/,
    "must be 1 to 64 lower-case letters, digits, - or _, not starting with - or _",
  );

/** What a rule listens to: an exact event type, `prefix.*`, or `*` for every custom event. */
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

/** A way into JSON, `a.b.c`. */
export const Path = z
  .string()
  .refine(isPath, `must be a path of at most ${PATH_MAX_SEGMENTS} names joined by dots`);

export const Scalar = z.union([z.string().max(1_000), z.number(), z.boolean(), z.null()], {
  error: "must be a string of at most 1,000 characters, a number, a boolean or null",
});
export type Scalar = z.output<typeof Scalar>;

/** An IANA time zone such as `Europe/Berlin`. */
export const Zone = z.string().max(64).refine(isIanaName, "must be an IANA time zone");
