import { type QueryResult, type RawBuilder, sql } from "kysely";
import type { Db } from "./db.ts";

/**
 * Marks for statements that are sent in a special way. They are comments at the beginning of its text, the
 * only thing that passes through the query builder to the connection (platform/statements.ts).
 */
export const MARKS = {
  oneMessage: "/* one message */",
  kept: "/* kept */",
  unanswered: "/* unanswered */",
} as const;

/**
 * Sends statements without parameters and results as one message: with `begin` where they are the first of a
 * transaction. Their completion is not awaited, as with `unanswered`.
 */
export const asOneMessage = async (db: Db, statements: RawBuilder<unknown>): Promise<void> => {
  await sql`${sql.raw(MARKS.oneMessage)} ${statements}`.execute(db);
};

/**
 * Runs a statement that is often sent with the same text: the connection keeps its plan for some seconds.
 * Planning a large statement takes longer than running it for a few rows.
 */
export const kept = <T>(db: Db, statement: RawBuilder<T>): Promise<QueryResult<T>> =>
  sql<T>`${sql.raw(MARKS.kept)} ${statement}`.execute(db);

/**
 * Sends a statement without awaiting its result; the next one is sent at once. An error is thrown by a later
 * statement, at the latest by the commit. Each answer that is awaited costs a turn of a busy event loop, under
 * the locks of the transaction.
 */
export const unanswered = async (db: Db, statement: RawBuilder<unknown>): Promise<void> => {
  await sql`${sql.raw(MARKS.unanswered)} ${statement}`.execute(db);
};

/** As `unanswered`, for a statement that is often sent with the same text; see `kept`. */
export const unansweredKept = async (db: Db, statement: RawBuilder<unknown>): Promise<void> => {
  await sql`${sql.raw(MARKS.unanswered + MARKS.kept)} ${statement}`.execute(db);
};
