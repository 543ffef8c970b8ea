import { ONE_MESSAGE } from "../domain/work.ts";

/** The part of pg's client that is used, and its pool. */
type Client = { query(text: unknown, values?: unknown, callback?: unknown): unknown };
type ClientClass = new (...options: never[]) => Client;
export type ClientPool = { Client: ClientClass };

const isOneMessage = (text: unknown): boolean => typeof text === "string" && text.startsWith(ONE_MESSAGE);

/**
 * Makes the pool's clients keep `begin` back until the next statement. Marked ones go out with it, in one
 * message, which stops where `begin` fails; any other is sent once `begin` has been answered.
 */
export const joinBegin = (pool: ClientPool): void => {
  pool.Client = class extends pool.Client {
    private isKept = false;

    override query(text: unknown, values?: unknown, callback?: unknown): unknown {
      if (text === "begin") {
        this.isKept = true;
        return Promise.resolve({ command: "BEGIN", rowCount: null, rows: [] });
      }
      if (!this.isKept) return super.query(text, values, callback);
      this.isKept = false;
      if (isOneMessage(text)) return super.query(`begin; ${String(text)}`);
      const begun = super.query("begin") as Promise<unknown>;
      return begun.then(() => super.query(text, values, callback));
    }
  };
};

type Result = { rows: unknown[] };
type Transaction = {
  query(text: string, values?: unknown[], options?: object): Promise<Result>;
  exec(text: string): Promise<Result[]>;
};
export type Embedded = { transaction<T>(run: (tx: Transaction) => Promise<T>): Promise<T> };

/** Makes PGlite take marked statements in one message; any other takes five. */
export const sendAsOneMessage = (pglite: Embedded): void => {
  const transaction = pglite.transaction.bind(pglite);
  pglite.transaction = (run) =>
    transaction((tx) => {
      const query: Transaction["query"] = async (text, values, options) => {
        if (!isOneMessage(text)) return tx.query(text, values, options);
        const [result = { rows: [] }] = await tx.exec(text);
        return result;
      };
      return run({ ...tx, query });
    });
};
