import { z } from "zod";
import { invalid } from "./errors.ts";
import { type RawBuilder, sql } from "kysely";

export type Direction = "asc" | "desc";

/**
 * The orders in which a list can be read: what each name sorts by, the usual one first, and its usual
 * direction.
 */
export type Orders<S extends string, V = RawBuilder<unknown>> = {
  by: Readonly<Record<S, V>>;
  usual: Direction;
};

/** The order that a query asks for; what it leaves out is the list's usual. */
export type Ordered<S extends string> = { sort?: S | undefined; order?: Direction | undefined };

/** Name of an order of such a list. */
export type SortOf<O extends Orders<string, unknown>> = Extract<keyof O["by"], string>;

/** Returns the names of a list's orders, the usual one first. */
export const sortsOf = <S extends string>({ by }: Orders<S, unknown>): [S, ...S[]] =>
  Object.keys(by) as [S, ...S[]];

const chosen = <S extends string, V>(orders: Orders<S, V>, { sort, order }: Ordered<S>): [V, Direction] => [
  orders.by[sort ?? sortsOf(orders)[0]],
  order ?? orders.usual,
];

/** Returns the text after `order by`; `tie` is unique and sorts equal rows, in the same direction. */
export const orderBy = <S extends string>(
  orders: Orders<S>,
  asked: Ordered<S>,
  tie: RawBuilder<unknown>,
): RawBuilder<unknown> => {
  const [column, direction] = chosen(orders, asked);
  return sql`${column} ${sql.raw(direction)}, ${tie} ${sql.raw(direction)}`;
};

/** Returns the `orderBy` of entities with an id, for orders by their properties. */
export const entityOrder = <S extends string>(
  orders: Orders<S, string>,
  asked: Ordered<S>,
): Record<string, Direction>[] => {
  const [property, direction] = chosen(orders, asked);
  return [{ [property]: direction }, { id: direction }];
};

export const PAGE_LIMIT_DEFAULT = 20;
export const PAGE_LIMIT_MAX = 100;
/** Maximum bytes of documents on a page of those that may have 16 KiB or more; one is always shown. */
export const PAGE_BYTES_MAX = 1024 * 1024;
/** Maximum of `page * limit`; deeper reading goes through filters. */
export const PAGE_DEPTH_MAX = 1_000_000;
/** The same of a large table that is sorted by a column without an index. */
export const UNINDEXED_DEPTH_MAX = 100_000;

export const PageQuery = z.object({
  page: z.coerce.number().int().min(1).max(PAGE_DEPTH_MAX).default(1),
  limit: z.coerce.number().int().min(1).max(PAGE_LIMIT_MAX).default(PAGE_LIMIT_DEFAULT),
});
export type PageQuery = z.infer<typeof PageQuery>;

export type Page<T> = {
  data: T[];
  pagination: { page: number; limit: number; total: number; totalPages: number };
};

export const pageOf = <T>(data: T[], total: number, { page, limit }: PageQuery): Page<T> => ({
  data,
  pagination: { page, limit, total, totalPages: Math.ceil(total / limit) },
});

/** @throws DomainError VALIDATION_ERROR beyond `depthMax` */
export const offsetOf = ({ page, limit }: PageQuery, depthMax = PAGE_DEPTH_MAX): number => {
  if (page * limit > depthMax) throw invalid("page", `page times limit may be at most ${depthMax}`);
  return (page - 1) * limit;
};

/** Builds the response schema of a list of `item`. */
export const pageBody = <S extends z.ZodType>(item: S) =>
  z.object({
    data: z.array(item),
    pagination: z.object({ page: z.int(), limit: z.int(), total: z.int(), totalPages: z.int() }),
  });
