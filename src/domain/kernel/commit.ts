import { type ReadStatement, readWithin } from "./read.ts";
import type { RowScope, Transact } from "./work.ts";

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
