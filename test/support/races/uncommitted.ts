import { sql } from "kysely";
import type { Transact, Work } from "../../../src/domain/kernel/work.ts";
import type { Database } from "../../../src/platform/database.ts";
import { eventually } from "../eventually.ts";

type Act = (work: Work) => Promise<unknown>;

/**
 * Commits one transaction once another has begun beside it, and waits for a lock or is over.
 * @returns the other, whatever becomes of it
 */
export const commitBeside = async (
  { database, domain: { transact } }: { database: Database; domain: { transact: Transact } },
  first: Act,
  second: Act,
): Promise<Promise<unknown>[]> => {
  const isMade = Promise.withResolvers<void>();
  const mayCommit = Promise.withResolvers<void>();
  const one = transact(async (work) => {
    await first(work);
    isMade.resolve();
    await mayCommit.promise;
  });
  await isMade.promise;
  let isOver = false;
  const two = transact(second).finally(() => {
    isOver = true;
  });
  two.catch(() => undefined);
  await eventually(async () => {
    if (isOver) return true;
    const { rows } = await sql`
      select from pg_locks l join pg_database d on d.oid = l.database
      where not l.granted and d.datname = current_database()`.execute(database.em.fork().getKysely());
    return rows.length > 0;
  });
  mayCommit.resolve();
  await one;
  // In a list, because a promise alone would be waited for.
  return [two];
};
