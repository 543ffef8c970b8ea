import {
  CompiledQuery,
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type RawBuilder,
} from "kysely";
import type { RowScope, Transact, Work } from "./work.ts";

/**
 * A statement that only reads, as text with `$1`, `$2`…: one of few texts, since connections keep its plan.
 */
export type ReadStatement = { text: string; values: readonly unknown[] };

/** Runs one statement that only reads, outside any transaction of the caller's. Returns its rows. */
export type Read = <Row>(statement: ReadStatement) => Promise<Row[]>;

/** Creates a Read whose statements see no more than `rowScope`; without one, everything. */
export type ReadAs = (rowScope?: RowScope) => Read;

/** Returns a Read within a transaction. */
export const readWithin =
  ({ db }: Pick<Work, "db">): Read =>
  async <Row>({ text, values }: ReadStatement): Promise<Row[]> =>
    (await db.executeQuery<Row>(CompiledQuery.raw(text, [...values]))).rows;

/** A Read that takes a transaction for each statement, for an engine that has no shorter way. */
export const readBy =
  (transact: Transact): Read =>
  <Row>(statement: ReadStatement): Promise<Row[]> =>
    transact((work) => readWithin(work)<Row>(statement));

/** Makes texts, and is connected to nothing. */
const compiler = new Kysely<Record<string, never>>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
});

/** Returns a statement as text; its text must not depend on what is asked. */
export const statementOf = (statement: RawBuilder<unknown>): ReadStatement => {
  const { sql: text, parameters: values } = statement.compile(compiler);
  return { text, values };
};
