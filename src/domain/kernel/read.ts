import {
  CompiledQuery,
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type RawBuilder,
} from "kysely";
import { DomainError } from "./errors.ts";
import { isOf } from "./outages.ts";
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

/**
 * Runs statements one after another as a transaction that needs no answer in between, and so is one message:
 * each sees what was committed before it began. Those before the last are of few texts.
 * @returns the rows of the last, once the commit is durable
 */
export type Commit = <Row>(statements: readonly ReadStatement[]) => Promise<Row[]>;

/** Creates a Commit whose statements see no more than `rowScope`. */
export type CommitAs = (rowScope: RowScope) => Commit;

/** A Commit by a transaction, for an engine that has no shorter way. */
export const commitBy =
  (transact: Transact): Commit =>
  <Row>(statements: readonly ReadStatement[]) =>
    transact(async (work) => {
      let rows: Row[] = [];
      for (const statement of statements) rows = await readWithin(work)<Row>(statement);
      return rows;
    });

/**
 * PostgreSQL's error codes for missing names and types, plans whose tables have changed, and tables dropped
 * during a statement.
 */
const OF_SCHEMA = /^(42...|0A000|XX000)$/;

/** How long the result of a failed schema check is reused, in ms. */
const FOUND_MS = 1_000;

/** Seconds after which a request may be retried. */
const RETRY_SECONDS = 5;

/** Wrappers of what accesses the database. */
type SchemaReports = {
  transact(transact: Transact): Transact;
  read(read: Read): Read;
  commit(commit: Commit): Commit;
};

/**
 * Makes transactions and reads report failures that are only due to a schema of another version, while
 * migrations are reverted or a newer version has migrated: neither a bug nor the fault of the operation.
 * @param isOurs returns whether the database has this version's schema
 * @returns wrappers that throw SERVICE_UNAVAILABLE NOT_READY then
 */
export const reportOtherSchema = (isOurs: () => Promise<boolean>): SchemaReports => {
  let othersUntilMs = -Infinity;
  const isOthers = async (): Promise<boolean> => {
    if (performance.now() < othersUntilMs) return true;
    if (await isOurs().catch(() => true)) return false;
    othersUntilMs = performance.now() + FOUND_MS;
    return true;
  };
  const explain = async (error: unknown): Promise<never> => {
    if (!isOf(error, OF_SCHEMA) || !(await isOthers())) throw error;
    throw new DomainError("SERVICE_UNAVAILABLE", "The database is being migrated: try again", {
      reason: "NOT_READY",
      retryAfterSeconds: RETRY_SECONDS,
    });
  };
  return {
    transact: (transact) => async (run) => transact(run).catch(explain),
    read: (read) => async (statement) => read<never>(statement).catch(explain),
    commit: (commit) => async (statements) => commit<never>(statements).catch(explain),
  };
};
