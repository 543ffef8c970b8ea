import { type EntityName, type FilterQuery, raw } from "@mikro-orm/core";
import { type RawBuilder, sql } from "kysely";
import type { Work } from "./work.ts";

/** Maximum exact count of a list; a longer list reports this number, flagged as an estimate. */
export const TOTAL_EXACT_MAX = 100_000;

export type Total = { total: number; isEstimated: boolean };

/** Counts the rows of a filter, at most TOTAL_EXACT_MAX + 1 of them. */
export const countUpTo = async <T extends object>(
  { em }: Work,
  entity: EntityName<T>,
  where: FilterQuery<T>,
): Promise<Total> => {
  const some = em
    .createQueryBuilder(entity)
    .select(raw("1 as one"))
    .where(where as never)
    .limit(TOTAL_EXACT_MAX + 1);
  const row = await em
    .createQueryBuilder(some as never, "counted")
    .select(raw("count(*) as total"))
    .execute<{ total: string | number }>("get", false);
  return totalOf(row.total);
};

/** As `countUpTo`, for SQL: `source` is the text after `from`. */
export const countRows = async ({ db }: Work, source: RawBuilder<unknown>): Promise<Total> => {
  const { rows } = await sql<{ total: string | number }>`
    select count(*) as total
    from (select 1 from ${source} limit ${TOTAL_EXACT_MAX + 1}) as counted`.execute(db);
  return totalOf(rows[0]?.total ?? 0);
};

type Counted = { total: string | number };

/**
 * Reads a page of rows that carry the total of all (`count(*) over ()`); past the last page one more statement
 * asks for it. @param select the statement, given what follows its conditions
 */
export const readCounted = async <R extends Counted>(
  { db }: Work,
  select: (rest: RawBuilder<unknown>) => RawBuilder<R>,
  page: RawBuilder<unknown>,
): Promise<{ rows: R[]; total: number }> => {
  const { rows } = await select(page).execute(db);
  const first = rows[0] ?? (await select(sql`limit 1`).execute(db)).rows[0];
  return { rows, total: Number(first?.total ?? 0) };
};

const totalOf = (counted: string | number): Total => {
  const total = Number(counted);
  return { total: Math.min(total, TOTAL_EXACT_MAX), isEstimated: total > TOTAL_EXACT_MAX };
};
