import type { SqlEntityManager } from "@mikro-orm/sql";
import { type Kysely, sql } from "kysely";
import type { Actor } from "./caller.ts";
import type { EventData, EventType } from "./events/domain-events.ts";
import type { EmitOptions } from "./outbox-row.ts";

/** The tables are spoken to in SQL text, so their rows are typed where they are read. */
export type Db = Kysely<Record<string, never>>;

/**
 * What a transaction may see of the tables (row-level security). "web": the tenant's rows and those of the
 * named projects. "accounts": the accounts of all tenants, and nothing of players: for look-ups before a
 * tenant is known, and for super-admins. Without one: everything, for workers, the relay and ingestion.
 */
export type Sight = { by?: Actor } & (
  | { role: "web"; tenantId: string; projectIds: readonly string[] }
  | { role: "accounts" }
);

/**
 * One transaction in progress. Domain functions take a Work; they never open, flush or commit one, and they
 * speak to nothing but the database while they hold it.
 */
export type Work = {
  /** Unit of work for definitions and accounts. */
  em: SqlEntityManager;
  /** SQL inside this transaction, for hot paths. */
  db: Db;
  now: Date;
  /** Whose request this is; undefined for what the server does by itself. */
  by: Actor | undefined;
  /** Its turns among the transactions of this process; see `Turns` of lanes.ts. */
  turns: { readonly undone: number; take(key: string): void };
  /** Puts an event into the outbox of this commit. */
  emit<T extends EventType>(projectId: string, type: T, data: EventData<T>, options?: EmitOptions): void;
  /** Rings for outbox partitions once the commit is durable. */
  ring(parts: Iterable<number>): void;
  /** Rings for partitions of tracked events once the commit is durable. */
  ringEvents(parts: Iterable<number>): void;
  /** Rings for projects' long work once the commit is durable. */
  ringJobs(): void;
  /** Rings for webhooks that have something to send once the commit is durable. */
  ringWebhooks(ids: Iterable<string>): void;
  /** Runs once the commit is durable; a throw there is logged and undoes nothing. */
  afterCommit(run: () => void): void;
};

export type Transact = <T>(run: (work: Work) => Promise<T>) => Promise<T>;

/** Makes a Transact whose transactions see no more than `sight`. */
export type TransactAs = (sight: Sight) => Transact;

/** What is told when partitions of a queue have new rows. */
export type Doorbell = {
  outbox(parts: Iterable<number>): void;
  events(parts: Iterable<number>): void;
  jobs(): void;
  webhooks(ids: Iterable<string>): void;
};

/** For where nobody waits for what is committed. */
export const NO_DOORBELL: Doorbell = {
  outbox: () => undefined,
  events: () => undefined,
  jobs: () => undefined,
  webhooks: () => undefined,
};

/**
 * Marks statements without parameters and answers, which are sent as one message: with `begin` where they are
 * the first of a transaction. Nobody waits for them, as with UNANSWERED.
 */
export const ONE_MESSAGE = "/* one message */";

/**
 * Marks, at its beginning, a statement that is sent often with the same text: a connection keeps its plan for
 * some seconds. Planning the large ones takes longer than running them for a few rows.
 */
export const KEPT = "/* kept */";

/**
 * Marks, at its beginning, a statement whose answer nobody needs: the next one is sent without waiting for
 * it. What it throws is thrown by that one, at the latest by the commit. KEPT may follow.
 */
export const UNANSWERED = "/* unanswered */";

/**
 * Runs `run` under a savepoint: a throw undoes only what it did. MikroORM's own nested transaction would fork
 * the identity map; this one is plain SQL for the batch path.
 */
export const savepoint = async <T>({ db }: Work, run: () => Promise<T>): Promise<T> => {
  await sql`${sql.raw(UNANSWERED)} savepoint laurel`.execute(db);
  try {
    const value = await run();
    await sql`release savepoint laurel`.execute(db);
    return value;
  } catch (error) {
    await sql`rollback to savepoint laurel`.execute(db);
    // Else an outer one of this name would take it for its own.
    await sql`release savepoint laurel`.execute(db);
    throw error;
  }
};
