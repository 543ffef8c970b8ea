import { type RawBuilder, sql } from "kysely";
import { newId } from "./ids.ts";
import { asOneMessage } from "./statements.ts";
import type { Transact, Work } from "./work.ts";

/** Maximum rows of a page. */
const PAGE_ROWS = 1_000;
/** Rows of the first page, of which nobody knows how large they are. */
const FIRST_ROWS = 200;
/** Pages are made to have about so many characters. */
const PAGE_CHARS = 1024 * 1024;

/** What is read to its end: no loops over indexes, which the planner takes for few rows. */
const TO_THE_END = sql`set local enable_nestloop = off; set local jit = off; set local work_mem = '64MB';
  set local cursor_tuple_fraction = 1`;
/** One snapshot for all statements of a transaction that reads much of what it touches. */
export const SNAPSHOT = sql`set transaction isolation level repeatable read, read only; ${TO_THE_END}`;
/** As SNAPSHOT, for a transaction that keeps what it has found. */
export const WRITING_SNAPSHOT = sql`set transaction isolation level repeatable read; ${TO_THE_END}`;

/** The pages of a query's rows, as they are asked for. */
export type Pages<Row> = {
  /** Returns the next rows; none at the end. */
  next(): Promise<Row[]>;
  /** Begins again, with the same rows. */
  rewind(): Promise<void>;
  /** Lets go of them before the transaction ends. */
  close(): Promise<void>;
};

export type CursorParts = {
  transact: Transact;
  /** Is not ended by whoever asked: what was opened is closed also when they have gone. */
  closing: Transact;
  /** The database has one session for all, and whoever is in a transaction keeps everybody else out. */
  hasOneSession: boolean;
};

type Run = <T>(run: (work: Work) => Promise<T>) => Promise<T>;

const charsOf = (rows: readonly object[]): number => {
  let chars = 0;
  for (const row of rows)
    for (const value of Object.values(row))
      chars += typeof value === "string" || value instanceof Uint8Array ? value.length : 8;
  return chars;
};

/** Returns how many rows have about PAGE_CHARS, going by those before. */
const rowsFor = (rows: readonly object[]): number =>
  Math.max(1, Math.min(PAGE_ROWS, Math.floor((PAGE_CHARS * rows.length) / Math.max(1, charsOf(rows)))));

const pagesOf = <Row extends object>(
  inside: Run,
  name: RawBuilder<unknown>,
  firstRows = FIRST_ROWS,
): Pages<Row> => {
  let limit = firstRows;
  let isAtEnd = false;
  return {
    next: async () =>
      isAtEnd
        ? []
        : inside(async ({ db }) => {
            const { rows } = await sql<Row>`fetch ${sql.raw(String(limit))} from ${name}`.execute(db);
            isAtEnd = rows.length < limit;
            if (rows.length > 0) limit = rowsFor(rows);
            return rows;
          }),
    rewind: () =>
      inside(async ({ db }) => {
        await sql`move absolute 0 from ${name}`.execute(db);
        isAtEnd = false;
      }),
    close: () => inside(async ({ db }) => void (await sql`close ${name}`.execute(db))),
  };
};

const newName = (): RawBuilder<unknown> => sql.id(`pages_${newId().replaceAll("-", "")}`);

/**
 * Reads the rows of a query page by page, as part of a transaction that does other things too.
 * @param firstRows rows of the first page, where they may be large
 */
export const pagesIn = async <Row extends object>(
  work: Work,
  query: RawBuilder<unknown>,
  firstRows?: number,
): Promise<Pages<Row>> => {
  const name = newName();
  await asOneMessage(work.db, TO_THE_END);
  await sql`declare ${name} scroll cursor for ${query}`.execute(work.db);
  return pagesOf<Row>((run) => run(work), name, firstRows);
};

/**
 * Reads the rows of a query page by page, all of one snapshot. `visit` may take time between two pages, no
 * longer than a transaction may be idle: it is the only thing that waits for others while a transaction is
 * open. Where there is one session the cursor is held beyond its transaction, so that others come in between.
 * @param query a `select`; values of its columns come as the driver gives them
 */
export const readPages = async <Row extends object, T>(
  { transact, closing, hasOneSession }: CursorParts,
  query: RawBuilder<unknown>,
  visit: (pages: Pages<Row>) => Promise<T>,
): Promise<T> => {
  const name = newName();
  const declare = async ({ db }: Work): Promise<void> => {
    await asOneMessage(db, SNAPSHOT);
    const hold = hasOneSession ? sql`with hold` : sql``;
    await sql`declare ${name} scroll cursor ${hold} for ${query}`.execute(db);
  };
  if (!hasOneSession)
    return transact(async (work) => {
      await declare(work);
      return visit(pagesOf<Row>((run) => run(work), name));
    });
  await transact(declare);
  try {
    return await visit(pagesOf<Row>(transact, name));
  } finally {
    await closing(async ({ db }) => void (await sql`close ${name}`.execute(db)));
  }
};
