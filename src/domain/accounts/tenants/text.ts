import { z } from "zod";

export const NAME_MIN = 2;
export const NAME_MAX = 255;

const TOO_SHORT = `must have at least ${NAME_MIN} characters`;

/**
 * A name of 2 to 255 characters on one line; outer blanks are removed. Counted in code points, as in
 * PostgreSQL.
 */
export const Name = z
  .string()
  .trim()
  .min(NAME_MIN, { abort: true, error: TOO_SHORT })
  .max(NAME_MAX, `must have at most ${NAME_MAX} characters`)
  .refine((name) => [...name].length >= NAME_MIN, TOO_SHORT)
  .refine((name) => !/\p{Cc}/u.test(name), "must not contain control characters");
