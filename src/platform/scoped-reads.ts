import type { ReadAs, ReadStatement } from "../domain/kernel/read.ts";
import type { RowScope } from "../domain/kernel/work.ts";

/** The part of pg's pool, with the clients of statements.ts, that is used. */
export type ReadPool = {
  connect(): Promise<{
    scoped(rowScope: RowScope | undefined, statement: ReadStatement): Promise<{ rows: unknown[] }>;
    release(): void;
  }>;
};

/** Creates reads that are one message to PostgreSQL, whatever their scope. */
export const scopedReads =
  (pool: ReadPool): ReadAs =>
  (rowScope) =>
  async <Row>(statement: ReadStatement): Promise<Row[]> => {
    const client = await pool.connect();
    try {
      return (await client.scoped(rowScope, statement)).rows as Row[];
    } finally {
      // A failed statement leaves nothing behind, and the pool itself notices a connection that has died.
      client.release();
    }
  };
