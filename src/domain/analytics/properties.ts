import { type RawBuilder, sql } from "kysely";
import { rounded } from "./comparison.ts";
import { textList } from "./events.ts";
import { compareText, type OperatorName } from "../evaluation/language/operators.ts";
import type { Scalar } from "../evaluation/language/syntax.ts";
import { groupOf, visitLeaves } from "../evaluation/language/trees.ts";
import type { Filter } from "../evaluation/metrics/compile.ts";
import { DomainError, invalid } from "../kernel/errors.ts";

/**
 * Properties of events in SQL: conditions as rules and metrics have them, over `e.properties`. Paths and
 * values are parameters only.
 */

type Leaf = { path: string; op: OperatorName; value?: Scalar | Scalar[] | undefined };
type Sql = RawBuilder<unknown>;

/** Values of a breakdown that are longer are cut. */
const VALUE_MAX = 100;

const json = (value: unknown): Sql => sql`${JSON.stringify(value)}::jsonb`;

/** The value at a path, as jsonb; null where there is none. */
const at = (path: readonly string[]): Sql => sql`(e.properties #> array${textList(path)})`;

const typeIs = (actual: Sql, type: "array" | "number" | "string"): Sql =>
  sql`jsonb_typeof(${actual}) = ${sql.lit(type)}`;

const textOf = (actual: Sql): Sql => sql`((${actual} #>> '{}') collate "C")`;

const isScalar = (actual: Sql): Sql => sql`jsonb_typeof(${actual}) not in ('array', 'object')`;

/** Texts compare by code point, as everywhere; numbers as numbers, and nothing else compares. */
const ordered = (actual: Sql, operator: "<" | "<=" | ">" | ">=", operand: unknown): Sql => {
  const than = sql.raw(operator);
  return typeof operand === "number"
    ? sql`(${typeIs(actual, "number")} and ${actual} ${than} ${json(operand)})`
    : sql`(${typeIs(actual, "string")} and ${textOf(actual)} ${than} ${operand})`;
};

const isOneOf = (actual: Sql, list: unknown): Sql =>
  sql`(${isScalar(actual)} and ${json(list)} @> ${actual})`;

const contains = (actual: Sql, operand: unknown): Sql => {
  const inList = sql`(${typeIs(actual, "array")} and ${actual} @> ${json([operand])})`;
  if (typeof operand !== "string") return inList;
  return sql`(${inList} or (${typeIs(actual, "string")} and position(${operand} in ${textOf(actual)}) > 0))`;
};

const containsAny = (actual: Sql, list: unknown): Sql => sql`exists (
  select 1 from jsonb_array_elements(case when ${typeIs(actual, "array")} then ${actual} else '[]' end) i
  where jsonb_typeof(i) not in ('array', 'object') and ${json(list)} @> i)`;

/** Each may be null where the value is missing: a missing value matches nothing. */
const CONDITIONS: Partial<Record<OperatorName, (actual: Sql, operand: never) => Sql>> = {
  eq: (actual, operand) => sql`${actual} = ${json(operand)}`,
  gt: (actual, operand) => ordered(actual, ">", operand),
  gte: (actual, operand) => ordered(actual, ">=", operand),
  lt: (actual, operand) => ordered(actual, "<", operand),
  lte: (actual, operand) => ordered(actual, "<=", operand),
  between: (actual, [low, high]: [unknown, unknown]) =>
    sql`(${ordered(actual, ">=", low)} and ${ordered(actual, "<=", high)})`,
  in: isOneOf,
  contains,
  contains_any: containsAny,
  contains_all: (actual, list) => sql`(${typeIs(actual, "array")} and ${actual} @> ${json(list)})`,
  starts_with: (actual, operand) =>
    sql`(${typeIs(actual, "string")} and starts_with(${textOf(actual)}, ${operand}))`,
  ends_with: (actual, operand: string) =>
    sql`(${typeIs(actual, "string")} and right(${textOf(actual)}, ${[...operand].length}) = ${operand})`,
  exists: (actual) => sql`${actual} is not null`,
};

const NEGATIONS: Partial<Record<OperatorName, OperatorName>> = {
  neq: "eq",
  not_in: "in",
  not_contains: "contains",
  not_exists: "exists",
};

const isKnown = (op: OperatorName): boolean => (NEGATIONS[op] ?? op) in CONDITIONS;

/** @throws DomainError VALIDATION_ERROR for operators that compare with the time of an event, or patterns */
export const checkFilter = (field: string, filter: Filter): void =>
  visitLeaves<Leaf>(filter, ({ op }, path) => {
    if (!isKnown(op)) throw invalid(`${field}.${path}`, `the operator ${op} is not available in questions`);
  });

const leafCondition = ({ path, op, value }: Leaf): Sql => {
  const positive = NEGATIONS[op];
  const condition = sql`coalesce(${CONDITIONS[positive ?? op]!(at(path.split(".")), value as never)}, false)`;
  return positive === undefined ? condition : sql`(not ${condition})`;
};

/** Returns the condition of a filter that passes `checkFilter` on `e.properties`; it is never null. */
export const filterCondition = (filter: Filter): Sql => {
  const group = groupOf(filter as Leaf);
  if (!group) return leafCondition(filter as Leaf);
  const members = group.members.map((member) => filterCondition(member as Filter));
  if (members.length === 0) return sql`true`;
  if (group.key === "all") return sql`(${sql.join(members, sql` and `)})`;
  const anyOf = sql`(${sql.join(members, sql` or `)})`;
  return group.key === "any" ? anyOf : sql`(not ${anyOf})`;
};

/** Values that a property may have, as text. */
export type PropertyFilter = { path: readonly string[]; values: readonly string[] };

/** What is at a path, as text: a list or an object is one of JSON. */
export const textAt = (path: readonly string[]): Sql => sql`e.properties #>> array${textList(path)}`;

/** Returns the condition of filters on `e`, a row of events; undefined for none. */
export const whereOf = (filters: readonly PropertyFilter[]): Sql | undefined =>
  filters.length === 0
    ? undefined
    : sql.join(
        filters.map(({ path, values }) => sql`${textAt(path)} in ${textList(values)}`),
        sql` and `,
      );

/** What a breakdown calls the events that lack the property. */
export const NONE = "(none)";
/** What a breakdown calls the values beyond its limit. */
export const OTHER = "(other)";

/** The text of a property: null where there is none, or a list or an object. */
export const propertyText = (path: readonly string[]): Sql =>
  sql`(case when ${isScalar(at(path))} then left(${at(path)} #>> '{}', ${sql.lit(VALUE_MAX)}) end)`;

/** Numbers farther from 0 count as none, so that neither sums nor the squares of differences overflow. */
const NUMBER_MAX = sql.lit("1e60");

const numberAs = (type: "numeric" | "float8", path: readonly string[]): Sql => {
  const number = sql`(${at(path)})::${sql.raw(type)}`;
  return sql`(case when ${typeIs(at(path), "number")} then
    case when abs(${number}) <= ${NUMBER_MAX}::${sql.raw(type)} then ${number} end end)`;
};

/** A property as an exact number; null where it is none, or beyond 1e60. */
export const propertyNumber = (path: readonly string[]): Sql => numberAs("numeric", path);

/** As `propertyNumber`, in half the time: in double precision. */
export const propertyFloat = (path: readonly string[]): Sql => numberAs("float8", path);

/** A property whose values divide players, and how many of them are shown. */
export type Breakdown = { path: readonly string[]; limit: number };

/** Different values that one question counts. */
const VALUES_MAX = 50_000;

/**
 * Counts by the values of a property. `Counts` add up element by element; the first is the one by which
 * values are ranked.
 */
export class CountsByValue {
  readonly #length: number;
  readonly #counts = new Map<string, Int32Array>();

  /** @param length of the counts of one value */
  constructor(length: number) {
    this.#length = length;
  }

  /** The counts of a value, to be added to. @throws DomainError VALIDATION_ERROR for too many values */
  of(value: string | null | undefined): Int32Array {
    const key = value ?? NONE;
    let counts = this.#counts.get(key);
    if (counts) return counts;
    if (this.#counts.size >= VALUES_MAX)
      throw new DomainError(
        "VALIDATION_ERROR",
        `The property has more than ${VALUES_MAX.toLocaleString("en")} values here: take one that has fewer`,
      );
    this.#counts.set(key, (counts = new Int32Array(this.#length)));
    return counts;
  }

  /** The most frequent values, of equals the first by name; behind them all others as one. */
  ranked(limit: number): { value: string; counts: Int32Array }[] {
    const all = [...this.#counts].map(([value, counts]) => ({ value, counts }));
    all.sort((a, b) => b.counts[0]! - a.counts[0]! || compareText(a.value, b.value));
    const rest = all.slice(limit);
    if (rest.length === 0) return all;
    const other = new Int32Array(this.#length);
    for (const { counts } of rest) for (let i = 0; i < other.length; i++) other[i]! += counts[i]!;
    return [...all.slice(0, limit), { value: OTHER, counts: other }];
  }
}

/** Returns a share with six decimals: 0 of nothing. */
export const rateOf = (part: number, whole: number): number => (whole === 0 ? 0 : rounded(part / whole, 6));

/** Numbers of which the median is asked: as many as come, eight bytes each. */
export class Numbers {
  #kept = new Float64Array(16);
  #size = 0;

  add(value: number): void {
    if (this.#size === this.#kept.length) {
      const longer = new Float64Array(2 * this.#size);
      longer.set(this.#kept);
      this.#kept = longer;
    }
    this.#kept[this.#size++] = value;
  }

  /** The middle one, or the mean of both in the middle; null of none. */
  median(): number | null {
    if (this.#size === 0) return null;
    const sorted = this.#kept.subarray(0, this.#size).toSorted();
    return (sorted[(this.#size - 1) >> 1]! + sorted[this.#size >> 1]!) / 2;
  }
}
