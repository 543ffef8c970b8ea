import { z } from "zod";
import { DUE_NAMES, type DueName } from "./due-kinds.ts";

/** Maximum entries of the list of what an advance has done. */
export const HAPPENED_MAX = 200;

const Counts = z.object(
  Object.fromEntries(DUE_NAMES.map((name) => [name, z.int().default(0)])) as Record<
    DueName,
    z.ZodDefault<z.ZodInt>
  >,
);

/** What an advance has done: the first things in their order, and the number of all by kind. */
export const Happened = z.object({
  counts: Counts.prefault({}),
  first: z.array(z.object({ at: z.iso.datetime(), what: z.enum(DUE_NAMES), count: z.int() })).default([]),
  /** Whether more has happened than the list has. */
  isCut: z.boolean().default(false),
});
export type Happened = z.output<typeof Happened>;

/** Adds what was done at a moment; the same kind at the same moment is one entry. */
export const withDone = (
  { counts, first, isCut }: Happened,
  { at, name, count }: { at: Date; name: DueName; count: number },
): Happened => {
  if (count === 0) return { counts, first, isCut };
  const summed = { ...counts, [name]: counts[name] + count };
  const [time, last] = [at.toISOString(), first.at(-1)];
  if (last?.what === name && last.at === time)
    return { counts: summed, first: [...first.slice(0, -1), { ...last, count: last.count + count }], isCut };
  if (first.length >= HAPPENED_MAX) return { counts: summed, first, isCut: true };
  return { counts: summed, first: [...first, { at: time, what: name, count }], isCut };
};
