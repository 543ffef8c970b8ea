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
  parse(message: { name: string; text: string }): void;
  sync(): void;
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

/** A statement that the connection has prepared. */
type Prepared = { name: string; values: readonly unknown[] };

/**
 * Creates the class of queries that run prepared statements and return the rows of the last. What comes
 * before one `Sync` is one transaction to PostgreSQL: it is committed, or undone, before the `Sync` is
 * answered, so there is neither `begin` nor `commit`, and one message there, one back.
 */
const ledQueryClass = (base: QueryClass) =>
  class LedQuery extends base {
    readonly #leads: readonly Prepared[];
    /** Those of which the end has not been heard. */
    #leading: number;

    constructor(config: QueryConfig, leads: readonly Prepared[], callback: Done) {
      super(config, undefined, callback);
      this.#leads = leads;
      this.#leading = leads.length;
    }

    override prepare(connection: Connection): void {
      for (const { name, values } of this.#leads) {
        connection.bind({ portal: "", statement: name, values });
        connection.execute({ portal: "" });
      }
      super.prepare(connection);
    }

    override handleDataRow(message: unknown): void {
      if (this.#leading === 0) super.handleDataRow(message);
    }

    override handleCommandComplete(message: unknown, connection: Connection): void {
      if (this.#leading > 0) this.#leading--;
      else super.handleCommandComplete(message, connection);
    }
  };

/** Creates the class of queries that prepare a statement and do not run it. */
const preparingClass = (base: QueryClass) =>
  class Preparing extends base {
    readonly #statement: { name: string; text: string };

    constructor({ name, text }: { name: string; text: string }, callback: Done) {
      super({ name, text, values: [] }, undefined, callback);
      this.#statement = { name, text };
    }

    override prepare(connection: Connection): void {
      connection.parse(this.#statement);
      connection.sync();
    }
  };

type Answer = { rows: unknown[] };
type Client = {
  query(text: unknown, values?: unknown, callback?: unknown): unknown;
  readonly waiting: Waiting;
  readonly plans: { areOld(): boolean };
};

/** Names of the statements that are run in front of others; few texts. */
const leadNames = new Map<string, string>();

const leadNameOf = (text: string): string => {
  const name = leadNames.get(text) ?? `lead_${leadNames.size}`;
  leadNames.set(text, name);
  return name;
};

/** Adds statements that are a transaction of their own, within a scope, to the pool's clients. */
export const withScopes = <T extends new (options: never) => Client>(
  base: T & { Query: QueryClass },
  usual: Timeouts,
) => {
  const LedQuery = ledQueryClass(base.Query);
  const Preparing = preparingClass(base.Query);
  // TypeScript wants a mixin's constructor to take any arguments.
  return class extends (base as unknown as new (options: never) => Client) {
    readonly #prepared = new Set<string>();

    /** Prepares for `scoped`; to be called once. */
    prepareScopes(): void {
      void Promise.resolve(super.query({ ...ENTER })).catch(() => undefined);
    }

    /**
     * Runs prepared statements as one transaction, and returns the rows of the last: one message, one answer.
     * All but the last must be of few texts.
     */
    scoped(rowScope: RowScope | undefined, statements: readonly ReadStatement[]): Promise<Answer> {
      if (this.plans.areOld()) void Promise.resolve(super.query("discard plans")).catch(() => undefined);
      countSent({ statements: statements.length, roundTrips: 1 });
      const { text, values } = statements.at(-1)!;
      let unprepared: Error | undefined;
      const leads = statements.slice(0, -1).map((statement) =>
        this.#leadOf(statement, (error) => {
          unprepared ??= error;
        }),
      );
      if (rowScope) leads.unshift({ name: ENTER.name, values: enterValues(rowScope) });
      const config = { name: nameOf(text) ?? "", text, values };
      const answer = new Promise<Answer>((resolve, reject) => {
        const done: Done = (error, found) => (error ? reject(unprepared ?? error) : resolve(found));
        super.query(new LedQuery(config, leads, done));
      });
      this.waiting.expect(answer, chosenTimeouts() ?? usual);
      return answer;
    }

    /** Has a statement prepared, in front of the message that needs it. */
    #leadOf({ text, values }: ReadStatement, onError: (error: Error) => void): Prepared {
      const name = leadNameOf(text);
      if (this.#prepared.has(name)) return { name, values };
      this.#prepared.add(name);
      const done: Done = (error) => {
        if (!error) return;
        this.#prepared.delete(name);
        onError(error);
      };
      super.query(new Preparing({ name, text }, done));
      return { name, values };
    }
  } as unknown as T & { Query: QueryClass };
};
