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
