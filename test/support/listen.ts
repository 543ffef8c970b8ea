import type { Database } from "../../src/platform/database.ts";

type Queryable = { query: (text: string, ...rest: unknown[]) => Promise<unknown> };
type Engine = { transaction: (run: (tx: Queryable) => Promise<unknown>) => Promise<unknown> };

/** Notes every statement that a transaction sends to the engine. */
export const listen = async ({ em }: Database): Promise<string[]> => {
  const connection = em.getConnection() as unknown as { getNativeClient(): Promise<Engine> };
  const engine = await connection.getNativeClient();
  const statements: string[] = [];
  const transaction = engine.transaction.bind(engine);
  engine.transaction = (run) =>
    transaction((tx) => {
      const query = tx.query.bind(tx);
      tx.query = (text, ...rest) => {
        statements.push(text.replaceAll(/\s+/g, " ").trim().slice(0, 60));
        return query(text, ...rest);
      };
      return run(tx);
    });
  return statements;
};
