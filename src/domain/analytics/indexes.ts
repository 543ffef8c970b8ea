import { sql } from "kysely";
import { asOneMessage } from "../kernel/statements.ts";
import type { Work } from "../kernel/work.ts";

/** Runs statements that may read few of many rows: a question's transaction plans for reading all of them. */
export const withIndexes = async <T>({ db }: Work, run: () => Promise<T>): Promise<T> => {
  await asOneMessage(db, sql`set local enable_nestloop = on`);
  const result = await run();
  await asOneMessage(db, sql`set local enable_nestloop = off`);
  return result;
};
