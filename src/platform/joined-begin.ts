import { KEPT, ONE_MESSAGE } from "../domain/work.ts";

/** The part of pg's client that is used, and its pool. */
type Client = { query(text: unknown, values?: unknown, callback?: unknown): unknown };
type ClientClass = new (...options: never[]) => Client;
export type ClientPool = { Client: ClientClass };

const isOneMessage = (text: unknown): boolean => typeof text === "string" && text.startsWith(ONE_MESSAGE);

/** Statements whose plans are kept; others that are marked are planned each time. */
const KEPT_MAX = 200;
/**
 * How long plans are kept, in ms. Tables grow, and the plan for a small one may read all of it: the server
 * itself looks again only when statistics were gathered.
 */
const PLANS_KEPT_MS = 5_000;

const names = new Map<string, string>();

/** The name of a prepared statement of this text; undefined for one that is not to be kept. */
const keptName = (text: unknown): string | undefined => {
  if (typeof text !== "string" || !text.startsWith(KEPT)) return undefined;
  const known = names.get(text);
  if (known !== undefined || names.size >= KEPT_MAX) return known;
  const name = `kept_${names.size}`;
  names.set(text, name);
  return name;
};

/**
 * Makes the pool's clients keep `begin` back until the next statement. Marked ones go out with it, in one
 * message, which stops where `begin` fails; any other is sent once `begin` has been answered. Those that are
 * marked as kept are prepared.
 */
export const joinBegin = (pool: ClientPool): void => {
  pool.Client = class extends pool.Client {
    private isKept = false;
    private plannedMs = 0;

    override query(text: unknown, values?: unknown, callback?: unknown): unknown {
      if (text === "begin") {
        this.isKept = true;
        return Promise.resolve({ command: "BEGIN", rowCount: null, rows: [] });
      }
      if (!this.isKept) return this.#send(text, values, callback);
      this.isKept = false;
      if (isOneMessage(text)) return super.query(`begin; ${String(text)}`);
      const begun = super.query(this.#begin()) as Promise<unknown>;
      return begun.then(() => this.#send(text, values, callback));
    }

    #begin(): string {
      if (performance.now() - this.plannedMs < PLANS_KEPT_MS) return "begin";
      this.plannedMs = performance.now();
      return "begin; discard plans";
    }

    #send(text: unknown, values: unknown, callback: unknown): unknown {
      const name = keptName(text);
      return name === undefined
        ? super.query(text, values, callback)
        : super.query({ name, text, values }, callback);
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
