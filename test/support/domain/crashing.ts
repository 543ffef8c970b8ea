import { sql } from "kysely";
import type { Database } from "../../../src/platform/database.ts";
import type { Domain } from "./domain.ts";

type Query = (text: string, ...rest: unknown[]) => Promise<unknown>;
type Queryable = { query: Query };
type Engine = { transaction: (run: (tx: Queryable) => Promise<unknown>) => Promise<unknown> };

/** What a statement throws where the process would have died. */
export class Crash extends Error {}

export type Crashing = {
  /**
   * Runs `run` and lets its transaction die at its `at`-th statement, before it or after it: nothing of it is
   * committed. @returns whether it died; false when it has fewer statements and went through
   */
  crashAt(at: number, isAfter: boolean, run: () => Promise<unknown>): Promise<boolean>;
};

/** Makes transactions of an embedded database die at a statement of the test's choosing. */
export const makeCrashing = async ({ em }: Database): Promise<Crashing> => {
  const connection = em.getConnection() as unknown as { getNativeClient(): Promise<Engine> };
  const engine = await connection.getNativeClient();
  const transaction = engine.transaction.bind(engine);
  let left = Infinity;
  let dieAfter = false;
  let hasCrashed = false;
  const die = (): never => {
    hasCrashed = true;
    throw new Crash("the process dies here");
  };
  const watched = (query: Query): Query => {
    return async (text, ...rest) => {
      // The dead say nothing more, also not to savepoints.
      if (hasCrashed || (--left === 0 && !dieAfter)) die();
      const result = await query(text, ...rest);
      if (left === 0 && dieAfter) die();
      return result;
    };
  };
  engine.transaction = (run) =>
    transaction((tx) => {
      tx.query = watched(tx.query.bind(tx));
      return run(tx);
    });
  return {
    crashAt: async (at, isAfter, run) => {
      [left, dieAfter, hasCrashed] = [at, isAfter, false];
      try {
        await run();
      } catch (error) {
        if (!hasCrashed) throw error;
      } finally {
        left = Infinity;
      }
      const died = hasCrashed;
      hasCrashed = false;
      return died;
    },
  };
};

/** Processes what a process that died has left, as others do when it has not answered for a while. */
export const processLeft = async (domain: Domain): Promise<void> => {
  await domain.process();
  await domain.transact(({ db }) =>
    sql`update event_claims set asked_at = asked_at - interval '1 minute'`.execute(db),
  );
  await domain.process();
};
