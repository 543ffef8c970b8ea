import type { CommitAs } from "../domain/kernel/commit.ts";
import type { ReadAs, ReadStatement } from "../domain/kernel/read.ts";
import type { RowScope } from "../domain/kernel/work.ts";

/** The part of pg's pool, with the clients of statements.ts, that is used. */
export type ReadPool = {
  connect(): Promise<{
    scoped(
      rowScope: RowScope | undefined,
      statements: readonly ReadStatement[],
    ): Promise<{ rows: unknown[] }>;
    release(): void;
  }>;
};

type Run = (rowScope: RowScope | undefined, statements: readonly ReadStatement[]) => Promise<unknown[]>;

const runOn =
  (pool: ReadPool): Run =>
  async (rowScope, statements) => {
    const client = await pool.connect();
    try {
      return (await client.scoped(rowScope, statements)).rows;
    } finally {
      // A failed statement leaves nothing behind, and the pool itself notices a connection that has died.
      client.release();
    }
  };

/** Creates reads and transactions that are one message to PostgreSQL, whatever their scope. */
export const inOneMessage = (pool: ReadPool): { readAs: ReadAs; commitAs: CommitAs } => {
  const run = runOn(pool);
  return {
    readAs:
      (rowScope) =>
      async <Row>(statement: ReadStatement) =>
        (await run(rowScope, [statement])) as Row[],
    commitAs:
      (rowScope) =>
      async <Row>(statements: readonly ReadStatement[]) =>
        (await run(rowScope, statements)) as Row[],
  };
};
