import { CompiledQuery } from "kysely";
import type { RowScope, Transact } from "./work.ts";

/**
 * A statement that only reads, as text with `$1`, `$2`…: one of few texts, since connections keep its plan.
 */
export type ReadStatement = { text: string; values: readonly unknown[] };

/** Runs one statement that only reads, outside any transaction of the caller's. Returns its rows. */
export type Read = <Row>(statement: ReadStatement) => Promise<Row[]>;

/** Creates a Read whose statements see no more than `rowScope`; without one, everything. */
export type ReadAs = (rowScope?: RowScope) => Read;

/** A Read that takes a transaction for each statement, for an engine that has no shorter way. */
export const readBy =
  (transact: Transact): Read =>
  <Row>({ text, values }: ReadStatement): Promise<Row[]> =>
    transact(async ({ db }) => (await db.executeQuery<Row>(CompiledQuery.raw(text, [...values]))).rows);
