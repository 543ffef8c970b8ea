import type { z } from "zod";
import type { NamedKind } from "../../language/mention.ts";

/** A definition that a part of a bundle names; `at` leads to the name from the part, such as `0.badgeKey`. */
export type PartName = { kind: NamedKind; key: string; at: string; tier?: number | undefined };

/**
 * A part of a bundle of rewards: add one by a file beside this one, a line in `parts.ts`, and how it is given
 * in `give.ts`.
 */
export type BundlePart<S extends z.ZodType> = {
  schema: S;
  /** What is worth `times` of `value`, cut off where a bundle ends. */
  times(value: z.output<S>, times: number): z.output<S>;
  /** What `values` come to together, to be shown; there is at least one. */
  sum(values: readonly z.output<S>[]): z.output<S>;
  /** The definitions that it names. */
  names(value: z.output<S>): PartName[];
  /** What giving it brings about; see causes.ts. */
  causes(value: z.output<S>): readonly string[];
};

export const bundlePart = <S extends z.ZodType>(part: BundlePart<S>): BundlePart<S> => part;

/** `a * b`, and no more than `max`. */
export const product = (a: number, b: number, max = Number.MAX_SAFE_INTEGER): number => Math.min(max, a * b);

export const total = (amounts: readonly number[]): number =>
  Math.min(
    Number.MAX_SAFE_INTEGER,
    amounts.reduce((sum, amount) => sum + amount, 0),
  );

export type Amounts = Record<string, number>;

/** `product` of the amount of each key. */
export const eachTimes = (amounts: Amounts, times: number): Amounts =>
  Object.fromEntries(Object.entries(amounts).map(([key, one]) => [key, product(one, times)]));

/** `total` of the amounts of each key. */
export const totals = (records: readonly Amounts[]): Amounts => {
  const keys = new Set(records.flatMap((record) => Object.keys(record)));
  const amountsOf = (key: string): number[] =>
    records.filter((record) => Object.hasOwn(record, key)).map((record) => record[key]!);
  return Object.fromEntries([...keys].map((key) => [key, total(amountsOf(key))]));
};

/** A definition for each key of a record. */
export const keysOf = (kind: NamedKind, amounts: Amounts): PartName[] =>
  Object.keys(amounts).map((key) => ({ kind, key, at: key }));
