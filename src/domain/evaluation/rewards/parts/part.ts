import type { z } from "zod";
import type { NamedKind } from "../../language/mention.ts";

/** A definition that a part of a bundle names; `at` leads to the name from the part, such as `0.badgeKey`. */
export type PartName = { kind: NamedKind; key: string; at: string; tier?: number | undefined };

/**
 * A part of a bundle of rewards: to add one, add a file here, a line in `parts.ts`, and how it is granted in
 * `give.ts`.
 */
export type BundlePart<S extends z.ZodType> = {
  schema: S;
  /** Multiplies `value`, capped at its maximum. */
  times(value: z.output<S>, times: number): z.output<S>;
  /** Sums `values` for display; there is at least one. */
  sum(values: readonly z.output<S>[]): z.output<S>;
  /** Returns the definitions that it names. */
  names(value: z.output<S>): PartName[];
  /** Returns the possible effects of granting it; see causes.ts. */
  causes(value: z.output<S>): readonly string[];
};

export const bundlePart = <S extends z.ZodType>(part: BundlePart<S>): BundlePart<S> => part;

/** Returns `a * b`, at most `max`. */
export const product = (a: number, b: number, max = Number.MAX_SAFE_INTEGER): number => Math.min(max, a * b);

export const total = (amounts: readonly number[]): number =>
  Math.min(
    Number.MAX_SAFE_INTEGER,
    amounts.reduce((sum, amount) => sum + amount, 0),
  );

export type Amounts = Record<string, number>;

/** Applies `product` to the amount of each key. */
export const eachTimes = (amounts: Amounts, times: number): Amounts =>
  Object.fromEntries(Object.entries(amounts).map(([key, one]) => [key, product(one, times)]));

/** Applies `total` to the amounts of each key. */
export const totals = (records: readonly Amounts[]): Amounts => {
  const keys = new Set(records.flatMap((record) => Object.keys(record)));
  const amountsOf = (key: string): number[] =>
    records.filter((record) => Object.hasOwn(record, key)).map((record) => record[key]!);
  return Object.fromEntries([...keys].map((key) => [key, total(amountsOf(key))]));
};

/** Returns a definition for each key of a record. */
export const keysOf = (kind: NamedKind, amounts: Amounts): PartName[] =>
  Object.keys(amounts).map((key) => ({ kind, key, at: key }));
