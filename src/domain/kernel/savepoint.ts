import { sql } from "kysely";
import { unanswered } from "./statements.ts";
import type { Work } from "./work.ts";

/**
 * Runs `run` under a savepoint: an error rolls back only its own changes, and what was emitted with them is not
 * told. MikroORM's nested transaction would
 * fork the identity map; this one is plain SQL for the batch path.
 */
export const savepoint = async <T>({ db, mark }: Work, run: () => Promise<T>): Promise<T> => {
  const forget = mark();
  await unanswered(db, sql`savepoint laurel`);
  try {
    const value = await run();
    await sql`release savepoint laurel`.execute(db);
    return value;
  } catch (error) {
    forget();
    await sql`rollback to savepoint laurel`.execute(db);
    // Otherwise an outer savepoint of the same name would refer to it.
    await sql`release savepoint laurel`.execute(db);
    throw error;
  }
};
