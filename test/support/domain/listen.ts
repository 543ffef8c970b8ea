import type { Database } from "../../../src/platform/database.ts";

type Queryable = { query: (text: string, ...rest: unknown[]) => Promise<{ rows: unknown[] }> };
type Engine = { transaction: (run: (tx: Queryable) => Promise<unknown>) => Promise<unknown> };

/** Notes every statement that a transaction sends to the engine, and tells of the rows of each answer. */
export const listen = async (
  { em }: Database,
  onRows: (count: number) => void = () => undefined,
): Promise<string[]> => {
  const connection = em.getConnection() as unknown as { getNativeClient(): Promise<Engine> };
  const engine = await connection.getNativeClient();
  const statements: string[] = [];
  const transaction = engine.transaction.bind(engine);
  engine.transaction = (run) =>
    transaction((tx) => {
      const query = tx.query.bind(tx);
      tx.query = async (text, ...rest) => {
        statements.push(text.replaceAll(/\s+/g, " ").trim().slice(0, 60));
        const result = await query(text, ...rest);
        onRows(result.rows.length);
        return result;
      };
      return run(tx);
    });
  return statements;
};
