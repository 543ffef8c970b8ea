import { ACCOUNTS_ROLE, WEB_ROLE } from "../domain/kernel/row-roles.ts";
import type { ReadStatement } from "../domain/kernel/read.ts";
import { countSent } from "../domain/kernel/statement-counts.ts";
import { chosenTimeouts, type Timeouts } from "../domain/kernel/timeouts.ts";
import type { RowScope } from "../domain/kernel/work.ts";
import { nameOf } from "./prepared-names.ts";
import type { Waiting } from "./waiting.ts";

/** The parts of pg's connection that are used: messages of PostgreSQL's protocol. */
type Connection = {
  parsedStatements: Record<string, string>;
  bind(message: { portal: string; statement: string; values: readonly unknown[] }): void;
  execute(message: { portal: string }): void;
};

/** The parts of pg's query that are used. */
type Query = {
  prepare(connection: Connection): void;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: Connection): void;
};
type QueryConfig = { name: string; text: string; values: readonly unknown[] };
type Done = (error: Error | null, answer: { rows: unknown[] }) => void;
// TypeScript requires `any` for a base class's constructor parameters; this is as good.
export type QueryClass = new (config: QueryConfig, values?: undefined, callback?: Done) => Query;

/** Enters a role and sets tenant and projects for the transaction: prepared once on each connection. */
const ENTER = {
  name: "enter_scope",
  text: `select set_config('role', $1, true), set_config('laurel.tenant_id', $2, true),
    set_config('laurel.project_ids', $3, true)`,
  /** Enters nothing: for the preparation. */
  values: ["none", "", ""],
} as const;

const enterValues = (rowScope: RowScope): string[] =>
  rowScope.role === "web"
    ? [WEB_ROLE, rowScope.tenantId, `{${rowScope.projectIds.join(",")}}`]
    : [ACCOUNTS_ROLE, "", "{}"];

/**
 * Creates the class of queries that run one prepared statement within a row scope. What comes before one
 * `Sync` is one transaction to PostgreSQL, so the scope is entered by another prepared statement in front,
 * ends with this one, and there is neither `begin` nor `commit`: one message there, one back.
 */
const scopedQueryClass = (base: QueryClass) =>
  class ScopedQuery extends base {
    readonly #scope: RowScope | undefined;
    #isEntering: boolean;

    constructor(config: QueryConfig, scope: RowScope | undefined, callback: Done) {
      super(config, undefined, callback);
      this.#scope = scope;
      this.#isEntering = scope !== undefined;
    }

    override prepare(connection: Connection): void {
      if (this.#scope) {
        connection.bind({ portal: "", statement: ENTER.name, values: enterValues(this.#scope) });
        connection.execute({ portal: "" });
      }
      super.prepare(connection);
    }

    override handleDataRow(message: unknown): void {
      if (!this.#isEntering) super.handleDataRow(message);
    }

    override handleCommandComplete(message: unknown, connection: Connection): void {
      if (this.#isEntering) this.#isEntering = false;
      else super.handleCommandComplete(message, connection);
    }
  };

type Answer = { rows: unknown[] };
type Client = {
  query(text: unknown, values?: unknown, callback?: unknown): unknown;
  readonly waiting: Waiting;
  readonly plans: { areOld(): boolean };
};

/** Adds statements that are a transaction of their own, within a scope, to the pool's clients. */
export const withScopes = <T extends new (options: never) => Client>(
  base: T & { Query: QueryClass },
  usual: Timeouts,
) => {
  const ScopedQuery = scopedQueryClass(base.Query);
  // TypeScript wants a mixin's constructor to take any arguments.
  return class extends (base as unknown as new (options: never) => Client) {
    /** Prepares for `scoped`; to be called once. */
    prepareScopes(): void {
      void Promise.resolve(super.query({ ...ENTER })).catch(() => undefined);
    }

    /** Runs one prepared statement: one message, one answer. */
    scoped(rowScope: RowScope | undefined, { text, values }: ReadStatement): Promise<Answer> {
      if (this.plans.areOld()) void Promise.resolve(super.query("discard plans")).catch(() => undefined);
      countSent({ statements: 1, roundTrips: 1 });
      const config = { name: nameOf(text) ?? "", text, values };
      const answer = new Promise<Answer>((resolve, reject) => {
        const done: Done = (error, found) => (error ? reject(error) : resolve(found));
        super.query(new ScopedQuery(config, rowScope, done));
      });
      this.waiting.expect(answer, chosenTimeouts() ?? usual);
      return answer;
    }
  } as unknown as T & { Query: QueryClass };
};
