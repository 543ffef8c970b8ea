import { type QueryResult, type RawBuilder, sql } from "kysely";
import type { Db } from "./db.ts";

/**
 * How a statement is sent, where that is not as usual. The marks are comments at the beginning of its text:
 * the only thing that comes through the query builder to the connection (platform/statements.ts).
 */
export const MARKS = {
  oneMessage: "/* one message */",
  kept: "/* kept */",
  unanswered: "/* unanswered */",
} as const;

/**
 * Sends statements without parameters and answers as one message: with `begin` where they are the first of a
 * transaction. Nobody waits for them, as with `unanswered`.
 */
export const asOneMessage = async (db: Db, statements: RawBuilder<unknown>): Promise<void> => {
  await sql`${sql.raw(MARKS.oneMessage)} ${statements}`.execute(db);
};

/**
 * Runs a statement that is sent often with the same text: a connection keeps its plan for some seconds.
 * Planning the large ones takes longer than running them for a few rows.
 */
export const kept = <T>(db: Db, statement: RawBuilder<T>): Promise<QueryResult<T>> =>
  sql<T>`${sql.raw(MARKS.kept)} ${statement}`.execute(db);

/**
 * Sends a statement whose answer nobody needs: the next one is sent without waiting for it. What it throws is
 * thrown by that one, at the latest by the commit.
 */
export const unanswered = async (db: Db, statement: RawBuilder<unknown>): Promise<void> => {
  await sql`${sql.raw(MARKS.unanswered)} ${statement}`.execute(db);
};

/** As `unanswered`, for one that is sent often with the same text; see `kept`. */
export const unansweredKept = async (db: Db, statement: RawBuilder<unknown>): Promise<void> => {
  await sql`${sql.raw(MARKS.unanswered + MARKS.kept)} ${statement}`.execute(db);
};
