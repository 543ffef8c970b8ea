import { z } from "zod";
import { Key } from "../../language/syntax.ts";

/** Maximum currencies or streaks that one bundle names. */
const NAMES_MAX = 20;

/** A whole amount, from 1. */
export const Amount = z.int().min(1).max(Number.MAX_SAFE_INTEGER);

/** Amounts by key. */
export const byKey = <S extends z.ZodType<number>>(value: S) =>
  z
    .record(Key, value)
    .refine((given) => Object.keys(given).length <= NAMES_MAX, `must name at most ${NAMES_MAX}`);
