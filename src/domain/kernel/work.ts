import type { SqlEntityManager } from "@mikro-orm/sql";
import type { Actor } from "./caller.ts";
import type { EventData, EventType } from "./events/domain-events.ts";
import type { EmitOptions } from "./outbox-row.ts";
import type { Db } from "./db.ts";

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
  turns: { readonly undone: number; take(key: string): void; has(key: string): boolean };
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
